//! The lives that a group is put through while records flow.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::broker::Broker;
use e2e::process::run_within;
use rdkafka::consumer::Consumer;

use crate::cast::{Cast, Role};
use crate::check::{Log, Story};
use crate::events::{Moment, now};
use crate::flow::{self, Flow, Watch};
use crate::plan::Life;

const TOPIC: &str = "work";
const GROUP: &str = "workers";
const PARTITIONS: usize = 6;

/// How long a question of the test itself may take.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// How long a group may take until it is as it should be when nobody is in it any more.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// How much of what the broker said is shown when something goes wrong.
const LINES_OF_THE_BROKER: usize = 40;

/// Puts a group of one client through its life and returns what a person may want to know of it.
///
/// E2E-02: members share, come and go, and every record is read. E2E-03: whatever the assignor, no partition has two
/// owners. E2E-08: what a killed member owned moves when its session ends, not before.
pub(crate) fn live(plan: &Life, program: Command) -> Result<String> {
    let broker = Broker::start(&[])?;
    let bootstrap = broker.bootstrap();
    flow::create_topic(&bootstrap, TOPIC, PARTITIONS)?;
    let role = Role {
        program,
        bootstrap: bootstrap.clone(),
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        partitions: PARTITIONS,
        assignor: plan.assignor.to_owned(),
        session: plan.session(),
    };
    let flow = Flow::start(&bootstrap, TOPIC, PARTITIONS)?;
    let watch = Watch::start(&bootstrap, GROUP, TOPIC, PARTITIONS)?;
    let mut stage = Stage {
        cast: Cast::new(role)?,
        broker,
        outages: Vec::new(),
        steps: Vec::new(),
        last: Instant::now(),
    };
    let lived = if plan.is_static { stage.live_static(plan) } else { stage.live_dynamic(plan) };
    let ended = lived.and_then(|()| stage.end(plan, flow, watch));
    let steps = stage.steps.join(", ");
    match ended {
        Ok(findings) => Ok(format!("{findings}; {steps}")),
        Err(error) => {
            let said = stage.broker.output();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_OF_THE_BROKER)..].join("\n");
            let why = why_it_rebalanced(&stage.broker);
            Err(error.context(format!("after {steps}; the broker said:\n{last}\n{why}\n")))
        }
    }
}

/// The group's story as the broker itself tells it, if it is ours.
fn why_it_rebalanced(broker: &Broker) -> String {
    let (Broker::Kohort(kohort), Ok(binary)) = (broker, e2e::kohort::binary()) else { return String::new() };
    let mut command = Command::new(binary);
    command.args(["group", "events", GROUP, "--admin", &kohort.admin(), "--data-dir"]).arg(kohort.data_dir());
    run_within(command, ASK_WITHIN).map_or_else(|error| format!("{error:#}"), |it| it.stdout + &it.stderr)
}

struct Stage {
    broker: Broker,
    cast: Cast,
    outages: Vec<(Moment, Moment)>,
    /// What was done and how long it took, for a person.
    steps: Vec<String>,
    last: Instant,
}

impl Stage {
    fn did(&mut self, what: &str) {
        self.steps.push(format!("{what} {:.1} s", self.last.elapsed().as_secs_f64()));
        self.last = Instant::now();
    }

    /// Members join, leave, crash and return; the broker is killed while all is quiet and while it rebalances.
    fn live_dynamic(&mut self, plan: &Life) -> Result<()> {
        let begin = now();
        self.cast.join("a", None)?;
        let b = self.cast.join("b", None)?;
        self.cast.settle("two members start", begin)?;
        self.did("start");

        let begin = now();
        let c = self.cast.join("c", None)?;
        self.cast.settle("a third joins", begin)?;
        self.did("join");

        self.restart_while_quiet(plan)?;

        let begin = now();
        self.cast.leave(b)?;
        self.cast.settle("one leaves", begin)?;
        self.did("leave");

        self.cast.kill(c)?;
        let begin = now();
        self.cast.settle("one is killed", begin)?;
        // It may have been heard of last some time before.
        let took = Duration::from_nanos(now() - begin);
        ensure!(took > plan.session() / 2, "a killed member's partitions moved after {took:?}");
        self.did("crash");

        let begin = now();
        self.cast.join("c again", None)?;
        self.cast.settle("it comes back", begin)?;
        self.did("return");

        self.cast.join("d", None)?;
        self.restart_while_rebalancing()?;
        self.did("broker killed in a rebalance");
        Ok(())
    }

