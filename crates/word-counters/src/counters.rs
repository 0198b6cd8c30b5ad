//! The word counters themselves: what they do when a partition comes and goes, and the work in between.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use assigner_client::{Handler, HandlerError, Owned, Partition, WarmEnd, Warming};
use parking_lot::Mutex;
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use tokio::task::spawn_blocking;

use crate::counts::Counts;
use crate::journal::{Event, Journal, now_us};
use crate::kafka::{self, Kafka};
use crate::results::{Entry, Outcome, Results};

/// How close to the owner's offset a counter has to be to say that it is warm: what it reads in a few milliseconds.
const WARM_WITHIN: i64 = 1_000;
/// How often offsets are committed while work goes on. Those who warm up read up to there.
const COMMIT_INTERVAL: Duration = Duration::from_millis(500);
/// How many records are taken together at most.
const BATCH: usize = 500;
/// How long to wait for the first of them.
const POLL: Duration = Duration::from_millis(100);

/// All counters of this process. Clones share.
#[derive(Clone)]
pub(crate) struct Counters(Arc<Shared>);

struct Shared {
    name: String,
    kafka: Kafka,
    consumer: BaseConsumer,
    state_dir: PathBuf,
    results_dir: PathBuf,
    journal: Journal,
    /// What was gathered for partitions that others own.
    warm: Mutex<BTreeMap<Partition, Counts>>,
    /// What this process works on. Records are counted while this is locked, so whoever takes a partition out knows
    /// that no record of it is being worked on.
    working: Mutex<BTreeMap<Partition, Working>>,
    turns: AtomicU64,
}

/// Records that have come.
struct Polled {
    /// The turn of each partition that was being read before.
    turns: BTreeMap<Partition, u64>,
    batches: BTreeMap<Partition, Vec<(i64, String)>>,
}

struct Working {
    owned: Owned,
    counts: Counts,
    results: Results,
    /// The first offset that is ours to work on. What comes before is only counted: its results are there already.
    begins_at: i64,
    committed: i64,
    /// Tells it from earlier times at which this process worked on the partition.
    turn: u64,
    /// It is being released: nothing is counted any more.
    is_stopped: bool,
    /// The journal knows that the work has ended.
    is_told: bool,
}

impl Counters {
    pub(crate) fn new(
        name: &str,
        kafka: Kafka,
        state_dir: PathBuf,
        results_dir: PathBuf,
        journal: Journal,
    ) -> Result<Self> {
        let consumer = kafka.consumer()?;
        kafka::learn(&consumer, &kafka.topic)?;
        let (warm, working) = (Mutex::default(), Mutex::default());
        let (name, turns) = (name.to_owned(), AtomicU64::new(0));
        let shared = Shared { name, kafka, consumer, state_dir, results_dir, journal, warm, working, turns };
        Ok(Self(Arc::new(shared)))
    }

    /// Counts what comes, for ever. Returns only when it cannot go on.
    pub(crate) fn work(&self) -> Result<()> {
        let mut commit_at = Instant::now() + COMMIT_INTERVAL;
        loop {
            self.0.count(self.0.poll()?)?;
            if Instant::now() >= commit_at {
                self.0.commit()?;
                commit_at = Instant::now() + COMMIT_INTERVAL;
            }
        }
    }

    /// What has been counted so far in the partitions that this process works on.
    pub(crate) fn counts(&self) -> BTreeMap<Partition, Counts> {
        let working = self.0.working.lock();
        working.iter().map(|(partition, working)| (partition.clone(), working.counts.clone())).collect()
    }
}

/// Everything that waits for Kafka or the disk runs on a thread where it may.
impl Handler for Counters {
    async fn warm(&self, warming: Warming) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.warm(&warming)).await??)
    }

    async fn assign(&self, owned: Owned) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.assign(owned)).await??)
    }

    async fn release(&self, partition: Partition) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.release(&partition)).await??)
    }

    async fn cancel(&self, partition: Partition) {
        self.0.warm.lock().remove(&partition);
    }

    async fn revoke(&self, partition: Partition) {
        let shared = Arc::clone(&self.0);
        let revoked = spawn_blocking(move || shared.revoke(&partition)).await;
        if let Err(error) = revoked {
            tracing::error!(%error, "a partition was not revoked");
        }
    }
}

