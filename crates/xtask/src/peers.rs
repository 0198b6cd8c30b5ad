//! `cargo xtask peers`: a real Kafka beside ours.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use e2e::kafka::Kafka;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs a Kafka until a signal comes or the command after `--exec` ends.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut properties = Vec::new();
    let mut command = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--set" => {
                let pair = rest.next().context("--set needs NAME=VALUE")?;
                properties.push(pair.split_once('=').with_context(|| format!("{pair} is not NAME=VALUE"))?);
            }
            "--exec" => {
                command = Some(rest.by_ref().cloned().collect::<Vec<_>>());
            }
            other => bail!("unknown option {other}"),
        }
    }

    // Installed before the broker starts, so that a Ctrl-C at any moment leads through the broker's end.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("wait for signals")?;
    let kafka = Kafka::start_with(&properties)?;
    println!("KAFKA_BOOTSTRAP={} (pid {}, log {})", kafka.bootstrap(), kafka.pid(), kafka.log().display());
    let code = match command.as_deref() {
        Some([program, arguments @ ..]) => {
            let status = Command::new(program)
                .args(arguments)
                .env("KAFKA_BOOTSTRAP", kafka.bootstrap())
                .status()
                .with_context(|| format!("run {program}"))?;
            status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
        }
        Some([]) => bail!("--exec needs a command"),
        None => {
            signals.forever().next();
            0
        }
    };
    kafka.stop()?;
    Ok(ExitCode::from(code))
}
