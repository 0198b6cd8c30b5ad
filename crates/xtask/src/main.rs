//! Developer commands: `cargo xtask` lists them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these commands talk to a person at a terminal"
)]

mod accepted_counts;
mod behaviours;
mod ci;
mod instructions;
mod peers;
mod setup;
mod steps;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  setup [WORD]…
           install what the tests need, by package name; quick when it is there;
           with words, only what is named by one of them
  quick    format, lints and the tests of the pure crates and the store
  ci [WORD]…
           all that CI runs: setup, format, lints, docs, tests, real clients,
           crashes, Kafka's own tools, hostile input; with words, only the
           steps whose names contain one of them
  fuzz [--seconds N]
           each fuzz target for a while; needs a nightly toolchain and cargo-fuzz
  behaviours
           docs/behaviours.md: which behaviour of Kafka is proven by which test
  bench [--quick] [--groups | --records | --assigner | --gateways]
           Kohort beside Apache Kafka on this machine, into docs/benchmarks.md
           and its plots, the assigner, into docs/assigner-benchmarks.md, and
           gateways, into docs/gateway-benchmarks.md; what is not measured
           whole goes into target/benchmarks
  instructions [--accept] [WORD]…
           how many instructions the hot paths take, beside what was accepted
           before; --accept accepts what it counts
  peers [--set NAME=VALUE]… [--exec COMMAND…]
           a real Apache Kafka 4.3 on a free port, until Ctrl-C; with --exec,
           only while COMMAND runs, which finds it in KAFKA_BOOTSTRAP
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match command {
        "setup" => setup::run(rest),
        "quick" => ci::quick(),
        "ci" => ci::all(rest),
        "fuzz" => ci::fuzz_alone(rest),
        "behaviours" => behaviours::run(),
        "bench" => ci::bench(rest),
        "instructions" => instructions::run(rest),
        "peers" => peers::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: no command {other}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