    /// Static members come back within their session, and nobody else notices.
    fn live_static(&mut self, plan: &Life) -> Result<()> {
        let begin = now();
        let a = self.cast.join("a", Some("instance-a"))?;
        let b = self.cast.join("b", Some("instance-b"))?;
        self.cast.settle("two members start", begin)?;
        self.did("start");

        let b = self.replace(plan, a, b, "is killed and comes back", Cast::kill)?;
        self.did("crash and return");
        let b = self.replace(plan, a, b, "stops and comes back", Cast::leave)?;
        self.did("stop and return");
        // The leader of the group may be either, and none must make a difference.
        let a = self.replace(plan, b, a, "is killed and comes back", Cast::kill)?;
        self.did("the other's crash and return");

        let mut b = b;
        if plan.client.learns_of_a_twin() {
            b = self.replace(plan, a, b, "has a twin that takes its place", |_, _| Ok(()))?;
            self.did("twin");
        }

        self.restart_while_quiet(plan)?;

        self.cast.kill(b)?;
        let begin = now();
        self.cast.settle("a static member stays away", begin)?;
        ensure!(self.cast.member(a).owned_partitions().len() == PARTITIONS, "a owns all");
        self.did("stay away");
        Ok(())
    }

    /// Ends a static member, starts it again and makes sure that it owns what it owned and the other kept its own.
    fn replace(
        &mut self,
        plan: &Life,
        other: usize,
        member: usize,
        doing: &str,
        end: impl FnOnce(&mut Cast, usize) -> Result<()>,
    ) -> Result<usize> {
        self.cast.refresh()?;
        let name = self.cast.member(member).name.clone();
        let owned = self.cast.member(member).owned_partitions();
        let begin = now();
        end(&mut self.cast, member)?;
        let instance = format!("instance-{}", &name[..1]);
        let back = self.cast.join(&format!("{name} again"), Some(&instance))?;
        if self.cast.member(member).is_there() {
            self.cast.fence_off(member)?;
        }
        self.cast.settle(&format!("{name} {doing}"), begin)?;
        let doing = format!("{name} {doing}");
        let now_owned = self.cast.member(back).owned_partitions();
        ensure!(owned == now_owned, "{doing}: it owned {owned:?} and now {now_owned:?}");
        let other = &self.cast.member(other).name;
        let noticed: Vec<_> = self
            .cast
            .moves_since(begin)
            .into_iter()
            .filter(|it| it.starts_with(&format!("{other}:")))
            .collect();
        ensure!(
            noticed.is_empty() || !plan.client.comes_back_quietly(),
            "{doing}, and the other notices: {noticed:?}\n{}",
            self.cast.last_words()
        );
        Ok(back)
    }

