//! A member of an ordinary consumer group, with the same state.
//!
//! It is kind to the group: it never blocks it while it rebuilds state, keeps the state of partitions that go and may
//! come back, and rebuilds several partitions at the same time. What arrives for a partition meanwhile waits in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};

use crate::station::{COMMIT_INTERVAL, Place, Station, owned};
use crate::world::lock;

pub(crate) struct OrdinaryMember {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Clone)]
struct Seats {
    station: Station,
    seats: Arc<Mutex<BTreeMap<i32, Seat>>>,
}

/// A partition that is assigned to this member.
#[derive(Default)]
struct Seat {
    /// Tells it from earlier times at which the partition was assigned.
    turn: u64,
    is_ready: bool,
    waiting: Vec<(i64, Vec<u8>)>,
}

impl OrdinaryMember {
    pub(crate) fn start(who: usize, place: &Place, assignor: &str, heartbeat: Duration) -> Self {
        let mut config = place.config();
        config.set("partition.assignment.strategy", assignor);
        config.set("heartbeat.interval.ms", heartbeat.as_millis().to_string());
        let seats = Seats { station: Station::new(who, place), seats: Arc::default() };
        let is_over = Arc::new(AtomicBool::new(false));
        let consumer: BaseConsumer<Seats> = config.create_with_context(seats.clone()).unwrap();
        consumer.subscribe(&[place.topic]).unwrap();
        let thread = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || seats.work(&consumer, &is_over)
        });
        Self { is_over, thread }
    }

    /// Gives everything up and leaves the group.
    pub(crate) fn leave(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

impl Seats {
    fn work(&self, consumer: &BaseConsumer<Self>, is_over: &AtomicBool) {
        let mut commit_at = Instant::now() + COMMIT_INTERVAL;
        while !is_over.load(Ordering::Relaxed) {
            self.poll(consumer);
            if Instant::now() >= commit_at {
                let progress = self.progress(lock(&self.seats).iter());
                if progress.count() > 0 {
                    consumer.commit(&progress, CommitMode::Async).unwrap();
                }
                commit_at = Instant::now() + COMMIT_INTERVAL;
            }
        }
        consumer.unsubscribe();
        while consumer.assignment().is_ok_and(|it| it.count() > 0) {
            self.poll(consumer);
        }
    }

    fn poll(&self, consumer: &BaseConsumer<Self>) {
        match consumer.poll(Duration::from_millis(50)) {
            Some(Ok(record)) => {
                let (partition, offset, payload) = owned(&record);
                if let Some(seat) = lock(&self.seats).get_mut(&partition) {
                    if seat.is_ready {
                        self.station.work_on(partition, offset, &payload);
                    } else {
                        seat.waiting.push((offset, payload));
                    }
                }
            }
            Some(Err(error)) => println!("member {}: {error}", self.station.who()),
            None => {}
        }
    }

    /// How far those partitions are that are ready.
    fn progress<'a>(&self, seats: impl Iterator<Item = (&'a i32, &'a Seat)>) -> TopicPartitionList {
        self.station.progress(seats.filter(|(_, seat)| seat.is_ready).map(|(partition, _)| *partition))
    }

    /// Rebuilds the state of a partition, and then works on what has come meanwhile.
    fn make_ready(&self, partition: i32, turn: u64) {
        let is_no_need = |_| lock(&self.seats).get(&partition).is_none_or(|seat| seat.turn != turn);
        self.station.rebuild(partition, self.station.committed(partition), is_no_need);
        if let Some(seat) = lock(&self.seats).get_mut(&partition).filter(|seat| seat.turn == turn) {
            for (offset, payload) in seat.waiting.drain(..) {
                self.station.work_on(partition, offset, &payload);
            }
            seat.is_ready = true;
        }
    }
}

impl ClientContext for Seats {}

impl ConsumerContext for Seats {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(partitions) = rebalance else { return };
        let gone: Vec<i32> = partitions.elements().iter().map(|it| it.partition()).collect();
        let mut seats = lock(&self.seats);
        let progress = self.progress(seats.iter().filter(|(partition, _)| gone.contains(partition)));
        seats.retain(|partition, _| !gone.contains(partition));
        drop(seats);
        if progress.count() > 0
            && let Err(error) = consumer.commit(&progress, CommitMode::Sync)
        {
            println!("member {} cannot commit: {error}", self.station.who());
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        static TURNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let Rebalance::Assign(partitions) = rebalance else { return };
        for partition in partitions.elements().iter().map(|it| it.partition()) {
            let turn = TURNS.fetch_add(1, Ordering::Relaxed);
            lock(&self.seats).insert(partition, Seat { turn, ..Seat::default() });
            let seats = self.clone();
            thread::spawn(move || seats.make_ready(partition, turn));
        }
    }
}
