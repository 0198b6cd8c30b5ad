//! `cargo xtask setup`: what the tests need of the machine.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

/// Has everything ready, and says what it did.
pub(crate) fn run() -> Result<ExitCode> {
    prepare()?;
    Ok(ExitCode::SUCCESS)
}

/// Tries every step, so that one that fails does not take the others along.
pub(crate) fn prepare() -> Result<()> {
    let mut failed = Vec::new();
    for step in e2e::setup::STEPS {
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
    Ok(())
}
