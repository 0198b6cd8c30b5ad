//! The benchmark as a program of its own.

use std::process::ExitCode;

use clap::Parser;

/// Measures a Kafka-compatible server
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(flatten)]
    command: bench::Command,
}

#[expect(clippy::print_stderr, reason = "errors of a command go to standard error")]
fn main() -> ExitCode {
    match bench::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
