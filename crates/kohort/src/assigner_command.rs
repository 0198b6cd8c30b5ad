//! `kohort assigner`: an instance of the assigner, and what operators ask of one.
//!
//! For a newcomer: `settings` is the one table of what can be set, `configuration` gathers values for it from file,
//! environment and flags, `instance` runs. The questions go over gRPC, through `reach`, and are a file each.

mod config;
mod configuration;
mod health;
mod instance;
mod plan;
pub(crate) mod reach;
mod secret_file;
mod secrets;
mod settings;
pub(crate) mod status;
mod topic;

use std::process::ExitCode;

use crate::cli::assigner::{AssignerArgs, AssignerCommand};
use crate::wait;

/// Runs `kohort assigner …`.
pub(crate) fn run(args: AssignerArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => return instance::run(&args.run),
        Some(AssignerCommand::Status { group, reach, output }) => wait(status::run(group, &reach, output))?,
        Some(AssignerCommand::Plan(args)) => wait(plan::run(args))?,
        Some(AssignerCommand::Explain { of, group, reach, output }) => {
            wait(plan::explain(of.as_ref(), group.group, &reach, output))?;
        }
        Some(AssignerCommand::Topic { topic, weight, partition_weight, group, reach, output }) => {
            let wish = topic::Wish { topic, group: group.group, weight, partition_weights: partition_weight };
            wait(topic::run(wish, &reach, output))?;
        }
        Some(AssignerCommand::Config(command)) => config::run(&command)?,
    }
    Ok(ExitCode::SUCCESS)
}
