//! A member that gets its partitions from the assigner.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use assigner_client::{Consumer as Registration, Handler, HandlerError, Owned, Partition, Running, Warming};
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::station::{COMMIT_INTERVAL, Place, Station, owned};
use crate::world::{PATIENCE, lock};

/// How close to the owner a member has to be to say that it is warm: what it reads in a few milliseconds.
const WARM_WITHIN: i64 = 100;

/// How much may be left when the partition comes without being read by itself. It is more than the former, since the
/// owner has gone on meanwhile.
const COMES_WITH_THE_REST: i64 = 1_000;

pub(crate) struct WarmMember {
    running: Running,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    runtime: Arc<Runtime>,
}

#[derive(Clone)]
struct Hands(Arc<Shared>);

struct Shared {
    station: Station,
    consumer: BaseConsumer,
    /// Records are worked on while this is locked, so whoever takes a partition out knows that work has stopped.
    working: Mutex<BTreeMap<i32, Working>>,
}

struct Working {
    owned: Owned,
    /// The first offset that is ours to work on. What comes before is only counted.
    begins_at: i64,
}

impl WarmMember {
    pub(crate) fn start(who: usize, place: &Place, assigners: &[String], runtime: &Arc<Runtime>) -> Self {
        let consumer: BaseConsumer = place.config().create().unwrap();
        // librdkafka looks for the leaders of a topic that is new to it only once a second, unless it is asked.
        consumer.fetch_metadata(Some(place.topic), PATIENCE).unwrap();
        let working = Mutex::default();
        let hands = Hands(Arc::new(Shared { station: Station::new(who, place), consumer, working }));
        let registration = Registration::builder(format!("member-{who}"))
            .group(&place.group)
            .topic(place.topic)
            .endpoints(assigners.iter().map(String::as_str))
            .build()
            .unwrap();
        let running = {
            let _entered = runtime.enter();
            registration.start(hands.clone())
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || hands.0.work(&is_over)
        });
        Self { running, is_over, thread, runtime: Arc::clone(runtime) }
    }

    /// Hands everything over and leaves.
    pub(crate) fn leave(self) {
        self.runtime.block_on(self.running.deregister()).unwrap();
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

impl Handler for Hands {
    async fn warm(&self, warming: Warming) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.warm(&warming)).await?)
    }

    async fn assign(&self, owned: Owned) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.assign(owned)).await??)
    }

    async fn release(&self, partition: Partition) -> Result<(), HandlerError> {
        let shared = Arc::clone(&self.0);
        Ok(spawn_blocking(move || shared.release(&partition)).await??)
    }

    async fn cancel(&self, _: Partition) {}

    async fn revoke(&self, partition: Partition) {
        let shared = Arc::clone(&self.0);
        let number = number(&partition);
        spawn_blocking(move || shared.stop(number)).await.unwrap();
    }
}

impl Shared {
    fn warm(&self, warming: &Warming) {
        let partition = number(&warming.partition);
        loop {
            let target = self.station.committed(partition);
            self.station.rebuild(partition, target, |done| {
                warming.report(done.unsigned_abs(), target.unsigned_abs());
                warming.end().is_some()
            });
            let left = self.station.committed(partition) - self.station.next(partition);
            if left <= WARM_WITHIN || warming.end().is_some() {
                return;
            }
        }
    }

    fn assign(&self, owned: Owned) -> Result<(), rdkafka::error::KafkaError> {
        let partition = number(&owned.partition);
        let begins_at = self.station.committed(partition);
        // A lot is read by itself, so that the other partitions do not wait; a little comes with the rest.
        if begins_at - self.station.next(partition) > COMES_WITH_THE_REST {
            self.station.rebuild(partition, begins_at, |_| !owned.is_mine());
        }
        lock(&self.working).insert(partition, Working { owned, begins_at });
        let reads_from = Offset::Offset(self.station.next(partition));
        self.consumer.incremental_assign(&self.station.at(partition, reads_from))
    }

    fn release(&self, partition: &Partition) -> Result<(), rdkafka::error::KafkaError> {
        let partition = number(partition);
        let begins_at = self.stop(partition).unwrap_or_default();
        // It may not have come to its first record.
        if self.station.next(partition) <= begins_at {
            return Ok(());
        }
        self.consumer.commit(&self.station.progress([partition]), CommitMode::Sync)
    }

    /// Stops work, and says where it began.
    fn stop(&self, partition: i32) -> Option<i64> {
        let stopped = lock(&self.working).remove(&partition)?;
        self.consumer.incremental_unassign(&self.station.at(partition, Offset::Invalid)).unwrap();
        Some(stopped.begins_at)
    }

    fn work(&self, is_over: &AtomicBool) {
        let mut commit_at = Instant::now() + COMMIT_INTERVAL;
        while !is_over.load(Ordering::Relaxed) {
            match self.consumer.poll(Duration::from_millis(50)) {
                Some(Ok(record)) => {
                    let (partition, offset, payload) = owned(&record);
                    match lock(&self.working).get(&partition) {
                        Some(working) if offset < working.begins_at => {
                            self.station.count(partition, offset, &payload);
                        }
                        Some(working) if working.owned.is_mine() => {
                            self.station.work_on(partition, offset, &payload);
                        }
                        _ => {}
                    }
                }
                Some(Err(error)) => println!("member {}: {error}", self.station.who()),
                None => {}
            }
            if Instant::now() >= commit_at {
                let working = lock(&self.working);
                let is_further = |partition: i32, begins_at| self.station.next(partition) > begins_at;
                let mine = working
                    .iter()
                    .filter(|(partition, it)| it.owned.is_mine() && is_further(**partition, it.begins_at));
                let progress = self.station.progress(mine.map(|(partition, _)| *partition));
                if progress.count() > 0 {
                    self.consumer.commit(&progress, CommitMode::Async).unwrap();
                }
                commit_at = Instant::now() + COMMIT_INTERVAL;
            }
        }
    }
}

fn number(partition: &Partition) -> i32 {
    i32::try_from(partition.number).unwrap()
}
