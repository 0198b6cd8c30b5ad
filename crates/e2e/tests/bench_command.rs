//! `kohort bench …` against a real broker: every scenario gives figures, several servers are compared and drawn, and a
//! run in which something is wrong is no result. How large figures are is not looked at.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod support;

use std::fs;
use std::time::Duration;

use e2e::assigner::Assigner;
use e2e::etcd::{self, Etcd};
use e2e::kohort::{Kohort, Options, binary};
use e2e::ports;
use e2e::process::{Finished, run_within};
use serde_json::Value;
use support::{Connection, code, kohort_command};

/// How long a run may take on a machine that is busy with others.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// Loads so short that all scenarios together take seconds.
const BRIEF: [&str; 4] = ["--duration", "200ms", "--warmup", "50ms"];

/// Every scenario that needs nothing but a server's address.
const SCENARIOS: [&[&str]; 13] = [
    &["echo", "--connections", "4"],
    &[
        "heartbeat",
        "--members",
        "6",
        "--groups",
        "2",
        "--connections",
        "4",
        "--pipeline",
        "1,8",
        "--with-echo",
    ],
    &["commit", "--groups", "3", "--connections", "2", "--partitions", "2", "--pipeline", "1,8"],
    &["commit", "--groups", "1", "--connections", "4", "--threads", "2", "--with-echo"],
    &["join", "--members", "10", "--partitions", "20", "--heartbeat", "50ms"],
    &["churn", "--members", "5", "--partitions", "7", "--heartbeat", "50ms"],
    &["first-record"],
    &["latency"],
    &["produce", "--size", "100", "--batch", "3", "--partitions", "2", "--acks", "one", "--codec", "zstd"],
    &["produce", "--partitions", "1", "--connections", "2", "--acks", "all"],
    &["consume", "--mebibytes", "1", "--partitions", "2", "--codec", "lz4"],
    &["connections", "--connections", "80"],
    &["groups", "--groups", "50", "--offsets", "2", "--members", "4"],
];

#[test]
fn every_scenario_gives_figures() {
    let broker = Kohort::start(on_a_busy_disk()).unwrap();
    for scenario in SCENARIOS {
        let figures = measured(&[scenario, &BRIEF, &["--bootstrap", &broker.bootstrap()]].concat());
        assert_eq!(figures["scenario"], scenario[0]);
        assert!(figures["machine"]["cores"].as_u64().unwrap() > 0);
        assert!(figures["command"].as_str().unwrap().starts_with(&format!("kohort bench {}", scenario[0])));
        assert!((figures["duration_seconds"].as_f64().unwrap() - 0.2).abs() < 1e-9);
        for target in figures["targets"].as_array().unwrap().iter().filter(|target| target["name"] != "echo")
        {
            assert_eq!(target["address"], broker.bootstrap());
            assert_eq!(target["process"]["name"], "kohort");
        }
        check_targets(&figures, scenario);
    }
}

#[test]
fn servers_are_compared_in_turn_and_drawn() {
    let brokers = [on_a_busy_disk(), on_a_busy_disk()].map(|options| Kohort::start(options).unwrap());
    let compare = format!("one={},other={}", brokers[0].bootstrap(), brokers[1].bootstrap());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let scenario =
        ["commit", "--connections", "2", "--groups", "2", "--compare", &compare, "--repetitions", "2"];

    let page = file("single.html");
    let figures = measured(&[&scenario, &BRIEF[..], &["--report", &page]].concat());
    let [one, other] = figures["targets"].as_array().unwrap().as_slice() else { panic!("{figures}") };
    assert_eq!((&one["name"], &other["name"]), (&"one".into(), &"other".into()));
    assert_eq!(one["figures"][0]["values"].as_array().unwrap().len(), 2);
    assert!(one["figures"][0]["ratio"].is_null());
    assert!(other["figures"][0]["ratio"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("commits per second"), "{page}");

    let drawing = file("growth.svg");
    let sweep = ["--sweep", "partitions=1,3", "--report", &drawing];
    let figures = measured(&[&scenario, &BRIEF[..], &sweep].concat());
    assert_eq!(figures["sweep"], "partitions");
    let runs = figures["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["value"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    for run in runs {
        check_targets(&run["run"], &scenario);
    }
    let drawing = fs::read_to_string(drawing).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("<polyline"), "{drawing}");
}

