//! How long brokers take until all is there again after a kill, each on fresh data.

use anyhow::Result;
use e2e::kafka::Kafka;
use e2e::{kohort, ports};
use tempfile::TempDir;

use crate::generator::{Figures, Generator, On};

/// Runs `kohort bench recovery` on a Kohort of its own; `settings` are its broker's.
pub(crate) fn of_kohort(generator: &mut Generator, state: &[&str], settings: &[&str]) -> Result<Figures> {
    let data = TempDir::new()?;
    let [address] = ports::free_ports()?;
    let binary = kohort::binary()?;
    let mut command = format!(
        "'{}' serve --listen {address} --admin none --data-dir '{}'",
        binary.display(),
        data.path().join("data").display()
    );
    for setting in settings {
        command.push_str(&format!(" --set {setting}"));
    }
    let on = On::One { name: "kohort", address: address.to_string() };
    run(generator, state, &command, &on)
}

/// The same on a Kafka.
pub(crate) fn of_kafka(generator: &mut Generator, state: &[&str]) -> Result<Figures> {
    // It is started once to lay out its directory.
    let mut kafka = Kafka::start()?;
    kafka.kill()?;
    let on = On::One { name: "kafka", address: kafka.bootstrap() };
    run(generator, state, &kafka.command_line()?, &on)
}

fn run(generator: &mut Generator, state: &[&str], command: &str, on: &On) -> Result<Figures> {
    generator.once(&[&["recovery", "--command", command], state].concat(), on)
}
