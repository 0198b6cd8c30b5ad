//! Groups: heartbeats, commits, joins and memory, measured by our own load generator, and first records of real
//! consumers.
//!
//! Both brokers run at the same time, and the generator turns from one to the other; the one that waits is idle.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::checkout;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};
use serde_json::Value;

use crate::load::{Connection, batch};
use crate::report::{Figure, Report, median};
use crate::{Scale, lone_consumer};

/// One run of the generator on both brokers, and what is taken of its figures.
struct Run {
    arguments: &'static [&'static str],
    figures: &'static [(&'static str, Figure)],
}

/// The names that the generator gives to its rates.
const HEARTBEATS_ONE: &str = "heartbeats per second, 1 in flight";
const HEARTBEATS_MANY: &str = "heartbeats per second, 64 in flight";
const COMMITS_ONE: &str = "commits per second, 1 in flight";
const COMMITS_MANY: &str = "commits per second, 64 in flight";

const RUNS: [Run; 6] = [
    Run {
        arguments: &["heartbeat", "--groups", "64", "--members", "64", "--with-echo"],
        figures: &[
            (HEARTBEATS_ONE, rate("heartbeats, 64 groups, one in flight", "≥ 0.9 of the echo")),
            (HEARTBEATS_MANY, rate("heartbeats, 64 groups, 64 × 64 in flight", "≥ 2 M/s")),
        ],
    },
    Run {
        arguments: &["heartbeat", "--groups", "1", "--members", "64", "--with-echo"],
        figures: &[
            (HEARTBEATS_ONE, rate("heartbeats, one group, one in flight", "≥ 0.9 of the echo")),
            (HEARTBEATS_MANY, rate("heartbeats, one group, 64 × 64 in flight", "≥ 2 M/s")),
        ],
    },
    Run {
        arguments: &["commit", "--groups", "64"],
        figures: &[
            (COMMITS_ONE, rate("commits, 64 groups, one in flight", "≥ 2")),
            (COMMITS_MANY, rate("commits, 64 groups, 64 × 64 in flight", "≥ 10")),
        ],
    },
    Run {
        arguments: &["commit", "--groups", "1"],
        figures: &[
            (COMMITS_ONE, rate("commits, one group, one in flight", "≥ 0.7 of ours to 64")),
            (COMMITS_MANY, rate("commits, one group, 64 × 64 in flight", "≥ 0.7 of ours to 64")),
        ],
    },
    Run {
        arguments: &["join", "--members", "1000"],
        figures: &[
            ("all stable after", time("1,000 members start at once, stable after", "≤ 0.2")),
            (
                "generations needed",
                Figure { what: "1,000 members start at once, generations", unit: "", owed: "1" },
            ),
            (
                "last rejoin sent to last JoinGroup reply",
                time("one more joins: last rejoin to last reply", "≤ 50 ms"),
            ),
        ],
    },
    Run {
        arguments: &["first-record"],
        figures: &[("subscribe to first record", time("first record, a consumer of our own", "≤ 300 ms"))],
    },
];

const RDKAFKA_FIRST: Figure = time("first record, a lone librdkafka consumer", "≤ 300 ms");
const JAVA_FIRST: Figure = time("first record, a lone Java consumer", "≤ 300 ms");

const fn rate(what: &'static str, owed: &'static str) -> Figure {
    Figure { what, unit: "/s", owed }
}

const fn time(what: &'static str, owed: &'static str) -> Figure {
    Figure { what, unit: "ms", owed }
}

