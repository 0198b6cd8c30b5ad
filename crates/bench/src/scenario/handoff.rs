//! `handoff`: how long the assigner plans, and how fast a partition changes hands.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use coordination::limits::PARTITIONS_PER_TOPIC_MAX;
use tokio::runtime::{Builder, Runtime};

use crate::assigner::{self, Assigner, Reach};
use crate::compare::{Place, Target};
use crate::consumer::Stage;
use crate::cores::Watch;
use crate::dialogue::{Dialogue, resolve};
use crate::duration;
use crate::figure::{Better, Doubt, DoubtKind, Outcome};
use crate::handover::{Pair, Rounds};
use crate::misuse::Misuse;
use crate::options::{Common, Named, at_least_one};
use crate::planning::{self, Effort, Size};
use crate::process::{ServerProcess, cpu_of_all};
use crate::progress;
use crate::scenario::{Scenario, unique};
use crate::setting::{Setting, listed};
use crate::statistics::Times;

/// Which assigner, and how much is handed over.
///
/// The leader's plan is measured in this process. All else needs an assigner: one consumer owns all partitions of a
/// topic, another registers, warms up in no time, takes over its half, stops, and comes again.
#[derive(Args, Debug)]
pub(crate) struct Handoff {
    #[command(flatten)]
    common: Common,
    /// The assigner to measure; without it only the plan is measured
    #[arg(long, value_name = "URL", conflicts_with = "compare")]
    assigner: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// The group of the two consumers, in which nobody else may be [default: one of its own]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// The topic whose partitions are handed over [default: one that is made at --bootstrap, and removed]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    topic: Option<String>,
    /// Partitions of the topic that is made; the newcomer gets half of them in each round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    topic_partitions: usize,
    /// How often the newcomer comes, for each number of --concurrent
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    rounds: usize,
    /// Partitions that are between ready and assigned at once; several numbers are measured one after the other
    #[arg(long, value_name = "N,…", default_value = "1", value_delimiter = ',', value_parser = at_least_one)]
    concurrent: Vec<usize>,
    /// How long the assigner waits for more changes of consumers, as it is set
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    debounce: Duration,
    /// How long the assigner may take for anything
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    patience: Duration,
    /// Partitions in the plan
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    partitions: usize,
    /// Consumers in the plan
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    consumers: usize,
}

/// What the assigner stands on, as the kernel calls its process.
const ETCD: &str = "etcd";

impl Scenario for Handoff {
    fn name(&self) -> &'static str {
        "handoff"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![
            Setting::called("partitions", "partitions in the plan", self.partitions),
            Setting::called("consumers", "consumers in the plan", self.consumers),
        ];
        if !self.assigners().is_empty() {
            settings.extend([
                match &self.topic {
                    Some(topic) => Setting::new("topic", topic),
                    None => Setting::called("topic-partitions", "partitions", self.topic_partitions),
                },
                Setting::new("rounds", self.rounds),
                Setting::called("concurrent", "at once", listed(&self.concurrent)),
                Setting::new("debounce", format!("{:?}", self.debounce)),
            ]);
        }
        settings
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![
            ("partitions", &mut self.partitions),
            ("consumers", &mut self.consumers),
            ("topic-partitions", &mut self.topic_partitions),
        ]
    }

    fn check(&self) -> Result<(), Misuse> {
        Misuse::unless_distinct("--concurrent", &self.concurrent)?;
        if self.consumers < 2 {
            return Err(Misuse::new("a plan of which one leaves needs at least 2 consumers"));
        }
        if self.topic_partitions < 2 {
            return Err(Misuse::new("two consumers need at least 2 partitions"));
        }
        let most = PARTITIONS_PER_TOPIC_MAX.unsigned_abs() as usize;
        if self.partitions > most {
            return Err(Misuse::new(format!("a topic has at most {most} partitions")));
        }
        // Which of the assigners compared reads which Kafka is not known.
        if !self.common.compare.is_empty() && self.topic.is_none() {
            return Err(Misuse::new("with --compare the topic must be there already; name it with --topic"));
        }
        Ok(())
    }

    fn targets(&self) -> Result<Vec<Target>> {
        let assigners = self.assigners();
        if assigners.is_empty() {
            return Ok(vec![Target { name: "plan".to_owned(), place: Place::Here }]);
        }
        let target = |named: &Named| -> Result<Target> {
            let address = assigner::address(&named.address)?;
            let process = match self.common.pid {
                Some(pid) => Some(ServerProcess { pid }),
                None => ServerProcess::listening_at(address),
            };
            Ok(Target { name: named.name.clone(), place: Place::Server(address, process) })
        };
        assigners.iter().map(target).collect()
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let assigners = self.assigners();
        let named = assigners.iter().find(|named| named.name == target.name);
        // Whoever is not there is told so at once, and not after all plans.
        let connected = named.map(|named| self.connect(&named.address)).transpose()?;
        // The plan is the same whatever assigner is measured.
        if assigners.first().is_none_or(|first| first.name == target.name) {
            self.measure_plan(&mut outcome)?;
        }
        match connected {
            Some((runtime, assigner)) => self.measure_assigner(&runtime, assigner, target, &mut outcome)?,
            None => outcome.doubts.push(Doubt {
                about: "registration and handoffs".to_owned(),
                kind: DoubtKind::Flags,
                gravity: 1.0,
                reason: "not measured, only the plan is; name an assigner with --assigner".to_owned(),
            }),
        }
        Ok(outcome)
    }
}

