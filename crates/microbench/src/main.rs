//! The hot paths, each on its own and on one thread, so that their instructions can be counted.
//!
//! ```text
//! microbench          lists the benchmarks
//! microbench NAME     runs one, and says how many operations it measured
//! ```
//!
//! `cargo xtask instructions` runs each under callgrind, which counts what the function `counted_by_callgrind` does and
//! nothing else, and compares with `counts.txt`. To add one: a function in [`codec`] or [`through_broker`], a line in
//! [`BENCHMARKS`], and `cargo xtask instructions --accept`.
#![expect(clippy::print_stdout, reason = "what it says is read by a person or by xtask")]

mod codec;
mod measure;
mod stage;
mod through_broker;

use anyhow::{Context, Result, bail};

/// Something whose instructions are counted.
struct Benchmark {
    /// What is done; a line in `counts.txt` begins with it.
    name: &'static str,
    /// Does it, and gives the number of operations that were measured.
    run: fn() -> Result<usize>,
}

const BENCHMARKS: [Benchmark; 14] = [
    Benchmark { name: "decode-heartbeat", run: codec::decode_heartbeat },
    Benchmark { name: "encode-heartbeat", run: codec::encode_heartbeat },
    Benchmark { name: "decode-offset-commit", run: codec::decode_offset_commit },
    Benchmark { name: "encode-offset-commit", run: codec::encode_offset_commit },
    Benchmark { name: "decode-produce", run: codec::decode_produce },
    Benchmark { name: "encode-produce", run: codec::encode_produce },
    Benchmark { name: "decode-fetch", run: codec::decode_fetch },
    Benchmark { name: "encode-fetch", run: codec::encode_fetch },
    Benchmark { name: "heartbeat-through-shard", run: through_broker::heartbeat },
    Benchmark { name: "commit-through-shard-and-log", run: through_broker::commit },
    Benchmark { name: "commit-of-10-through-shard-and-log", run: through_broker::commit_of_ten },
    Benchmark { name: "commits-together-through-shard-and-log", run: through_broker::commits_together },
    Benchmark { name: "produce-through-partition-and-log", run: through_broker::produce },
    Benchmark { name: "fetch-from-memory", run: through_broker::fetch },
];

fn main() -> Result<()> {
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => BENCHMARKS.iter().for_each(|benchmark| println!("{}", benchmark.name)),
        [name] => {
            let benchmark = BENCHMARKS
                .iter()
                .find(|benchmark| benchmark.name == name)
                .with_context(|| format!("there is no benchmark {name}"))?;
            println!("{}", (benchmark.run)()?);
        }
        _ => bail!("usage: microbench [NAME]"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_does_its_work_and_says_how_often() {
        for benchmark in BENCHMARKS {
            let operations =
                (benchmark.run)().unwrap_or_else(|error| panic!("{}: {error:#}", benchmark.name));
            assert!(operations >= 64, "{} measures {operations} operations", benchmark.name);
        }
    }
}
