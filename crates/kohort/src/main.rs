//! A Kafka-compatible broker in one binary: the command line, the settings, the wiring.
//!
//! For a newcomer: `cli` is what can be typed, `configuration` gathers the settings, `serve` puts a broker
//! together. The other commands are a file each.

mod acl_command;
mod admin;
mod admin_client;
mod allocator;
mod assigner_command;
mod bench_command;
mod broker_command;
mod certificate;
mod cli;
mod code_pages;
mod command_config;
mod config_command;
mod configuration;
mod data_dir;
mod dial;
mod failure;
mod gateway_command;
mod group_command;
mod handoff_command;
mod health_listener;
mod http;
mod listener_security;
mod listeners;
mod log_command;
mod logging;
mod metrics;
mod org_command;
mod output;
mod problems;
mod rail_door;
mod running;
mod serve;
mod signals;
mod snapshot_command;
mod telemetry;
mod threads;
mod token;
mod topic_command;
mod user_command;
mod version_command;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    allocator::give_back_soon();
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            failure::exit_code(&error)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => return serve::run(&cli.serve),
        Some(Command::Serve(args)) => return serve::run(&args),
        Some(Command::Broker(args)) => return broker_command::run(*args),
        Some(Command::Gateway(args)) => return gateway_command::run(&args),
        Some(Command::Topic(command)) => wait(topic_command::run(command))?,
        Some(Command::Group(command)) => wait(group_command::run(command))?,
        Some(Command::Org(command)) => wait(org_command::run(command))?,
        Some(Command::User(command)) => wait(user_command::run(command))?,
        Some(Command::Acl(command)) => wait(acl_command::run(command))?,
        Some(Command::Snapshot(args)) => wait(snapshot_command::run(args))?,
        Some(Command::Config(command)) => config_command::run(&command)?,
        Some(Command::Assigner(args)) => return assigner_command::run(*args),
        Some(Command::Handoff(command)) => wait(handoff_command::run(command))?,
        Some(Command::Log(command)) => log_command::run(&command)?,
        Some(Command::Bench(command)) => bench_command::run(*command)?,
        Some(Command::Version(output)) => version_command::run(output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that only asks others: one thread is enough for that.
pub(crate) fn wait(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(command)
}

#[expect(clippy::print_stderr, reason = "errors of a command go to standard error")]
fn complain(error: &anyhow::Error) {
    eprintln!("kohort: {error:#}");
}
