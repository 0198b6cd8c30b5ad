//! How long brokers take until all is there again after a kill, each on fresh data.

use anyhow::Result;
use e2e::kafka::Kafka;
use e2e::{jars, kohort, ports};
use tempfile::TempDir;

use crate::generator::{Figures, Generator, Name, On};

/// Runs `kohort bench recovery` on a Kohort of its own; `settings` are its broker's.
pub(crate) fn of_kohort(generator: &mut Generator, state: &[&str], settings: &[&str]) -> Result<Figures> {
    let directory = TempDir::new()?;
    let [address] = ports::free_ports()?;
    let binary = kohort::binary()?.display().to_string();
    let data = directory.path().join("data").display().to_string();
    let mut command = format!("'{binary}' serve --listen {address} --admin none --data-dir '{data}'");
    for setting in settings {
        command.push_str(&format!(" --set {setting}"));
    }
    let on = On::One { name: "kohort", address: address.to_string() };
    let names = [(binary, "kohort"), (address.to_string(), "KOHORT"), (data, "DATA")];
    run(generator, state, &command, &names, &on)
}

/// The same on a Kafka.
pub(crate) fn of_kafka(generator: &mut Generator, state: &[&str]) -> Result<Figures> {
    // It is started once to lay out its directory.
    let mut kafka = Kafka::start()?;
    kafka.kill()?;
    let on = On::One { name: "kafka", address: kafka.bootstrap() };
    let jars = jars::fetch()?.display().to_string();
    let properties = kafka.data().with_file_name("server.properties").display().to_string();
    let names = [(jars, "JARS"), (properties, "PROPERTIES")];
    run(generator, state, &kafka.command_line()?, &names, &on)
}

fn run(generator: &mut Generator, state: &[&str], command: &str, names: &[Name], on: &On) -> Result<Figures> {
    generator.once(&[&["recovery", "--command", command], state].concat(), names, on)
}