impl Handoff {
    fn assigners(&self) -> Vec<Named> {
        let alone = |address: &String| Named { name: "assigner".to_owned(), address: address.clone() };
        self.assigner.iter().map(alone).chain(self.common.compare.clone()).collect()
    }

    fn measure_plan(&self, outcome: &mut Outcome) -> Result<()> {
        let Self { partitions, consumers, .. } = *self;
        progress::step(&format!("plans for {partitions} partitions and {consumers} consumers"));
        let share = |whole: Duration| whole / 4;
        let effort = Effort { warmup: share(self.common.warmup), duration: share(self.common.duration) };
        let watch = Watch::begin(None);
        for (occasion, times) in planning::measure(Size { partitions, consumers }, effort)? {
            let name = occasion.name();
            outcome.time(format!("plan, {name}, p50"), times.percentile(50));
            outcome.time(format!("  plan, {name}, longest"), times.percentile(100));
        }
        outcome.doubts.extend(watch.end().doubt_about_others_than_us("plan"));
        Ok(())
    }

    fn connect(&self, url: &str) -> Result<(Runtime, Assigner)> {
        let runtime = Builder::new_current_thread().enable_all().build().context("start a runtime")?;
        let assigner = runtime.block_on(Assigner::connect(url, &self.reach))?;
        Ok((runtime, assigner))
    }

    fn measure_assigner(
        &self,
        runtime: &Runtime,
        assigner: Assigner,
        target: &Target,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let (_, process) = target.server()?;
        let made = match self.topic {
            Some(_) => None,
            None => Some(self.make_topic()?),
        };
        let topic =
            made.as_ref().map_or_else(|| self.topic.clone().unwrap_or_default(), |made| made.1.clone());
        let group = self.group.clone().unwrap_or_else(|| unique("handoff"));
        let stage = Stage { group, topic, patience: self.patience };
        let (watch, etcd) = (Watch::begin(process), cpu_of_all(ETCD));
        let measured = runtime.block_on(self.hand_over(assigner, stage));
        let mut cores = watch.end();
        // Whatever came of it, nothing of ours stays behind.
        let deleted = match made {
            Some((mut dialogue, topic)) => dialogue.delete_topic(&topic),
            None => Ok(()),
        };
        let measured = measured?;
        deleted?;
        self.describe(&measured, outcome);
        outcome.add("  cores for the consumers", "", Better::Neither, cores.load);
        if let Some(server) = cores.server {
            outcome.add("  cores for the assigner", "", Better::Neither, server);
            let etcd = cores.add_to_server(cpu_of_all(ETCD).saturating_sub(etcd));
            outcome.add("  cores for etcd, if it is on this machine", "", Better::Neither, etcd);
        }
        outcome.doubts.extend(cores.doubt_about_others("registration and handoffs"));
        Ok(())
    }

    fn make_topic(&self) -> Result<(Dialogue, String)> {
        let topic = unique("handoff");
        let mut dialogue = Dialogue::open(resolve(&self.common.bootstrap)?)?;
        dialogue.create_topic(&topic, self.topic_partitions)?;
        Ok((dialogue, topic))
    }

    async fn hand_over(&self, assigner: Assigner, stage: Stage) -> Result<Vec<(usize, Rounds)>> {
        progress::step("the resident gets all partitions");
        let mut pair = Pair::settle(assigner, stage).await?;
        let mut measured: Vec<(usize, Rounds)> =
            self.concurrent.iter().map(|at_once| (*at_once, Rounds::default())).collect();
        for round in 1..=self.rounds {
            for (at_once, rounds) in &mut measured {
                progress::step(&format!("round {round} of {}, {at_once} at once", self.rounds));
                let outcome = pair.round(*at_once, rounds).await;
                outcome.with_context(|| format!("round {round}, {at_once} at once"))?;
            }
        }
        pair.end().await?;
        Ok(measured)
    }

    fn describe(&self, measured: &[(usize, Rounds)], outcome: &mut Outcome) {
        let mut registered = Times::default();
        let mut replaced = Times::default();
        for (_, rounds) in measured {
            registered.extend(&rounds.registered_to_warm);
            replaced.extend(&rounds.stopped_to_replaced);
        }
        let beyond = |hundredths| registered.percentile(hundredths).saturating_sub(self.debounce);
        outcome.time("registered to first Warm, beyond the debounce, p50", beyond(50));
        outcome.time("  registered to first Warm, beyond the debounce, longest", beyond(100));
        outcome.time("  registered to first Warm, all in all, p50", registered.percentile(50));
        outcome.count("  registrations", registered.len());
        if registered.percentile(50) < self.debounce {
            outcome.doubts.push(Doubt {
                about: "registered to first Warm".to_owned(),
                kind: DoubtKind::Flags,
                gravity: 1.0,
                reason: format!("it came before {:?} were over; is that its debounce?", self.debounce),
            });
        }
        for (at_once, rounds) in measured {
            let times = &rounds.ready_to_assigned;
            for (hundredths, name) in [(50, "p50"), (99, "p99"), (100, "longest")] {
                let indent = if hundredths == 50 { "" } else { "  " };
                let name = format!("{indent}ready to assigned, {at_once} at once, {name}");
                outcome.time(name, times.percentile(hundredths)).plotted = hundredths < 100;
            }
            outcome.count(format!("  handoffs, {at_once} at once"), times.len());
        }
        outcome.time("stopped to replaced by the other, all in all, p50", replaced.percentile(50));
    }
}