/// Measures all that concerns groups.
pub(crate) fn measure(scale: Scale, report: &mut Report) -> Result<()> {
    let generator = Generator::find(scale)?;
    let (kohort, kafka) = (Kohort::start(Options::default())?, Kafka::start()?);
    let compare = format!("kohort={},kafka={}", kohort.bootstrap(), kafka.bootstrap());
    // A JVM compiles what it runs often; what it does until then is thrown away.
    for warming in ["heartbeat", "commit"] {
        println!("-- {warming}, to warm up");
        generator.run(&[warming], &["--compare", &compare])?;
    }
    for run in &RUNS {
        println!("-- {}", run.arguments.join(" "));
        let figures = generator.run(run.arguments, &["--compare", &compare])?;
        for (name, figure) in run.figures {
            if let Ok(limit) = values(&figures, "echo", name) {
                let share = median(&values(&figures, "kohort", name)?) / median(&limit);
                let echo = format!("{:.3} of the echo's {:.0}/s", share, median(&limit));
                report.add_alone(figure.what, echo, figure.owed);
            }
            for (target, is_kohort) in [("kohort", true), ("kafka", false)] {
                for value in values(&figures, target, name)? {
                    report.add(*figure, is_kohort, value);
                }
            }
        }
    }
    for (bootstrap, is_kohort) in [(kohort.bootstrap(), true), (kafka.bootstrap(), false)] {
        println!("-- lone consumers of {bootstrap}");
        let mut connection = Connection::open(&bootstrap)?;
        connection.create_topic("lone", 1)?;
        connection.produce_when_open("lone", 0, &batch(1, 100)?)?;
        for milliseconds in lone_consumer::librdkafka(&bootstrap, "lone", scale.repetitions)? {
            report.add(RDKAFKA_FIRST, is_kohort, milliseconds);
        }
        for milliseconds in lone_consumer::java(&bootstrap, "lone", scale.repetitions)? {
            report.add(JAVA_FIRST, is_kohort, milliseconds);
        }
    }
    drop(kafka);
    kohort_alone(&generator, &kohort.bootstrap(), report)
}

/// What only Kohort owes, or what Kafka cannot do: it refuses a group of 10,000 members as a record too large.
fn kohort_alone(generator: &Generator, bootstrap: &str, report: &mut Report) -> Result<()> {
    let alone = ["--bootstrap", bootstrap];
    let large = generator.run(&["join", "--members", "10000", "--partitions", "20000"], &alone)?;
    let settled = median(&values(&large, "server", "all stable after")?);
    let generations = median(&values(&large, "server", "generations needed")?);
    report.add_alone(
        "10,000 members, 20,000 partitions: stable after",
        format!("{:.2} s in {generations:.0} generations", settled / 1e3),
        "settles",
    );
    // On a broker of its own: memory that earlier loads have left free would hide what groups take.
    let fresh = Kohort::start(Options::default())?;
    let memory = generator.run(&["groups"], &["--bootstrap", &fresh.bootstrap(), "--repetitions", "1"])?;
    let groups = median(&values(&memory, "server", "memory of all groups")?);
    report.add_alone("memory of 100,000 idle groups", format!("{groups:.0} MB"), "≤ 200 MB");
    let member = median(&values(&memory, "server", "per member")?);
    report.add_alone("memory of one more member", format!("{member:.0} bytes"), "≤ 2,048 bytes");
    Ok(())
}

/// Our load generator as a program.
struct Generator {
    program: PathBuf,
    repetitions: String,
    duration: &'static str,
}

impl Generator {
    fn find(scale: Scale) -> Result<Self> {
        let program = checkout::target().join("release/bench");
        ensure!(program.is_file(), "no load generator; run cargo build --release --package bench");
        let duration = if scale.repetitions > 1 { "5s" } else { "1s" };
        Ok(Self { program, repetitions: scale.repetitions.to_string(), duration })
    }

    fn run(&self, scenario: &[&str], more: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(scenario).args(["--duration", self.duration, "--output", "json"]);
        if !more.contains(&"--repetitions") {
            command.args(["--repetitions", &self.repetitions]);
        }
        let output = command.args(more).output().with_context(|| format!("run {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed:\n{said}");
        serde_json::from_slice(&output.stdout).context("read the generator's figures")
    }
}

/// All repetitions of one figure of one target.
fn values(report: &Value, target: &str, name: &str) -> Result<Vec<f64>> {
    let find = |list: &Value, name: &str| -> Option<Value> {
        list.as_array()?.iter().find(|entry| entry["name"] == name).cloned()
    };
    let figure = find(&report["targets"], target).and_then(|target| find(&target["figures"], name));
    let figure = figure.with_context(|| format!("find {name} of {target}"))?;
    Ok(figure["values"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
}
