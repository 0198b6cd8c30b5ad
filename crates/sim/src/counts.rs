//! How often what a run promises has really happened: a fault that never comes proves nothing.

use std::fmt;

/// What went wrong on purpose, and how often the broker had to say no because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were lost, each with its connection.
    pub lost: u64,
    /// Requests that arrived a second time.
    pub doubled: u64,
    /// Messages that were late by more than a few milliseconds.
    pub late: u64,
    /// Connections that were cut.
    pub cut: u64,
    /// Consumers that ended without a word.
    pub consumer_crashes: u64,
    /// Times that the broker's power was cut.
    pub crashes: u64,
    /// Times that the broker was shut down in good order.
    pub shutdowns: u64,
    /// Flushes that the disk refused.
    pub refused_flushes: u64,
    /// Flushes that were written in several batches of one log.
    pub split_flushes: u64,
    /// Flushes of which only a part is on the disk.
    pub torn_flushes: u64,
    /// Answers to somebody who is not in the group, not in this generation, or not the one who has the name.
    pub fenced: u64,
    /// Members that were not heard of for too long.
    pub expired: u64,
    /// Answers that there is no room for more groups, members or offsets.
    pub no_room: u64,
    /// Rails between a gateway and the broker that were cut, by whatever.
    pub cut_rails: u64,
    /// Rails on which nothing moved for a while.
    pub stalled_rails: u64,
    /// Gateways that ended without a word.
    pub killed_gateways: u64,
    /// Ops that were under way when their gateway saw its rail dead.
    pub lost_ops: u64,
    /// Requests that a gateway refused because it had no rail.
    pub refused_ops: u64,
    /// Parked ops that the broker dropped because their client had gone from its gateway.
    pub cancelled_ops: u64,
}

impl Counts {
    /// Everything that is counted, by a name for people.
    pub fn each(&self) -> [(&'static str, u64); 19] {
        [
            ("lost messages", self.lost),
            ("doubled requests", self.doubled),
            ("late messages", self.late),
            ("cut connections", self.cut),
            ("consumer crashes", self.consumer_crashes),
            ("broker crashes", self.crashes),
            ("broker shutdowns", self.shutdowns),
            ("refused flushes", self.refused_flushes),
            ("flushes in several batches", self.split_flushes),
            ("torn flushes", self.torn_flushes),
            ("fenced answers", self.fenced),
            ("expired sessions", self.expired),
            ("answers for want of room", self.no_room),
            ("cut rails", self.cut_rails),
            ("stalled rails", self.stalled_rails),
            ("killed gateways", self.killed_gateways),
            ("ops lost with their rail", self.lost_ops),
            ("requests refused without a rail", self.refused_ops),
            ("parked ops cancelled", self.cancelled_ops),
        ]
    }

    /// What is counted and has not happened.
    pub fn missing(&self) -> Vec<&'static str> {
        self.each().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.late += other.late;
        self.cut += other.cut;
        self.consumer_crashes += other.consumer_crashes;
        self.crashes += other.crashes;
        self.shutdowns += other.shutdowns;
        self.refused_flushes += other.refused_flushes;
        self.split_flushes += other.split_flushes;
        self.torn_flushes += other.torn_flushes;
        self.fenced += other.fenced;
        self.expired += other.expired;
        self.no_room += other.no_room;
        self.cut_rails += other.cut_rails;
        self.stalled_rails += other.stalled_rails;
        self.killed_gateways += other.killed_gateways;
        self.lost_ops += other.lost_ops;
        self.refused_ops += other.refused_ops;
        self.cancelled_ops += other.cancelled_ops;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.each().into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {name}")?;
        }
        Ok(())
    }
}
