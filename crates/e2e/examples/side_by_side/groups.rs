//! Groups: heartbeats, commits, joins and memory, and first records of real consumers.
//!
//! Both brokers run at the same time, and the generator turns from one to the other; the one that waits is idle, but for what
//! its last turn has left to be settled.

use anyhow::Result;
use bench::plot::Aim;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};

use crate::beside::Beside;
use crate::generator::{Generator, On};
use crate::growth::{self, sweep};
use crate::load::{Connection, batch};
use crate::owed::Owed;
use crate::page::{Page, Part, What};
use crate::{Scale, lone_consumer, recovery};

/// The names that the generator gives to its rates.
const HEARTBEATS: [&str; 2] = ["heartbeats per second, 1 in flight", "heartbeats per second, 64 in flight"];
const COMMITS: [&str; 2] = ["commits per second, 1 in flight", "commits per second, 64 in flight"];

const HEARTBEATS_64: [What; 2] =
    [rate("heartbeats, 64 groups, one in flight"), rate("heartbeats, 64 groups, 64 × 64 in flight")];
const HEARTBEATS_1: [What; 2] =
    [rate("heartbeats, one group, one in flight"), rate("heartbeats, one group, 64 × 64 in flight")];
const COMMITS_64: [What; 2] =
    [rate("commits, 64 groups, one in flight"), rate("commits, 64 groups, 64 × 64 in flight")];
const COMMITS_1: [What; 2] =
    [rate("commits, one group, one in flight"), rate("commits, one group, 64 × 64 in flight")];

const JOINED: What = time("1,000 members start at once, stable after");
const GENERATIONS: What = What { unit: "", ..time("1,000 members start at once, generations") };
const ONE_MORE: What = time("one more joins them: last rejoin to last reply");
const LARGEST: What = time("10,000 members, 20,000 partitions: stable after");
const CHURN: What = time("one of 100 leaves: longest time that another stands still");
const OUR_FIRST: What = time("first record, a consumer of our own");
const RDKAFKA_FIRST: What = time("first record, a lone librdkafka consumer");
const JAVA_FIRST: What = time("first record, a lone Java consumer");
const IDLE_GROUPS: What = What { unit: "MB", ..time("memory of 100,000 idle groups") };
const MEMBER: What = What { unit: "bytes", ..time("memory of one more member") };
const BY_MEMBERS: What =
    What { unit: "times", ..time("a heartbeat's processor time, one group of 10,000 over one of 64") };
const BY_GROUPS: What =
    What { unit: "times", ..time("a heartbeat's processor time, 10,000 groups of one over one of 10,000") };
const LOADED: What = time("1,000,000 offsets of 100,000 groups there again after kill -9");

/// What may lie between two equal loads on a shared machine; a cost that grows by no more does not grow.
const NOISE: f64 = 1.25;

const fn rate(name: &'static str) -> What {
    What { part: Part::Groups, name, unit: "/s", aim: Aim::More }
}

const fn time(name: &'static str) -> What {
    What { part: Part::Groups, name, unit: "ms", aim: Aim::Less }
}

/// Measures all that concerns groups.
pub(crate) fn measure(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    let (kohort, kafka) = (Kohort::start(Options::default())?, Kafka::start()?);
    let both = On::Both { kohort: kohort.bootstrap(), kafka: kafka.bootstrap() };
    // A JVM compiles what it runs often; what it does until then is thrown away.
    for warming in ["heartbeat", "commit"] {
        generator.warm(&[warming], &both)?;
    }
    heartbeats(generator, page, &both)?;
    commits(generator, page, &both)?;
    joins(scale, generator, page, &both)?;
    growth::of_groups(scale, &both, generator, page)?;
    for (bootstrap, is_kohort) in [(kohort.bootstrap(), true), (kafka.bootstrap(), false)] {
        lone_consumers(scale, page, &bootstrap, is_kohort)?;
    }
    drop(kafka);
    let alone = On::One { name: "kohort", address: kohort.bootstrap() };
    large_groups(scale, generator, page, &alone)?;
    drop(kohort);
    memory(scale, generator, page)?;
    offsets_after_a_kill(scale, generator, page)
}

fn heartbeats(generator: &mut Generator, page: &mut Page, both: &On) -> Result<()> {
    for (groups, whats) in [("64", HEARTBEATS_64), ("1", HEARTBEATS_1)] {
        for ((what, name), pipeline) in whats.into_iter().zip(HEARTBEATS).zip(["1", "64"]) {
            let scenario =
                ["heartbeat", "--groups", groups, "--members", "64", "--pipeline", pipeline, "--with-echo"];
            let figures = generator.run_in_turns(&scenario, both)?;
            page.note(&format!("heartbeat, groups {groups}"), &figures);
            page.compare(what, &figures, name)?;
            let which_is = Beside::in_turns(figures.values("echo", name)?);
            let owed = match pipeline {
                "1" => Owed::ShareOf { share: 0.9, of: "the echo", which_is },
                _ => Owed::AtLeast(2e6),
            };
            page.owe(what, owed);
        }
    }
    Ok(())
}

