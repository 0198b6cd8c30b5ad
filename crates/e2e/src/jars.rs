//! Kafka's jars, by artifact name, through Maven.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::checkout;
use crate::process::is_installed;

/// The Maven plugin that copies the jars, with its version, so that every machine runs the same one.
const COPY_DEPENDENCIES: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The jars, for a test that runs Kafka's own programs, or `None` where it cannot run and need not.
///
/// # Panics
/// In CI, where what cannot run has failed.
#[expect(clippy::print_stdout, reason = "who runs the tests should know")]
pub fn for_tests() -> Option<PathBuf> {
    let jars = checkout::tools().join("jars");
    if is_installed("java") && jars.join("pom.xml").is_file() {
        return Some(jars);
    }
    assert!(
        !std::env::var("CI").is_ok_and(|it| it == "true"),
        "Java or Kafka's jars are missing; run cargo xtask setup"
    );
    println!("not run: Java or Kafka's jars are missing; cargo xtask setup brings them");
    None
}

/// Fetches the jars of `crates/e2e/kafka/pom.xml` unless they are there, and returns their directory.
///
/// Safe to call from several processes at once: one fetches, the others wait.
pub fn fetch() -> Result<PathBuf> {
    let pom = checkout::root().join("crates/e2e/kafka/pom.xml");
    let wanted = fs::read(&pom).with_context(|| format!("read {}", pom.display()))?;
    let directory = checkout::tools().join("jars");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let lock = File::create(checkout::tools().join("jars.lock")).context("create the lock of the jars")?;
    lock.lock().context("lock the jars")?;

    // Written last, so its presence means that everything it names is there.
    let complete = directory.join("pom.xml");
    if fs::read(&complete).is_ok_and(|found| found == wanted) {
        return Ok(directory);
    }
    fs::remove_dir_all(&directory).context("clear old jars")?;
    fs::create_dir_all(&directory).context("create the directory of the jars")?;
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(&directory);
    let status = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(&pom)
        .arg(COPY_DEPENDENCIES)
        .arg(output)
        .status()
        .context("run mvn (cargo xtask setup installs it)")?;
    if !status.success() {
        bail!("mvn could not fetch Kafka's jars: {status}");
    }
    fs::write(&complete, wanted).context("mark the jars as complete")?;
    Ok(directory)
}

/// A `java` command with the jars on its class path, and the JVM settled for short programs on few cores.
pub fn java(jars: &Path, heap: &str) -> Command {
    let mut class_path = jars.join("*").into_os_string();
    class_path.push(":");
    class_path.push(jars.parent().unwrap_or(jars).join("java-classes"));
    let mut command = Command::new("java");
    command.arg(heap).args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error");
    command.arg("-cp").arg(class_path);
    command
}
