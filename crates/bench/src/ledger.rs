//! Who works on what, as two consumers see it, and whether what they are told can be true.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use assigner_client::proto::{Release, TopicPartition, Warm};

/// One of the two consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// It is there all the time.
    Resident,
    /// It comes and goes.
    Newcomer,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resident => "the resident",
            Self::Newcomer => "the newcomer",
        })
    }
}

/// A handoff by its id and the epoch that its target will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    pub(crate) id: String,
    pub(crate) epoch: u64,
}

/// What both consumers know of the partitions of one topic.
#[derive(Debug)]
pub(crate) struct Ledger {
    topic: String,
    pages: Vec<Page>,
}

/// One partition.
#[derive(Clone, Debug, Default)]
struct Page {
    /// Who works on it.
    owner: Option<Who>,
    /// The epoch of the last who did.
    epoch: u64,
    /// What the newcomer was told to warm up for.
    handoff: Option<Handoff>,
}

impl Ledger {
    /// Nobody works on any of the partitions.
    pub(crate) fn new(topic: &str, partitions: usize) -> Self {
        Self { topic: topic.to_owned(), pages: vec![Page::default(); partitions] }
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> usize {
        self.pages.len()
    }

    /// How many of them the consumer works on.
    pub(crate) fn owned_by(&self, who: Who) -> usize {
        self.pages.iter().filter(|page| page.owner == Some(who)).count()
    }

    /// The consumer is told to warm up; gives the partition's number.
    pub(crate) fn warm(&mut self, who: Who, warm: &Warm) -> Result<u32> {
        let (partition, page) = self.page(warm.partition.as_ref())?;
        ensure!(page.owner != Some(who), "{who} was told to warm partition {partition}, which it owns");
        ensure!(who == Who::Newcomer, "{who} was told to warm partition {partition}, though nobody leaves");
        ensure!(!warm.handoff_id.is_empty(), "the handoff of partition {partition} has no id");
        ensure!(
            warm.epoch > page.epoch,
            "the handoff of partition {partition} has epoch {} after epoch {}",
            warm.epoch,
            page.epoch
        );
        page.handoff = Some(Handoff { id: warm.handoff_id.clone(), epoch: warm.epoch });
        Ok(partition)
    }

    /// The handoff for which the newcomer was told to warm up.
    pub(crate) fn handoff(&self, partition: u32) -> Option<&Handoff> {
        self.pages.get(partition as usize)?.handoff.as_ref()
    }

    /// The consumer is told to let go, and does: from now on it works on the partition no more. Gives the partition's
    /// number and the handoff.
    pub(crate) fn release(&mut self, who: Who, release: &Release) -> Result<(u32, Handoff)> {
        let (partition, page) = self.page(release.partition.as_ref())?;
        ensure!(
            page.owner == Some(who),
            "{who} was told to release partition {partition}, which it does not own"
        );
        let told = Handoff { id: release.handoff_id.clone(), epoch: release.epoch };
        ensure!(
            page.handoff.as_ref() == Some(&told),
            "{who} was told to release partition {partition} for {told:?}, and the other to warm up for {:?}",
            page.handoff
        );
        page.owner = None;
        Ok((partition, told))
    }

    /// The consumer is told that it owns a partition; gives the partition's number.
    pub(crate) fn assign(&mut self, who: Who, place: &TopicPartition, epoch: u64) -> Result<u32> {
        let (partition, page) = self.page(Some(place))?;
        match page.owner {
            Some(owner) if owner == who => {
                ensure!(
                    epoch == page.epoch,
                    "the epoch of partition {partition} went from {} to {epoch} under the same owner",
                    page.epoch
                );
                return Ok(partition);
            }
            Some(owner) => bail!(
                "partition {partition} has two owners: {who} got it while {owner} had not released it; \
                 does the assigner hand over with an overlap?"
            ),
            None => {}
        }
        ensure!(
            epoch > page.epoch,
            "partition {partition} changed its owner and its epoch went from {} to {epoch}",
            page.epoch
        );
        // The resident takes over from one that has stopped; between two that live there is a handoff.
        let promised = page.handoff.take().map(|handoff| handoff.epoch);
        if who == Who::Resident {
            ensure!(
                promised.is_none(),
                "{who} got partition {partition} while it was handed over to the other"
            );
        } else {
            ensure!(
                promised == Some(epoch),
                "{who} got partition {partition} with epoch {epoch}, and was told to warm up for epoch {promised:?}"
            );
        }
        page.owner = Some(who);
        page.epoch = epoch;
        Ok(partition)
    }

    /// The consumer is told that it does not own a partition any more, which it must know already.
    pub(crate) fn unassign(&mut self, who: Who, place: &TopicPartition) -> Result<()> {
        let (partition, page) = self.page(Some(place))?;
        ensure!(page.owner != Some(who), "partition {partition} was taken from {who} without a release");
        Ok(())
    }

    /// Fails unless the consumer works on so many partitions.
    pub(crate) fn expect_owned(&self, who: Who, count: usize) -> Result<()> {
        let owned = self.owned_by(who);
        ensure!(owned == count, "{who} works on {owned} partitions and was told that it owns {count}");
        Ok(())
    }

    /// The consumer has stopped.
    pub(crate) fn stop(&mut self, who: Who) {
        for page in &mut self.pages {
            if page.owner == Some(who) {
                page.owner = None;
            }
            // It is the newcomer that warms up or the resident that nobody can take over from: either way it is over.
            page.handoff = None;
        }
    }

    /// Fails unless each partition has its one owner, both have as many as is fair, and nothing is on its way.
    pub(crate) fn expect_fair_shares(&self) -> Result<()> {
        let (resident, newcomer) = (self.owned_by(Who::Resident), self.owned_by(Who::Newcomer));
        let all = self.partitions();
        ensure!(resident + newcomer == all, "{} of {all} partitions have an owner", resident + newcomer);
        ensure!(
            resident.abs_diff(newcomer) <= 1,
            "one consumer has {resident} partitions and the other {newcomer}"
        );
        let waiting = self.pages.iter().filter(|page| page.handoff.is_some()).count();
        ensure!(waiting == 0, "{waiting} handoffs have not ended");
        Ok(())
    }

    fn page(&mut self, place: Option<&TopicPartition>) -> Result<(u32, &mut Page)> {
        let place = place.context("a command names no partition")?;
        ensure!(place.topic == self.topic, "a command is about the topic {}", place.topic);
        let count = self.pages.len();
        let page = self.pages.get_mut(place.partition as usize);
        let page =
            page.with_context(|| format!("a command is about partition {} of {count}", place.partition))?;
        Ok((place.partition, page))
    }
}

#[cfg(test)]
mod tests {
    use super::Who::{Newcomer, Resident};
    use super::*;

