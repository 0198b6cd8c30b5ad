//! Two consumers of one group between whom partitions are handed over, and how long the assigner takes for that.
//!
//! The resident owns all partitions. In each round the newcomer registers, is told to warm up for half of them, says of
//! one after the other that it is ready, and stops when it has got them all; then the resident has all again. Neither
//! does any work: the resident releases at once, so that what passes is the assigner's own time.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::{Assignment, KeepAliveRequest, PartitionReadyRequest, PartitionReleasedRequest};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout_at};
use tonic::Status;

use crate::assigner::Assigner;
use crate::consumer::{Consumer, KEEP_ALIVE, Stage, keep_alive};
use crate::ledger::{Handoff, Ledger, Who};
use crate::statistics::Times;

/// How often the assigner is asked whether it has come to rest.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// What rounds gave.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// From sending Register to the first Warm.
    pub(crate) registered_to_warm: Times,
    /// From sending PartitionReady to the assignment, for each partition.
    pub(crate) ready_to_assigned: Times,
    /// From saying that it has stopped until the other has all its partitions.
    pub(crate) stopped_to_replaced: Times,
}

/// The two consumers.
#[derive(Debug)]
pub(crate) struct Pair {
    assigner: Assigner,
    stage: Stage,
    ledger: Ledger,
    resident: Consumer,
    newcomer: Option<Consumer>,
    calls: Calls,
}

/// Calls whose answers have not come, and what says for each consumer that it lives.
#[derive(Debug)]
struct Calls {
    set: JoinSet<Result<()>>,
    /// How many of them end by themselves.
    open: usize,
}

/// What one of the consumers has learned.
#[derive(Debug)]
enum News {
    Warm(u32),
    Released(u32),
    /// When it was told.
    Assigned(Vec<u32>, Instant),
    /// Nothing that it does not know.
    Nothing,
}

impl Pair {
    /// Registers the resident, in a group that nobody else is in, and waits until it owns all partitions.
    pub(crate) async fn settle(assigner: Assigner, stage: Stage) -> Result<Self> {
        let before = assigner.group(&stage.group).await?;
        let others = before.map_or(0, |group| group.consumers.len());
        ensure!(
            others == 0,
            "group {} has {others} consumers already; measure in one of its own",
            stage.group
        );
        let resident = Consumer::register(&assigner, &stage, Who::Resident).await?;
        let deadline = Instant::now() + stage.patience;
        let partitions = partitions(&assigner, &stage, deadline).await?;
        ensure!(partitions >= 2, "topic {} has {partitions} partitions; at least 2 are needed", stage.topic);
        let ledger = Ledger::new(&stage.topic, partitions);
        let calls = Calls { set: JoinSet::new(), open: 0 };
        let mut pair = Self { assigner, stage, ledger, resident, newcomer: None, calls };
        pair.until_resident_owns_all().await?;
        Ok(pair)
    }

    /// One round, with at most `at_once` handoffs between ready and assigned.
    pub(crate) async fn round(&mut self, at_once: usize, rounds: &mut Rounds) -> Result<()> {
        let deadline = Instant::now() + self.stage.patience;
        let sent = Instant::now();
        self.newcomer = Some(Consumer::register(&self.assigner, &self.stage, Who::Newcomer).await?);
        // The first to be ready waits for the last to be told: while a plan is written it would not be alone.
        let share = self.ledger.partitions() / 2;
        let mut warm = VecDeque::new();
        while warm.len() < share {
            let waiting = || format!("{} of {share} Warm commands have come", warm.len());
            let news = self.news(deadline).await.with_context(waiting)?;
            match news {
                News::Warm(partition) => {
                    if warm.is_empty() {
                        rounds.registered_to_warm.record(sent.elapsed());
                    }
                    warm.push_back(partition);
                }
                News::Nothing => {}
                other => bail!("{other:?} before anything was ready"),
            }
        }
        self.hand_over(warm, at_once, rounds).await?;
        self.ledger.expect_fair_shares()?;
        self.expect_rest().await?;
        self.newcomer_stops(rounds).await
    }

