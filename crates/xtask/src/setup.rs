//! `cargo xtask setup`: what the tests need of the machine.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::steps::is_named;

/// Has everything ready, or what is named by one of `wanted`, and says what it did. Tries every step, so that one that
/// fails does not take the others along.
pub(crate) fn run(wanted: &[String]) -> Result<ExitCode> {
    let steps: Vec<_> = e2e::setup::STEPS.into_iter().filter(|step| is_named(step.name, wanted)).collect();
    if steps.is_empty() {
        bail!(
            "nothing is named like that; there are: {}",
            e2e::setup::STEPS.map(|step| step.name).join(", ")
        );
    }
    let mut failed = Vec::new();
    for step in steps {
        println!("setup: {}", step.name);
        let started = Instant::now();
        match (step.run)(&|command| println!("setup: $ {command}")) {
            Ok(true) => println!("setup: {}: done in {:.1} s", step.name, started.elapsed().as_secs_f64()),
            Ok(false) => println!("setup: {}: is there", step.name),
            Err(error) => {
                println!("setup: {}: {error:#}", step.name);
                failed.push(step.name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not ready: {}", failed.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
