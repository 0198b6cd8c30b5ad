//! The client programs and how to start them.
//!
//! Each program takes `BOOTSTRAP SCENARIO PREFIX`, prints one line of JSON for each check and exits 0, or exits 1 with
//! the reason on its standard error. Beside it, each library has a program that is a member of a group; what that
//! takes and prints is described in `crates/e2e/clients/python/member.py`. All sources are in `crates/e2e/clients`;
//! `cargo xtask setup` prepares them.

use std::path::PathBuf;
use std::process::Command;

use crate::{checkout, jars, process};

/// What every client is put through, in the order of the grid.
pub const SCENARIOS: [&str; 11] = [
    "create",
    "produce-none",
    "produce-gzip",
    "produce-snappy",
    "produce-lz4",
    "produce-zstd",
    "from-offset",
    "by-time",
    "idempotent",
    "compaction",
    "delete",
];

/// A client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// confluent-kafka for Python, over librdkafka.
    ConfluentKafka,
    /// kafka-python.
    KafkaPython,
    /// aiokafka.
    Aiokafka,
    /// kafkajs for Node.
    Kafkajs,
    /// franz-go.
    FranzGo,
    /// sarama for Go.
    Sarama,
    /// Apache Kafka's own client.
    Java,
    /// kcat, the command.
    Kcat,
}

/// All clients that run as programs of their own.
pub const ALL: [Client; 8] = [
    Client::ConfluentKafka,
    Client::KafkaPython,
    Client::Aiokafka,
    Client::Kafkajs,
    Client::FranzGo,
    Client::Sarama,
    Client::Java,
    Client::Kcat,
];

impl Client {
    /// The name that the client's own documentation uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfluentKafka => "confluent-kafka",
            Self::KafkaPython => "kafka-python",
            Self::Aiokafka => "aiokafka",
            Self::Kafkajs => "kafkajs",
            Self::FranzGo => "franz-go",
            Self::Sarama => "sarama",
            Self::Java => "Java client",
            Self::Kcat => "kcat",
        }
    }

    /// The command that runs a scenario, without its arguments; `Err` says what is missing on this machine.
    pub fn command(self) -> Result<Command, String> {
        match self {
            Self::ConfluentKafka => python("confluent.py"),
            Self::KafkaPython => python("kafka_python.py"),
            Self::Aiokafka => python("aio.py"),
            Self::Kcat if !process::is_installed("kcat") => Err("kcat is not installed".to_owned()),
            Self::Kcat => python("kcat.py"),
            Self::Kafkajs => node("client.js"),
            Self::FranzGo => go("franz"),
            Self::Sarama => go("sarama"),
            Self::Java => java("Client", &[]),
        }
    }

    /// The command that logs in, without its arguments; `Err` says why there is none. What it takes is described in
    /// `crates/e2e/clients/python/login.py`.
    pub fn login(self) -> Result<Command, String> {
        match self {
            Self::ConfluentKafka => python("confluent_login.py"),
            Self::KafkaPython => python("kafka_python_login.py"),
            Self::FranzGo => go("franz-login"),
            Self::Java => java("Login", &[]),
            other => Err(format!("others stand for {}", other.name())),
        }
    }

    /// The command that is a member of a group, without its arguments; `Err` says why there is none.
    pub fn member(self) -> Result<Command, String> {
        match self {
            Self::ConfluentKafka => python("confluent_member.py"),
            Self::KafkaPython => python("kafka_python_member.py"),
            Self::Aiokafka => python("aio_member.py"),
            Self::Kafkajs => node("member.js"),
            Self::FranzGo => go("franz-member"),
            Self::Sarama => go("sarama-member"),
            // Says why it joins again, for whoever has to find out.
            Self::Java => {
                java("Member", &["-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer=info"])
            }
            Self::Kcat => Err("kcat is librdkafka, which others stand for".to_owned()),
        }
    }
}

fn node(script: &str) -> Result<Command, String> {
    if !process::is_installed("node") {
        return Err("node is not installed".to_owned());
    }
    let modules = present(checkout::tools().join("node/node_modules"))?;
    let mut command = Command::new("node");
    command.arg(checkout::clients().join("node-kafkajs").join(script)).env("NODE_PATH", modules);
    Ok(command)
}

fn go(program: &str) -> Result<Command, String> {
    Ok(Command::new(present(checkout::tools().join("bin").join(program))?))
}

fn java(class: &str, options: &[&str]) -> Result<Command, String> {
    if !process::is_installed("java") {
        return Err("java is not installed".to_owned());
    }
    let jars = present(checkout::tools().join("jars"))?;
    present(checkout::tools().join("java-classes").join(format!("{class}.class")))?;
    let mut command = jars::java(&jars, "-Xmx256m");
    command.args(options).arg(class);
    Ok(command)
}

fn python(script: &str) -> Result<Command, String> {
    let mut command = Command::new(present(checkout::tools().join("venv/bin/python"))?);
    // The sources stay as they are in the checkout.
    command.arg("-B").arg(checkout::clients().join("python").join(script));
    Ok(command)
}

fn present(path: PathBuf) -> Result<PathBuf, String> {
    if path.exists() {
        Ok(path)
    } else {
        let name = path.strip_prefix(checkout::root()).unwrap_or(&path);
        Err(format!("no {}; cargo xtask setup makes it", name.display()))
    }
}