    /// Leaves nobody behind.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.ledger.stop(Who::Resident);
        self.resident.be_silent();
        self.resident.deregister(&self.assigner, &self.stage).await
    }

    async fn hand_over(
        &mut self,
        mut warm: VecDeque<u32>,
        at_once: usize,
        rounds: &mut Rounds,
    ) -> Result<()> {
        let mut begun: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut deadline = Instant::now() + self.stage.patience;
        while !warm.is_empty() || !begun.is_empty() {
            while begun.len() < at_once
                && let Some(partition) = warm.pop_front()
            {
                begun.insert(partition, Instant::now());
                self.say_ready(partition)?;
            }
            let waiting = || format!("{:?} were ready and not assigned", begun.keys());
            match self.news(deadline).await.with_context(waiting)? {
                News::Assigned(partitions, at) => {
                    for partition in partitions {
                        let since = begun.remove(&partition);
                        let since = since.with_context(|| format!("partition {partition} was not ready"))?;
                        rounds.ready_to_assigned.record(at - since);
                    }
                    deadline = Instant::now() + self.stage.patience;
                }
                News::Released(partition) => {
                    ensure!(begun.contains_key(&partition), "partition {partition} was not ready");
                }
                News::Warm(partition) => bail!("partition {partition} is more than the newcomer's share"),
                News::Nothing => {}
            }
        }
        while self.calls.open > 0 {
            let news = self.news(deadline).await.context("wait for answers")?;
            ensure!(matches!(news, News::Nothing), "{news:?} after everything was handed over");
        }
        Ok(())
    }

    /// The newcomer says that it has stopped, and the resident gets everything back.
    async fn newcomer_stops(&mut self, rounds: &mut Rounds) -> Result<()> {
        let mut newcomer = self.newcomer.take().context("there is no newcomer")?;
        newcomer.be_silent();
        self.ledger.stop(Who::Newcomer);
        let sent = Instant::now();
        newcomer.deregister(&self.assigner, &self.stage).await?;
        self.until_resident_owns_all().await?;
        rounds.stopped_to_replaced.record(sent.elapsed());
        self.expect_rest().await
    }

    async fn until_resident_owns_all(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.stage.patience;
        loop {
            let (owned, all) = (self.ledger.owned_by(Who::Resident), self.ledger.partitions());
            if owned == all {
                return Ok(());
            }
            let waiting = || format!("the only consumer owns {owned} of {all} partitions");
            let news = self.news(deadline).await.with_context(waiting)?;
            ensure!(matches!(news, News::Assigned(..) | News::Nothing), "{news:?} for the only consumer");
        }
    }

    /// Waits until the assigner says the same: everything has an owner, and nothing is on its way.
    async fn expect_rest(&self) -> Result<()> {
        let deadline = Instant::now() + self.stage.patience;
        loop {
            let group = self.assigner.group(&self.stage.group).await?.context("the group is gone")?;
            let topic = group.topics.iter().find(|topic| topic.topic == self.stage.topic);
            let topic = topic.context("the group works on the topic no more")?;
            if topic.assigned == topic.partitions && group.handoffs == 0 {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} of {} partitions have an owner and {} handoffs are open after all was handed over",
                topic.assigned,
                topic.partitions,
                group.handoffs
            );
            sleep(ASK_AGAIN).await;
        }
    }

    /// The next that one of the two learns, checked and acted on.
    async fn news(&mut self, deadline: Instant) -> Result<News> {
        let next = async {
            let newcomer = async {
                match &mut self.newcomer {
                    Some(party) => party.commands.message().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                told = self.resident.commands.message() => Ok(Some((Who::Resident, told))),
                told = newcomer => Ok(Some((Who::Newcomer, told))),
                Some(ended) = self.calls.set.join_next() => match ended {
                    Ok(outcome) => {
                        self.calls.open -= 1;
                        outcome.map(|()| None)
                    }
                    // A consumer that has stopped does not say any more that it lives.
                    Err(error) if error.is_cancelled() => Ok(None),
                    Err(error) => Err(error).context("a call broke off"),
                },
            }
        };
        let next: Result<Option<(Who, Result<_, Status>)>> =
            timeout_at(deadline.into(), next).await.context("nothing came in time")?;
        match next? {
            None => Ok(News::Nothing),
            Some((who, told)) => {
                let at = Instant::now();
                let told = told.with_context(|| format!("the stream of {who} broke"))?;
                let told = told.with_context(|| format!("the stream of {who} ended"))?;
                self.obey(who, told.command.context("a command is empty")?, at)
            }
        }
    }

    fn obey(&mut self, who: Who, command: Command, at: Instant) -> Result<News> {
        match command {
            Command::Warm(warm) => Ok(News::Warm(self.ledger.warm(who, &warm)?)),
            Command::Release(release) => {
                let (partition, handoff) = self.ledger.release(who, &release)?;
                self.say_released(partition, handoff);
                Ok(News::Released(partition))
            }
            Command::Cancel(cancel) => bail!("the handoff of {:?} was cancelled", cancel.partition),
            Command::Assignment(assignment) => {
                if assignment.is_snapshot {
                    self.begin_keep_alive(who, &assignment);
                }
                let partitions = self.take_over(who, &assignment)?;
                Ok(if partitions.is_empty() { News::Nothing } else { News::Assigned(partitions, at) })
            }
        }
    }

    fn take_over(&mut self, who: Who, assignment: &Assignment) -> Result<Vec<u32>> {
        let Assignment { assigned, unassigned, epochs, .. } = assignment;
        ensure!(epochs.len() == assigned.len(), "{} epochs for {} partitions", epochs.len(), assigned.len());
        unassigned.iter().try_for_each(|place| self.ledger.unassign(who, place))?;
        let told = assigned.iter().zip(epochs);
        let partitions = told.map(|(place, epoch)| self.ledger.assign(who, place, *epoch)).collect();
        if assignment.is_snapshot {
            self.ledger.expect_owned(who, assigned.len())?;
        }
        partitions
    }

    fn begin_keep_alive(&mut self, who: Who, snapshot: &Assignment) {
        let interval = match snapshot.keep_alive_interval_ms {
            0 => KEEP_ALIVE,
            told => Duration::from_millis(told),
        };
        let (client, group) = (self.assigner.client(), self.stage.group.clone());
        let party = match (who, &mut self.newcomer) {
            (Who::Newcomer, Some(newcomer)) => newcomer,
            _ => &mut self.resident,
        };
        let request =
            KeepAliveRequest { consumer_name: party.name.to_owned(), group, session: party.session.clone() };
        party.be_silent();
        party.keep_alive = Some(self.calls.set.spawn(keep_alive(client, request, interval)));
    }

    fn say_ready(&mut self, partition: u32) -> Result<()> {
        let newcomer = self.newcomer.as_ref().context("there is no newcomer")?;
        let handoff = self.ledger.handoff(partition).context("there is no handoff")?.clone();
        let request = PartitionReadyRequest {
            consumer_name: newcomer.name.to_owned(),
            partition: Some(self.stage.place(partition)),
            group: self.stage.group.clone(),
            session: newcomer.session.clone(),
            handoff_id: handoff.id.clone(),
            epoch: handoff.epoch,
        };
        let mut client = self.assigner.client();
        self.calls.begin(async move {
            let answer = client.partition_ready(request).await.context("PartitionReady")?.into_inner();
            handoff.expect_in(answer.handoff_id, answer.epoch).context("PartitionReady")
        });
        Ok(())
    }

    fn say_released(&mut self, partition: u32, handoff: Handoff) {
        let request = PartitionReleasedRequest {
            consumer_name: self.resident.name.to_owned(),
            partition: Some(self.stage.place(partition)),
            group: self.stage.group.clone(),
            session: self.resident.session.clone(),
            handoff_id: handoff.id.clone(),
            epoch: handoff.epoch,
        };
        let mut client = self.assigner.client();
        self.calls.begin(async move {
            let answer = client.partition_released(request).await.context("PartitionReleased")?.into_inner();
            handoff.expect_in(answer.handoff_id, answer.epoch).context("PartitionReleased")
        });
    }
}