    fn place(partition: u32) -> TopicPartition {
        TopicPartition { topic: "t".to_owned(), partition }
    }

    fn warm(partition: u32, epoch: u64) -> Warm {
        Warm { partition: Some(place(partition)), handoff_id: "h".to_owned(), epoch, ..Default::default() }
    }

    fn release(partition: u32, epoch: u64) -> Release {
        Release { partition: Some(place(partition)), handoff_id: "h".to_owned(), epoch, ..Default::default() }
    }

    /// Two partitions of the resident, one of which the newcomer warms up for.
    fn warming() -> Ledger {
        let mut ledger = Ledger::new("t", 2);
        for partition in 0..2 {
            ledger.assign(Resident, &place(partition), 7).expect("a first owner");
        }
        ledger.warm(Newcomer, &warm(1, 8)).expect("a handoff");
        ledger
    }

    #[track_caller]
    fn fails<T: fmt::Debug>(outcome: Result<T>, says: &str) {
        let error = outcome.expect_err("it cannot be true").to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn a_handoff_in_order_is_accepted() {
        let mut ledger = warming();
        let handoff = Handoff { id: "h".to_owned(), epoch: 8 };
        assert_eq!(ledger.handoff(1), Some(&handoff));
        assert_eq!(ledger.release(Resident, &release(1, 8)).expect("a release"), (1, handoff));
        ledger.unassign(Resident, &place(1)).expect("it knows already");
        ledger.assign(Newcomer, &place(1), 8).expect("its turn");
        ledger.expect_fair_shares().expect("one each");
        ledger.stop(Newcomer);
        ledger.assign(Resident, &place(1), 9).expect("nobody else works on it");
        assert_eq!(ledger.owned_by(Resident), 2);
    }

    #[test]
    fn two_owners_are_noticed() {
        fails(warming().assign(Newcomer, &place(1), 8), "two owners");
        let mut ledger = warming();
        ledger.release(Resident, &release(1, 8)).expect("a release");
        ledger.assign(Newcomer, &place(1), 8).expect("its turn");
        fails(ledger.assign(Resident, &place(1), 9), "two owners");
    }

    #[test]
    fn nobody_else_gets_what_was_released() {
        let mut ledger = warming();
        ledger.release(Resident, &release(1, 8)).expect("a release");
        fails(ledger.assign(Resident, &place(1), 8), "while it was handed over");
    }

    #[test]
    fn epochs_that_do_not_grow_are_noticed() {
        fails(warming().warm(Newcomer, &warm(0, 7)), "epoch 7 after epoch 7");
        fails(warming().assign(Resident, &place(0), 8), "under the same owner");
        let mut ledger = warming();
        ledger.release(Resident, &release(1, 8)).expect("a release");
        fails(ledger.assign(Newcomer, &place(1), 9), "warm up for epoch Some(8)");
        let mut ledger = warming();
        ledger.stop(Resident);
        fails(ledger.assign(Resident, &place(0), 7), "went from 7 to 7");
    }

    #[test]
    fn commands_that_fit_nothing_are_noticed() {
        fails(warming().release(Resident, &release(0, 8)), "the other to warm up for None");
        fails(warming().release(Newcomer, &release(1, 8)), "does not own");
        fails(warming().unassign(Resident, &place(0)), "without a release");
        fails(warming().warm(Newcomer, &warm(2, 8)), "partition 2 of 2");
        fails(warming().warm(Resident, &warm(0, 8)), "which it owns");
        fails(warming().expect_owned(Resident, 1), "was told that it owns 1");
        let other = TopicPartition { topic: "u".to_owned(), partition: 0 };
        fails(warming().assign(Newcomer, &other, 9), "the topic u");
        fails(warming().expect_fair_shares(), "one consumer has 2");
    }
}