#[test]
fn servers_are_started_and_killed() {
    let directory = tempfile::tempdir().unwrap();
    let [address] = ports::lasting_ports().unwrap();
    let data = directory.path().join("data");
    let command = format!(
        "'{}' serve --listen {address} --admin none --data-dir '{}' --set kohort.flush=os",
        binary().unwrap().display(),
        data.display()
    );
    let there = ["--bootstrap", &address.to_string(), "--command", &command];
    check_targets(&measured(&[&["start"], &there[..]].concat()), &["start"]);
    // One that is started by another and stays behind it is found and killed as well.
    let wrapped = format!("sh -c '{} & wait'", command.replace('\'', "\""));
    let there_wrapped = ["--bootstrap", &address.to_string(), "--command", &wrapped];
    check_targets(&measured(&[&["start"], &there_wrapped[..]].concat()), &["start"]);
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody is left");
    let state = ["recovery", "--groups", "30", "--offsets", "3", "--mebibytes", "2"];
    check_targets(&measured(&[&state, &there[..]].concat()), &state);
}

#[test]
fn plans_are_measured_without_an_assigner() {
    let plan = ["handoff", "--partitions", "300", "--consumers", "7"];
    let figures = measured(&[&plan[..], &BRIEF].concat());
    check_targets(&figures, &plan);
    let target = &figures["targets"][0];
    assert_eq!(target["name"], "plan");
    assert_eq!(target["figures"].as_array().unwrap().len(), 8, "two for each occasion");
    let notes = target["notes"].to_string();
    assert!(notes.contains("not measured, only the plan is"), "{notes}");

    let figures = measured(&[&["handoff", "--sweep", "partitions=10,100"], &BRIEF[..]].concat());
    assert_eq!(figures["sweep"], "partitions");
}