impl Calls {
    fn begin(&mut self, call: impl Future<Output = Result<()>> + Send + 'static) {
        self.open += 1;
        self.set.spawn(call);
    }
}

impl Handoff {
    fn expect_in(&self, id: String, epoch: u64) -> Result<()> {
        let answered = Self { id, epoch };
        ensure!(answered == *self, "the answer is about {answered:?} and not about {self:?}");
        Ok(())
    }
}

/// How many partitions the assigner knows of the topic.
async fn partitions(assigner: &Assigner, stage: &Stage, deadline: Instant) -> Result<usize> {
    loop {
        let group = assigner.group(&stage.group).await?;
        let topics = group.map(|group| group.topics).unwrap_or_default();
        if let Some(topic) = topics.iter().find(|topic| topic.topic == stage.topic) {
            return Ok(topic.partitions as usize);
        }
        ensure!(Instant::now() < deadline, "the assigner does not know the topic {}", stage.topic);
        sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assigner::Reach;
    use crate::scripted_assigner::{self, GROUP, Habit, TOPIC};

    /// Two rounds with an assigner of seven partitions.
    async fn rounds(habit: Habit, at_once: usize) -> Result<Rounds> {
        // Reached only where the assigner forgets to answer.
        let patience = Duration::from_secs(if habit == Habit::ForgetsReleased { 1 } else { 30 });
        let url = scripted_assigner::start(habit, 7);
        let assigner = Assigner::connect(&url, &Reach::default()).await?;
        let stage = Stage { group: GROUP.to_owned(), topic: TOPIC.to_owned(), patience };
        let mut pair = Pair::settle(assigner.clone(), stage.clone()).await?;
        let again = Pair::settle(assigner.clone(), stage).await.expect_err("there is somebody already");
        assert!(format!("{again:#}").contains("1 consumers already"), "{again:#}");
        let mut rounds = Rounds::default();
        pair.round(at_once, &mut rounds).await?;
        pair.round(at_once, &mut rounds).await?;
        pair.end().await?;
        let left = assigner.group(GROUP).await?.context("the group is gone")?.consumers;
        assert!(left.is_empty(), "{left:?}");
        Ok(rounds)
    }

    #[tokio::test]
    async fn every_partition_that_changes_hands_is_timed() {
        for at_once in [1, 2, 100] {
            let rounds = rounds(Habit::Correct, at_once).await.expect("all is well");
            assert_eq!(rounds.registered_to_warm.len(), 2);
            assert_eq!(rounds.stopped_to_replaced.len(), 2);
            assert_eq!(rounds.ready_to_assigned.len(), 2 * 3, "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn an_assigner_that_is_wrong_gives_no_result() {
        for (habit, says) in [
            (Habit::AssignsTooEarly, "has two owners: the newcomer got it while the resident had not"),
            (Habit::AssignsTwice, "the resident got"),
            (Habit::KeepsEpochs, "epoch"),
            (Habit::RefusesReady, "the handoff is another one's"),
            (Habit::ForgetsReleased, "were ready and not assigned: nothing came in time"),
            (Habit::MixesHandoffs, "hnd_of_another"),
        ] {
            let error = rounds(habit, 2).await.expect_err("something is wrong");
            assert!(format!("{error:#}").contains(says), "{habit:?}: {error:#}");
        }
    }
}