fn commits(generator: &mut Generator, page: &mut Page, both: &On) -> Result<()> {
    let mut to_many = Vec::new();
    for (groups, whats) in [("64", COMMITS_64), ("1", COMMITS_1)] {
        let figures = generator.run(&["commit", "--groups", groups], both)?;
        page.note(&format!("commit, groups {groups}"), &figures);
        for (what, name) in whats.into_iter().zip(COMMITS) {
            page.compare(what, &figures, name)?;
            to_many.push(Beside::apart(figures.values("kohort", name)?));
        }
    }
    for (what, times) in COMMITS_64.into_iter().zip([2.0, 10.0]) {
        page.owe(what, Owed::TimesKafka(times));
    }
    for (what, which_is) in COMMITS_1.into_iter().zip(to_many) {
        page.owe(what, Owed::ShareOf { share: 0.7, of: "ours to 64 groups", which_is });
    }
    Ok(())
}

fn joins(scale: Scale, generator: &mut Generator, page: &mut Page, both: &On) -> Result<()> {
    let members = scale.large_group.to_string();
    let figures = generator.run(&["join", "--members", &members], both)?;
    page.note("join", &figures);
    page.compare(JOINED, &figures, "all stable after")?;
    page.owe(JOINED, Owed::ShareOfKafka(0.2));
    page.compare(GENERATIONS, &figures, "generations needed")?;
    page.owe(GENERATIONS, Owed::NeverMore(1.0));
    page.compare(ONE_MORE, &figures, "last rejoin sent to last JoinGroup reply")?;
    page.owe(ONE_MORE, Owed::AtMost(50.0));
    let figures = generator.run(&["churn"], both)?;
    page.note("churn", &figures);
    page.compare(CHURN, &figures, "one leaves: longest time a member stands still")?;
    let figures = generator.run(&["first-record"], both)?;
    page.compare(OUR_FIRST, &figures, "subscribe to first record")
}

fn lone_consumers(scale: Scale, page: &mut Page, bootstrap: &str, is_kohort: bool) -> Result<()> {
    println!("-- lone consumers of {bootstrap}");
    let mut connection = Connection::open(bootstrap)?;
    connection.create_topic("lone", 1)?;
    connection.produce_when_open("lone", 0, &batch(1, 100)?)?;
    page.add(RDKAFKA_FIRST, is_kohort, lone_consumer::librdkafka(bootstrap, "lone", scale.repetitions)?);
    page.owe(RDKAFKA_FIRST, Owed::AtMost(300.0));
    page.add(JAVA_FIRST, is_kohort, lone_consumer::java(bootstrap, "lone", scale.repetitions)?);
    page.owe(JAVA_FIRST, Owed::AtMost(300.0));
    Ok(())
}

/// What Kafka cannot do: it refuses a group of 10,000 members as a record too large.
fn large_groups(scale: Scale, generator: &mut Generator, page: &mut Page, alone: &On) -> Result<()> {
    let (members, partitions) = (scale.largest_group.to_string(), (2 * scale.largest_group).to_string());
    let figures = generator.run(&["join", "--members", &members, "--partitions", &partitions], alone)?;
    page.note("join, largest group", &figures);
    page.add(LARGEST, true, figures.values("server", "all stable after")?);
    page.owe(LARGEST, Owed::Ends);

    const EACH: &str = "server's time for each, 1 in flight";
    let values = sweep("members", [64, scale.large_group, scale.largest_group].into_iter());
    let arguments = ["heartbeat", "--groups", "1", "--pipeline", "1", "--sweep", &values];
    let points = generator.sweep(&arguments, alone, None)?;
    page.add(BY_MEMBERS, true, vec![points.growth("server", EACH)?]);
    page.owe(BY_MEMBERS, Owed::AtMost(NOISE));
    let values = sweep("groups", [1, scale.large_group, scale.largest_group].into_iter());
    let arguments = ["heartbeat", "--members", &members, "--pipeline", "1", "--sweep", &values];
    let points = generator.sweep(&arguments, alone, None)?;
    page.add(BY_GROUPS, true, vec![points.growth("server", EACH)?]);
    page.owe(BY_GROUPS, Owed::AtMost(NOISE));
    Ok(())
}

/// On a broker of its own: memory that earlier loads have left free would hide what groups take.
fn memory(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    let groups = scale.idle_groups.to_string();
    for _ in 0..scale.repetitions {
        let fresh = Kohort::start(Options::default())?;
        let on = On::One { name: "kohort", address: fresh.bootstrap() };
        let figures = generator.once(&["groups", "--groups", &groups], &[], &on)?;
        page.add(IDLE_GROUPS, true, figures.values("server", "memory of all groups")?);
        page.add(MEMBER, true, figures.values("server", "per member")?);
    }
    page.owe(IDLE_GROUPS, Owed::AtMost(200.0));
    page.owe(MEMBER, Owed::AtMost(2048.0));
    Ok(())
}

fn offsets_after_a_kill(scale: Scale, generator: &mut Generator, page: &mut Page) -> Result<()> {
    let groups = scale.idle_groups.to_string();
    let state = ["--groups", &groups, "--offsets", "10"];
    const THERE: &str = "all groups there after";
    for _ in 0..scale.repetitions {
        let ours = recovery::of_kohort(generator, &state, &[])?;
        page.add(LOADED, true, ours.values("server", THERE)?);
        let theirs = recovery::of_kafka(generator, &state)?;
        page.add(LOADED, false, theirs.values("server", THERE)?);
    }
    page.owe(LOADED, Owed::AtMost(2000.0));
    Ok(())
}