impl Shared {
    /// Counts what the owner has counted already, without any result, until there is little left to do.
    fn warm(&self, warming: &Warming) -> Result<()> {
        let partition = &warming.partition;
        let mut counts = Counts::load(&self.state_dir, partition)?.unwrap_or_default();
        loop {
            let target = kafka::committed(&self.consumer, partition)?;
            if counts.next_offset > target {
                counts = Counts::default();
            }
            self.catch_up(partition, &mut counts, target, |counts| {
                warming.report(counts.next_offset.unsigned_abs(), target.unsigned_abs());
                warming.end().is_some()
            })?;
            let end = warming.end();
            ensure!(end != Some(WarmEnd::Cancelled), "{partition} goes elsewhere");
            if end.is_none() {
                // The last records before the target may be gone.
                counts.next_offset = counts.next_offset.max(target);
            }
            let is_near = kafka::committed(&self.consumer, partition)? - counts.next_offset <= WARM_WITHIN;
            if is_near || end == Some(WarmEnd::Assigned) {
                break;
            }
        }
        tracing::info!(%partition, offset = counts.next_offset, owner = warming.current_owner, "warm");
        self.warm.lock().insert(partition.clone(), counts);
        Ok(())
    }

    /// Goes on exactly where the former owner has stopped.
    fn assign(&self, owned: Owned) -> Result<()> {
        let partition = owned.partition.clone();
        let results = Results::open(&self.results_dir, &partition, owned.epoch)?;
        // An owner that lets go commits first. One that was killed could not, and its results know better.
        let begins_at = kafka::committed(&self.consumer, &partition)?.max(results.next_offset());
        let mut counts = match self.warm.lock().remove(&partition) {
            Some(counts) => counts,
            None => Counts::load(&self.state_dir, &partition)?.unwrap_or_default(),
        };
        if counts.next_offset > begins_at {
            counts = Counts::default();
        }
        let missing = begins_at - counts.next_offset;
        // A lot is read by itself, so that the other partitions do not wait; a little comes with the rest. The owner has
        // gone on since this counter was warm, and what that was counts as a little.
        if missing > 2 * WARM_WITHIN {
            self.catch_up(&partition, &mut counts, begins_at, |_| !owned.is_mine())?;
        }
        ensure!(owned.is_mine(), "{partition} is not ours any more");
        let (epoch, reads_from) = (owned.epoch, counts.next_offset);
        let committed = begins_at;
        self.journal.write(Event::Begins, &partition, epoch, begins_at)?;
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let (is_stopped, is_told) = (false, false);
        let working = Working { owned, counts, results, begins_at, committed, turn, is_stopped, is_told };
        {
            let mut all = self.working.lock();
            all.insert(partition.clone(), working);
            self.read(&partition, reads_from)?;
        }
        tracing::info!(%partition, epoch, offset = begins_at, missing, "working");
        Ok(())
    }

