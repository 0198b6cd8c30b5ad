//! `kafka-consumer-groups`, from Kafka's own artifacts, lists, describes, resets and deletes groups.

use std::env;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::broker::Broker;
use e2e::process::{Finished, is_installed, run_within};
use e2e::{checkout, jars};

use crate::cast::{Cast, Role};
use crate::events::now;
use crate::flow::{self, Flow};
use crate::plan::Library;

const CLASS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const TOOL_LIMIT: Duration = Duration::from_secs(60);
const TOPIC: &str = "work";
const GROUP: &str = "workers";
const PARTITIONS: usize = 2;

/// How long a group may take until nobody is in it.
const EMPTY_WITHIN: Duration = Duration::from_secs(20);

/// Runs the tool through what it can do; returns whether it could run here.
pub(crate) fn run() -> Result<bool> {
    let jars = checkout::tools().join("jars");
    if !is_installed("java") || !jars.join("pom.xml").is_file() {
        ensure!(!env::var("CI").is_ok_and(|it| it == "true"), "Java or Kafka's jars are missing");
        println!(
            "kafka-consumer-groups: not run: Java or Kafka's jars are missing; cargo xtask setup brings them"
        );
        return Ok(false);
    }
    let started = Instant::now();
    let broker = Broker::start(&[])?;
    let bootstrap = broker.bootstrap();
    let tool = Tool { jars, bootstrap: bootstrap.clone() };
    flow::create_topic(&bootstrap, TOPIC, PARTITIONS)?;
    let Ok(program) = Library::Rdkafka.member()? else { return Ok(false) };
    let role = Role {
        program,
        bootstrap: bootstrap.clone(),
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        partitions: PARTITIONS,
        assignor: "range".to_owned(),
        session: Duration::from_secs(30),
    };
    let flow = Flow::start(&bootstrap, TOPIC, PARTITIONS)?;
    let mut cast = Cast::new(role)?;
    let begin = now();
    let member = cast.join("a", None)?;
    cast.settle("a member starts", begin)?;
    let sent = flow.finish()?;
    let looker = flow::looker(&bootstrap, GROUP)?;
    let committed = || flow::committed(&looker, TOPIC, PARTITIONS, TOOL_LIMIT);
    cast.wait("everything is committed", |_| match committed() {
        Ok(found) if found == [sent; PARTITIONS] => None,
        other => Some(format!("{other:?} is committed")),
    })?;

    tool.while_active(sent)?;
    cast.leave(member)?;
    tool.wait_until_empty()?;
    tool.while_empty(sent, &committed)?;
    println!("kafka-consumer-groups: passed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(true)
}

struct Tool {
    jars: PathBuf,
    bootstrap: String,
}

impl Tool {
    fn try_run(&self, arguments: &[&str]) -> Result<Finished> {
        let mut command = jars::java(&self.jars, "-Xmx256m");
        command.arg(CLASS).args(["--bootstrap-server", &self.bootstrap]).args(arguments);
        run_within(command, TOOL_LIMIT)
    }

    /// What the tool printed, as words of lines that are not empty; it must succeed.
    fn run(&self, arguments: &[&str]) -> Result<Vec<Vec<String>>> {
        let finished = self.try_run(arguments)?;
        let (stdout, stderr) = (&finished.stdout, &finished.stderr);
        ensure!(finished.success(), "{arguments:?} failed:\n{stdout}\n{stderr}");
        ensure!(!stdout.contains("Error:"), "{arguments:?} found an error:\n{stdout}\n{stderr}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        Ok(stdout.lines().map(words).filter(|it: &Vec<String>| !it.is_empty()).collect())
    }

    /// The tool says why it does not do it.
    fn refuses(&self, arguments: &[&str], why: &str) -> Result<()> {
        let finished = self.try_run(arguments)?;
        let said = format!("{}\n{}", finished.stdout, finished.stderr);
        ensure!(said.contains(why), "{arguments:?} does not say {why:?}:\n{said}");
        Ok(())
    }

    fn while_active(&self, sent: i64) -> Result<()> {
        let found = self.run(&["--list"])?;
        ensure!(found == [[GROUP]], "list: {found:?}");
        let found = self.run(&["--list", "--state", "--type"])?;
        let row = ["workers", "Classic", "Stable"];
        ensure!(found.last().is_some_and(|it| it == &row), "list with states and types: {found:?}");
        let found = self.run(&["--list", "--state", "empty"])?;
        ensure!(!found.iter().any(|it| it[0] == GROUP), "list of empty groups: {found:?}");

        let sent = sent.to_string();
        let found = self.run(&["--describe", "--group", GROUP])?;
        for partition in ["0", "1"] {
            let row = found.iter().find(|it| it.get(2).is_some_and(|it| it == partition));
            let row: Vec<_> = row.map(|row| row.iter().map(String::as_str).collect()).unwrap_or_default();
            let wanted = [GROUP, TOPIC, partition, &sent, &sent, "0"];
            ensure!(row.starts_with(&wanted), "describe: {found:?}");
            let (host, client) = (row.get(7), row.get(8));
            ensure!(host == Some(&"/127.0.0.1") && client == Some(&"rdkafka"), "describe: {found:?}");
            ensure!(row.get(6).is_some_and(|it| it.starts_with("rdkafka-")), "describe: {found:?}");
        }
        let found = self.run(&["--describe", "--group", GROUP, "--members", "--verbose"])?;
        let all = found.iter().flatten().any(|it| it.contains("0,1"));
        ensure!(all && found.iter().flatten().any(|it| it == "/127.0.0.1"), "describe members: {found:?}");
        let found = self.run(&["--describe", "--group", GROUP, "--state"])?;
        let row = found.last().cloned().unwrap_or_default();
        for word in [GROUP, "range", "Stable", "1"] {
            ensure!(row.iter().any(|it| it == word), "describe state has no {word}: {found:?}");
        }

        let reset = ["--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute"];
        self.refuses(&reset, "Stable")?;
        self.refuses(&["--delete", "--group", GROUP], "not empty")?;
        self.refuses(
            &["--delete-offsets", "--group", GROUP, "--topic", TOPIC],
            "GroupSubscribedToTopicException",
        )
    }

    fn wait_until_empty(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let found = self.run(&["--list", "--state"])?;
            if found.last().is_some_and(|it| it == &[GROUP, "Empty"]) {
                return Ok(());
            }
            ensure!(started.elapsed() < EMPTY_WITHIN, "the group does not become empty: {found:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn while_empty(&self, sent: i64, committed: &dyn Fn() -> Result<Vec<i64>>) -> Result<()> {
        let reset = |more: &[&str]| {
            self.run(&[&["--reset-offsets", "--group", GROUP, "--topic", TOPIC], more].concat())
        };
        let expect = |wanted: i64, doing: &str| {
            let found = committed()?;
            ensure!(found == [wanted; PARTITIONS], "{doing}: {found:?} instead of {wanted}");
            Ok(())
        };
        let found = reset(&["--to-earliest", "--dry-run"])?;
        ensure!(found.last().and_then(|it| it.last()).is_some_and(|it| it == "0"), "dry run: {found:?}");
        expect(sent, "after a dry run")?;
        reset(&["--to-earliest", "--execute"])?;
        expect(0, "to the earliest")?;
        reset(&["--shift-by", "3", "--execute"])?;
        expect(3, "shifted by 3")?;
        reset(&["--to-datetime", "2001-01-01T00:00:00.000", "--execute"])?;
        expect(0, "to a time before the first record")?;
        reset(&["--to-offset", "2", "--execute"])?;
        expect(2, "to offset 2")?;
        let found = self.run(&["--describe", "--group", GROUP])?;
        let lag = (sent - 2).to_string();
        let rows = found.iter().filter(|it| it[0] == GROUP && it.get(5) == Some(&lag)).count();
        ensure!(rows == PARTITIONS, "describe an empty group: {found:?}");
        reset(&["--to-latest", "--execute"])?;
        expect(sent, "to the latest")?;

        self.run(&["--delete-offsets", "--group", GROUP, "--topic", "work:0"])?;
        let found = committed()?;
        ensure!(found == [0, sent], "offsets of one partition are deleted: {found:?}");
        self.run(&["--delete", "--group", GROUP])?;
        let found = self.run(&["--list"])?;
        ensure!(found.is_empty(), "the deleted group is listed: {found:?}");
        self.refuses(&["--delete", "--group", GROUP], "GroupIdNotFoundException")
    }
}
