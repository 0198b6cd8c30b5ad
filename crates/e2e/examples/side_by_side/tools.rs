//! The load generators: librdkafka's own performance program, built from the sources that the rdkafka crate brings,
//! and Kafka's, from its jars.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{checkout, jars};

/// Programs that bring load.
pub(crate) struct Tools {
    performance: PathBuf,
    jars: PathBuf,
}

impl Tools {
    /// Builds and fetches what is missing.
    pub(crate) fn prepare() -> Result<Self> {
        Ok(Self { performance: build_rdkafka_performance()?, jars: jars::fetch()? })
    }

    /// The version in the name of the broker's jar.
    pub(crate) fn kafka_version(&self) -> String {
        let names = std::fs::read_dir(&self.jars).into_iter().flatten().flatten().map(|jar| jar.file_name());
        let version = |name: std::ffi::OsString| {
            let name = name.to_str()?.strip_prefix("kafka_2.13-")?.strip_suffix(".jar")?.to_owned();
            Some(name)
        };
        names.filter_map(version).next().unwrap_or_else(|| "unknown".to_owned())
    }

    /// Produces with librdkafka, 1 KiB a record, acks=all; records per second.
    pub(crate) fn rdkafka_produce(&self, bootstrap: &str, topic: &str, records: u64) -> Result<f64> {
        let mut command = self.rdkafka(bootstrap, topic, records);
        command.args(["-P", "-s", "1024", "-a", "-1"]);
        rate(&run(&mut command)?, " msgs/s", &format!("{records} delivered ("))
    }

    /// Consumes partition 0 from its start with librdkafka; records per second.
    pub(crate) fn rdkafka_consume(&self, bootstrap: &str, topic: &str, records: u64) -> Result<f64> {
        let mut command = self.rdkafka(bootstrap, topic, records);
        command.args(["-C", "-o", "beginning"]);
        rate(&run(&mut command)?, " msgs/s", &format!("{records} messages ("))
    }

    fn rdkafka(&self, bootstrap: &str, topic: &str, records: u64) -> Command {
        let mut command = Command::new(&self.performance);
        command.args(["-b", bootstrap, "-t", topic, "-p", "0", "-c", &records.to_string()]);
        command
    }

    /// Produces with Kafka's own tool, 1 KiB a record, acks=all, and these properties; records per second.
    pub(crate) fn java_produce(
        &self,
        bootstrap: &str,
        topic: &str,
        records: u64,
        properties: &[&str],
    ) -> Result<f64> {
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-cp"]).arg(self.jars.join("*"));
        command.args([
            "org.apache.kafka.tools.ProducerPerformance",
            "--topic",
            topic,
            "--record-size",
            "1024",
        ]);
        command.args([
            "--num-records",
            &records.to_string(),
            "--throughput",
            "-1",
            "--producer-props",
            "acks=all",
        ]);
        command.arg(format!("bootstrap.servers={bootstrap}")).args(properties);
        rate(&run(&mut command)?, " records/sec", &format!("{records} records sent"))
    }
}

/// The last number in front of `unit`. Its line has to say `done` as well: an exit code of 0 may mean that a program
/// has given up on some of its records.
fn rate(output: &str, unit: &str, done: &str) -> Result<f64> {
    let last = output.lines().rev().find(|line| line.contains(unit));
    let line = last.with_context(|| format!("find a rate in:\n{output}"))?;
    ensure!(format!(" {line}").contains(&format!(" {done}")), "find {done:?} in the end of:\n{output}");
    let before = line.rfind(unit).map_or(line, |at| &line[..at]);
    let digits = before.rsplit(|c: char| !(c.is_ascii_digit() || c == '.')).next().unwrap_or_default();
    digits.parse().with_context(|| format!("read a rate in:\n{output}"))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} failed:\n{said}");
    Ok(said)
}

fn build_rdkafka_performance() -> Result<PathBuf> {
    let build = checkout::tools().join("librdkafka");
    let program = build.join("examples/rdkafka_performance");
    if program.exists() {
        return Ok(program);
    }
    let sources = librdkafka_sources()?;
    if !build.exists() {
        run(Command::new("cp").arg("-r").arg(&sources).arg(&build))?;
    }
    let without = ["ssl", "gssapi", "curl", "sasl", "zstd"].map(|part| format!("--disable-{part}"));
    run(Command::new("./configure").args(without).current_dir(&build))?;
    run(Command::new("make").args(["-C", "src", "librdkafka.a"]).current_dir(&build))?;
    run(Command::new("make").args(["-C", "examples", "rdkafka_performance"]).current_dir(&build))?;
    Ok(program)
}

fn librdkafka_sources() -> Result<PathBuf> {
    let manifest = checkout::root().join("Cargo.toml");
    let output = run(Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(manifest))?;
    let metadata: serde_json::Value =
        serde_json::from_str(output.lines().find(|line| line.starts_with('{')).unwrap_or_default())
            .context("read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("find the packages")?;
    let package = packages.iter().find(|package| package["name"] == "rdkafka-sys");
    let manifest =
        package.and_then(|package| package["manifest_path"].as_str()).context("find rdkafka-sys")?;
    Ok(Path::new(manifest).with_file_name("librdkafka"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_only_if_all_records_were_sent() {
        let said = "% 1000 messages produced (1 bytes), 967 delivered (offset 966, 0 failed) in 9ms: 966 msgs/s and\n\
                    % 1000 messages produced (1 bytes), 1000 delivered (offset 999, 0 failed) in 9ms: 991 msgs/s and\n\
                    % Average latency: 502us\n";
        assert_eq!(rate(said, " msgs/s", "1000 delivered (").unwrap(), 991.0);
        assert!(rate(said, " msgs/s", "967 delivered (").is_err(), "that was on the way");
        let said = "2000 records sent, 2016.129032 records/sec (1.97 MB/sec), 63.47 ms avg latency\n";
        assert_eq!(rate(said, " records/sec", "2000 records sent").unwrap(), 2016.129_032);
        assert!(rate(said, " records/sec", "000 records sent").is_err());
        assert!(rate("", " records/sec", "2000 records sent").is_err());
    }
}