    /// Counts what was worked on before, until `is_enough`.
    fn catch_up(
        &self,
        partition: &Partition,
        counts: &mut Counts,
        to: i64,
        is_enough: impl Fn(&Counts) -> bool,
    ) -> Result<()> {
        self.kafka.read(partition, counts.next_offset, to, |offset, line| {
            counts.add(offset, line);
            let is_over = counts.lines.is_multiple_of(100) && is_enough(counts);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// Stops, stores what was counted, and commits. If that fails it is called again.
    fn release(&self, partition: &Partition) -> Result<()> {
        let (counts, offset) = {
            let mut all = self.working.lock();
            let Some(working) = all.get_mut(partition) else { return Ok(()) };
            if !working.is_stopped {
                working.is_stopped = true;
                self.stop_reading(partition);
            }
            if !working.is_told {
                self.ends(Event::Releases, partition, working)?;
                working.is_told = true;
            }
            ensure!(working.owned.is_mine(), "{partition} is not ours any more");
            (working.counts.clone(), working.counts.next_offset.max(working.begins_at))
        };
        counts.save(&self.state_dir, partition)?;
        kafka::commit(&self.consumer, partition, offset)?;
        self.working.lock().remove(partition);
        tracing::info!(%partition, offset, "released");
        Ok(())
    }

    /// Stops, and stores nothing: another may be at work already.
    fn revoke(&self, partition: &Partition) {
        if let Some(working) = self.working.lock().remove(partition) {
            self.drop(partition, &working);
        }
        tracing::warn!(%partition, "revoked");
    }

    fn drop(&self, partition: &Partition, working: &Working) {
        if !working.is_stopped {
            self.stop_reading(partition);
        }
        if !working.is_told
            && let Err(error) = self.ends(Event::Revoked, partition, working)
        {
            tracing::warn!(%partition, %error, "the journal does not know");
        }
    }

    fn ends(&self, event: Event, partition: &Partition, working: &Working) -> Result<()> {
        let offset = working.counts.next_offset.max(working.begins_at);
        self.journal.write(event, partition, working.owned.epoch, offset)
    }

    fn read(&self, partition: &Partition, offset: i64) -> Result<()> {
        let place = kafka::at(partition, Offset::Offset(offset))?;
        self.consumer.incremental_assign(&place).context("begin to read")
    }

    fn stop_reading(&self, partition: &Partition) {
        let place = kafka::at(partition, Offset::Invalid);
        let stopped = place.and_then(|place| Ok(self.consumer.incremental_unassign(&place)?));
        if let Err(error) = stopped {
            tracing::warn!(%partition, %error, "it was not being read");
        }
    }

    /// Takes what has come, waiting a moment for the first record.
    fn poll(&self) -> Result<Polled> {
        let turns: BTreeMap<Partition, u64> = self
            .working
            .lock()
            .iter()
            .map(|(partition, working)| (partition.clone(), working.turn))
            .collect();
        let mut batches: BTreeMap<Partition, Vec<(i64, String)>> = BTreeMap::new();
        let mut wait = POLL;
        for _ in 0..BATCH {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(record)) => {
                    let partition = Partition::new(record.topic(), u32::try_from(record.partition())?);
                    batches.entry(partition).or_default().push((record.offset(), kafka::line(&record)));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                // librdkafka goes on by itself.
                Some(Err(error)) => tracing::warn!(%error, "read"),
            }
            wait = Duration::ZERO;
        }
        Ok(Polled { turns, batches })
    }

    /// Writes the results of what has come, and counts it.
    fn count(&self, Polled { turns, batches }: Polled) -> Result<()> {
        let mut all = self.working.lock();
        for (partition, batch) in batches {
            let Some(working) = all.get_mut(&partition).filter(|working| !working.is_stopped) else {
                continue;
            };
            // From here on others can see it, so this is the moment to ask.
            if !working.owned.is_mine() {
                continue;
            }
            let next_offset = working.counts.next_offset;
            // It was lost and came back meanwhile: some of this may have been read the time before.
            if turns.get(&partition).is_some_and(|turn| *turn != working.turn) {
                self.stop_reading(&partition);
                self.read(&partition, next_offset)?;
                continue;
            }
            let batch: Vec<_> = batch.into_iter().filter(|(offset, _)| *offset >= next_offset).collect();
            let ours = &batch[batch.partition_point(|(offset, _)| *offset < working.begins_at)..];
            if let (Some((first, _)), Some((last, _))) = (ours.first(), ours.last()) {
                let (first, last, records) = (*first, *last, ours.len());
                let (owner, epoch) = (self.name.clone(), working.owned.epoch);
                let at_us = now_us();
                let written = working.results.append(Entry { first, last, records, owner, epoch, at_us })?;
                if written == Outcome::Overtaken {
                    tracing::warn!(%partition, epoch, "another is at work already");
                    if let Some(working) = all.remove(&partition) {
                        self.drop(&partition, &working);
                    }
                    continue;
                }
            }
            for (offset, line) in &batch {
                working.counts.add(*offset, line);
            }
        }
        Ok(())
    }

    /// Tells Kafka how far the work is, without waiting for it.
    fn commit(&self) -> Result<()> {
        for (partition, working) in self.working.lock().iter_mut() {
            let offset = working.counts.next_offset;
            if offset > working.committed && !working.is_stopped && working.owned.is_mine() {
                let place = kafka::at(partition, Offset::Offset(offset))?;
                self.consumer.commit(&place, CommitMode::Async).context("commit")?;
                working.committed = offset;
            }
        }
        Ok(())
    }
}