    /// Kills the broker and starts it again. Members whose heartbeats go on keep what they own.
    fn restart_while_quiet(&mut self, plan: &Life) -> Result<()> {
        let begin = now();
        self.restart_broker()?;
        let back = now();
        self.cast.settle("the broker is killed and comes back", back)?;
        if plan.client.reports_commits() {
            // A commit of the same member and generation that is accepted shows that the group was not forgotten.
            self.cast.wait("everybody commits after the broker is back", |cast| {
                let silent = cast.living().find(|it| !it.committed_since(back))?;
                Some(format!("{} has committed nothing", silent.name))
            })?;
        }
        let moved = self.cast.moves_since(begin);
        // A client that hears nothing for its session gives up by itself. A Kafka takes that long to start; a Kohort
        // must not. A gateway takes seconds to notice that a broker was killed.
        let away = Duration::from_nanos(back - begin).saturating_sub(self.broker.notices_a_kill_within());
        let kohort = self.broker.is_kohort();
        ensure!(!kohort || away < plan.session() / 2, "the broker was away for {away:?}");
        if kohort && plan.client.sits_out_a_restart() {
            ensure!(
                moved.is_empty(),
                "members noticed that the broker was killed: {moved:?}\n{}",
                self.cast.last_words()
            );
        }
        let noticed = if moved.is_empty() { "not noticed" } else { "noticed" };
        self.did(&format!("broker killed ({noticed})"));
        Ok(())
    }

    /// Kills the broker as soon as somebody has been told to give up partitions for the one who joins.
    fn restart_while_rebalancing(&mut self) -> Result<()> {
        let begin = now();
        self.cast.wait("a rebalance begins", |cast| {
            cast.moves_since(begin).is_empty().then(|| "nobody has noticed".to_owned())
        })?;
        self.restart_broker()?;
        self.cast.settle("the broker is killed in a rebalance", now())
    }

    fn restart_broker(&mut self) -> Result<()> {
        let gone = now();
        self.broker.kill()?;
        self.broker.restart()?;
        self.outages.push((gone, now()));
        Ok(())
    }

    /// Stops the flow, waits until all is processed, lets everybody leave and looks back.
    fn end(&mut self, plan: &Life, flow: Flow, watch: Watch) -> Result<String> {
        let sent = flow.finish()?;
        let looker = flow::looker(&self.broker.bootstrap(), GROUP)?;
        let complete = flow::ends(&looker, TOPIC, PARTITIONS, ASK_WITHIN)?;
        // A Kafka that is killed now and then keeps a record that is sent again twice, idempotence or not.
        let kohort = self.broker.is_kohort();
        ensure!(!kohort || complete == [sent; PARTITIONS], "{sent} were sent to each of {complete:?}");
        self.cast.wait("everything is processed and committed", |_| {
            match flow::committed(&looker, TOPIC, PARTITIONS, ASK_WITHIN) {
                Ok(committed) if committed == complete => None,
                Ok(committed) => Some(format!("{committed:?} of {complete:?} are committed")),
                Err(error) => Some(format!("{error:#}")),
            }
        })?;
        let living: Vec<usize> = (0..self.cast.members().len())
            .filter(|number| self.cast.living().any(|it| it.name == self.cast.member(*number).name))
            .collect();
        for number in living {
            self.cast.leave(number)?;
        }
        if !plan.is_static {
            let started = Instant::now();
            loop {
                let groups = looker.fetch_group_list(Some(GROUP), ASK_WITHIN).context("ask for the group")?;
                let state = groups.groups().first().map(|it| it.state().to_owned()).unwrap_or_default();
                if state == "Empty" {
                    break;
                }
                ensure!(started.elapsed() < EMPTY_WITHIN, "everybody left and the group is {state:?}");
                thread::sleep(Duration::from_millis(50));
            }
        }
        let members = self.cast.members();
        let story = Story {
            members: members
                .iter()
                .map(|it| Log { name: &it.name, events: &it.events, killed: it.killed, fenced: it.fenced })
                .collect(),
            outages: self.outages.clone(),
            seen: watch.finish()?,
            partitions: PARTITIONS,
            values_are_offsets: kohort,
            ends: complete.clone(),
            commits_when_revoked: plan.commits_when_revoked(),
            reports_commits: plan.client.reports_commits(),
        };
        let found = story.check().with_context(|| self.cast.last_words())?;
        self.did("end");
        Ok(format!("{} records, {} of them twice", found.processed, found.repeated))
    }
}