#[test]
fn partitions_are_handed_over_between_two_consumers_and_none_has_two_owners() {
    let etcd = Etcd::start(&etcd::Options { without_fsync: true, ..Default::default() }).unwrap();
    let broker = Kohort::start(on_a_busy_disk()).unwrap();
    let handoff =
        ["handoff", "--rounds", "2", "--debounce", "100ms", "--partitions", "30", "--consumers", "3"];
    let there = ["--bootstrap", &broker.bootstrap(), "--topic-partitions", "7"];
    let start = |settings: &[(&str, &str)]| {
        let debounce = ("rebalance_debounce_interval_secs", "0.1");
        Assigner::start(&etcd.url(), &broker.bootstrap(), &[&[debounce], settings].concat()).unwrap()
    };
    let assigner = start(&[]);
    let at = ["--assigner", &assigner.url(), "--concurrent", "1,2"];
    let figures = measured(&[&handoff[..], &there, &at, &BRIEF].concat());
    check_targets(&figures, &handoff);
    let target = &figures["targets"][0];
    assert_eq!((&target["name"], &target["process"]["name"]), (&"assigner".into(), &"kohort".into()));
    let value = |name: &str| {
        let figures = target["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["name"] == name);
        figure.unwrap_or_else(|| panic!("{name} in {target}"))["median"].as_f64().unwrap()
    };
    // Half of seven partitions, in two rounds each.
    assert_eq!((value("handoffs, 1 at once"), value("handoffs, 2 at once")), (6.0, 6.0));
    assert_eq!(value("registrations").to_string(), "4");

    // The same one under two names; the plan is measured once.
    Connection::open(&broker.bootstrap()).create_topic("words", 4);
    let compare = format!("one={url},other={url}", url = assigner.url());
    let at = ["--compare", &compare, "--topic", "words", "--repetitions", "1"];
    let figures = measured(&[&handoff[..], &at, &BRIEF].concat());
    check_targets(&figures, &handoff);
    let [one, other] = figures["targets"].as_array().unwrap().as_slice() else { panic!("{figures}") };
    assert!(one.to_string().contains("plan, one joins") && !other.to_string().contains("plan, one joins"));
    assert!(other["figures"].as_array().unwrap().iter().any(|figure| figure["ratio"].is_f64()), "{other}");

    // Under a prefix of its own it need not wait for the other's leadership to end.
    let overlapping = start(&[("handoff_mode", "overlap"), ("etcd_prefix", "/overlap/")]);
    let at = ["--assigner", &overlapping.url()];
    let finished = bench(&[&handoff[..], &there, &at, &BRIEF].concat());
    assert_eq!((code(&finished), finished.stdout.as_str()), (Some(1), ""), "{}", finished.stderr);
    assert!(finished.stderr.contains("has two owners"), "{}", finished.stderr);
}

#[test]
fn a_wrong_reply_spoils_the_run() {
    let broker = Kohort::start(on_a_busy_disk().set("group.max.size", "5")).unwrap();
    let finished = bench(&["join", "--members", "6", "--bootstrap", &broker.bootstrap()]);
    assert_eq!(code(&finished), Some(1), "{}", finished.stderr);
    assert_eq!(finished.stdout, "", "no figures");
    assert!(finished.stderr.contains("JoinGroup got GROUP_MAX_SIZE_REACHED"), "{}", finished.stderr);
}

#[test]
fn what_cannot_be_measured_is_told_at_once() {
    let [nobody] = ports::lasting_ports().unwrap();
    let finished = bench(&["latency", "--bootstrap", &nobody.to_string()]);
    assert_eq!(code(&finished), Some(3), "{}", finished.stderr);
    let finished = bench(&["handoff", "--assigner", &format!("http://{nobody}")]);
    assert_eq!(code(&finished), Some(3), "{}", finished.stderr);
    assert!(finished.stderr.contains("cannot reach an assigner"), "{}", finished.stderr);
    let silent =
        ["start", "--bootstrap", &nobody.to_string(), "--command", "sh -c 'echo no room >&2; exit 7'"];
    let finished = bench(&silent);
    assert!(!finished.success(), "{}", finished.stdout);
    assert!(finished.stderr.contains("exit status: 7; it said:\nno room"), "{}", finished.stderr);
    for (arguments, says) in [
        (&["join", "--sweep", "groups=1,2"][..], "members, partitions"),
        (&["join", "--report", "figures.pdf"], ".html or .svg"),
        (&["join", "--bootstrap", "nowhere"], "nowhere is not an address"),
        (&["join", "--compare", "a=127.0.0.1:1,a=127.0.0.1:2"], "\"a\" twice"),
        (&["commit", "--pipeline", "1,1"], "1 twice"),
        (&["heartbeat", "--members", "10"], "64 groups need as many members, and there are 10"),
        (&["heartbeat", "--sweep", "members=100,1"], "64 groups need as many members, and there are 1"),
        (&["recovery", "--command", "true", "--repetitions", "2"], "recovery measures once"),
        (&["recovery", "--command", "true", "--sweep", "groups=1,2"], "recovery measures once"),
        (&["handoff", "--consumers", "1"], "at least 2 consumers"),
        (&["handoff", "--topic-partitions", "1"], "at least 2 partitions"),
        (&["handoff", "--sweep", "partitions=10,100001"], "at most 100000 partitions"),
        (&["handoff", "--concurrent", "2,2"], "2 twice"),
        (&["handoff", "--compare", "a=127.0.0.1:1,b=127.0.0.1:2"], "name it with --topic"),
        (&["handoff", "--assigner", "nowhere"], "nowhere is not an address"),
        (&["handsprings"], "handsprings"),
    ] {
        let finished = bench(arguments);
        assert!(finished.stderr.contains(says), "{}", finished.stderr);
        assert_eq!(code(&finished), Some(2), "{}", finished.stderr);
    }
    let finished = bench(&["join", "--report", "/proc/nowhere/figures.svg"]);
    assert!(finished.stderr.contains("write /proc/nowhere/figures.svg"), "{}", finished.stderr);
}

/// A broker whose answers do not wait for the disk: loads this short would be over before some of them came.
fn on_a_busy_disk() -> Options {
    Options::default().set("kohort.flush", "os")
}

fn bench(arguments: &[&str]) -> Finished {
    let command = kohort_command(&[&["bench"], arguments].concat());
    run_within(command, ENDS_WITHIN).unwrap()
}

/// The figures as JSON; the run must succeed and tell nobody how far it is, since this is no terminal.
fn measured(arguments: &[&str]) -> Value {
    let finished = bench(&[arguments, &["-o", "json"]].concat());
    assert!(finished.success(), "{arguments:?}: {}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.stderr, "", "{arguments:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

fn check_targets(figures: &Value, scenario: &[&str]) {
    let targets = figures["targets"].as_array().unwrap();
    assert!(!targets.is_empty(), "{scenario:?}");
    for target in targets {
        let figures = target["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{scenario:?}: {target}");
        for figure in figures {
            // Memory may have shrunk meanwhile; all else is a count, a rate or a time.
            let value = figure["median"].as_f64().unwrap();
            assert!(
                value >= 0.0 || figure["unit"] == "MB" || figure["unit"] == "bytes",
                "{scenario:?}: {figure}"
            );
        }
    }
}
