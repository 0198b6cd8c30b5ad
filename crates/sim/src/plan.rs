//! What a seed decides before anything happens: who is there, how patient everybody is, and how bad it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coordination::group::{GroupSettings, Room};
use coordination::ids::TopicId;

use crate::consumer::Profile;
use crate::random::Random;

/// The scene of one run.
#[derive(Debug)]
pub struct Plan {
    /// How many gateways there are apart from the broker; with none the broker has one within itself, and no rail.
    pub gateways: usize,
    /// How many shards the broker has.
    pub shards: usize,
    /// How the broker is set up.
    pub settings: GroupSettings,
    /// What all groups together may take.
    pub limits: Room,
    /// Whether there is room for everything once the faults stop.
    pub lifts_limits: bool,
    /// The topics and how many partitions each has at first.
    pub topics: BTreeMap<String, i32>,
    /// The topics' ids.
    pub topic_ids: BTreeMap<String, TopicId>,
    /// The groups' names.
    pub groups: Vec<String>,
    /// Everybody who ever takes part.
    pub consumers: Vec<Profile>,
    /// When the faults stop.
    pub calm_at: u64,
    /// How bad it gets until then.
    pub faults: Faults,
}

/// How often things go wrong. Chances are of a thousand messages or flushes.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// A message is lost, and its connection with it.
    pub lost: u64,
    /// A message arrives a second time, by another way.
    pub doubled: u64,
    /// A message is late, by up to seconds.
    pub late: u64,
    /// The disk refuses a flush.
    pub refused: u64,
    /// The longest time between two turns of chaos, in milliseconds.
    pub pause_ms: u64,
    /// Whether the broker goes down now and then.
    pub crashes: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(random: &mut Random) -> Self {
        let topics: BTreeMap<String, i32> = ["orders", "people", "visits"][..=random.index(3)]
            .iter()
            .map(|name| ((*name).to_owned(), *random.pick(&[1, 2, 3, 4, 6])))
            .collect();
        let topic_ids =
            topics.keys().map(|name| (name.clone(), TopicId::from_u128(random.bits() | 1))).collect();
        let groups: Vec<String> = (0..random.between(1, 3)).map(|at| format!("group-{at}")).collect();
        let mut consumers = Vec::new();
        for group in &groups {
            plan_members(random, group, &topics, &mut consumers);
        }
        Self {
            gateways: if random.per_mille(600) { 1 + random.index(3) } else { 0 },
            shards: 1 + random.index(2),
            settings: plan_settings(random),
            limits: plan_limits(random),
            lifts_limits: random.per_mille(500),
            topics,
            topic_ids,
            groups,
            consumers,
            calm_at: random.between(10_000, 150_000),
            faults: plan_faults(random),
        }
    }
}

fn plan_settings(random: &mut Random) -> GroupSettings {
    GroupSettings {
        members_max: if random.per_mille(150) { 1 + random.index(4) } else { i32::MAX as usize },
        initial_rebalance_delay: Duration::from_millis(*random.pick(&[0, 1_000, 3_000, 3_000])),
        initial_rebalance_quiet: Duration::from_millis(*random.pick(&[0, 100, 100, 100])),
        offsets_retention: Duration::from_secs(*random.pick(&[20, 604_800, 604_800])),
        ..GroupSettings::default()
    }
}

/// Mostly none; now and then so little that some of the members and offsets find no room.
fn plan_limits(random: &mut Random) -> Room {
    let mut limits = Room::UNLIMITED;
    if random.per_mille(200) {
        if random.per_mille(300) {
            limits.groups = 1 + random.index(2);
        }
        if random.per_mille(300) {
            limits.members = 1 + random.index(8);
        }
        if random.per_mille(800) {
            limits.bytes = 1_500 + random.index(15_000);
        }
    }
    limits
}

fn plan_faults(random: &mut Random) -> Faults {
    let levels = [
        Faults { lost: 0, doubled: 0, late: 0, refused: 0, pause_ms: 8_000, crashes: false },
        Faults { lost: 5, doubled: 5, late: 20, refused: 10, pause_ms: 6_000, crashes: true },
        Faults { lost: 0, doubled: 0, late: 10, refused: 0, pause_ms: 3_000, crashes: true },
        Faults { lost: 30, doubled: 30, late: 100, refused: 30, pause_ms: 2_000, crashes: true },
        Faults { lost: 10, doubled: 100, late: 200, refused: 0, pause_ms: 1_000, crashes: false },
        Faults { lost: 5, doubled: 0, late: 50, refused: 200, pause_ms: 2_000, crashes: true },
    ];
    *random.pick(&levels)
}

fn plan_members(
    random: &mut Random,
    group: &str,
    topics: &BTreeMap<String, i32>,
    consumers: &mut Vec<Profile>,
) {
    let session_ms = *random.pick(&[6_000, 10_000, 30_000, 45_000]);
    let rebalance_ms = *random.pick(&[6_000, 10_000, 15_000, 60_000, 60_000, 300_000]);
    // All members of a group can assign in the same ways, as members of a real one must.
    let both = random.per_mille(400);
    let (old, fixed) = (*random.pick(&[0, 0, 300, 1_000]), *random.pick(&[0, 0, 400, 1_000]));
    for at in 0..=random.index(7) {
        let old = random.per_mille(old);
        let protocols: &[&str] = match (both, random.per_mille(500)) {
            (false, _) => &["range"],
            (true, false) => &["range", "roundrobin"],
            (true, true) => &["roundrobin", "range"],
        };
        consumers.push(Profile {
            group: group.to_owned(),
            client_id: format!("{group}-c{at}"),
            // Now and then two processes are started under one name.
            instance_id: (!old && random.per_mille(fixed))
                .then(|| format!("i{}", if random.per_mille(100) { 0 } else { at })),
            old,
            can_skip_assignment: !old && random.per_mille(700),
            session_ms,
            rebalance_ms,
            // A member that heartbeats more rarely than rebalances last would miss them all, on any broker.
            heartbeat_ms: session_ms.min(rebalance_ms) / *random.pick(&[3, 3, 10]),
            commit_ms: *random.pick(&[1_000, 5_000, 15_000]),
            request_ms: *random.pick(&[5_000, 30_000]),
            backoff_ms: *random.pick(&[50, 100, 1_000]),
            metadata_ms: *random.pick(&[3_000, 15_000]),
            topics: plan_topics(random, topics),
            protocols: protocols.iter().map(|name| (*name).to_owned()).collect(),
            restless: random.per_mille(150),
            forgets_id: random.per_mille(500),
        });
    }
}

/// Some of the topics, at least one; mostly all.
pub fn plan_topics(random: &mut Random, topics: &BTreeMap<String, i32>) -> BTreeSet<String> {
    let mut some: BTreeSet<String> = topics.keys().filter(|_| random.per_mille(800)).cloned().collect();
    if some.is_empty() {
        let names: Vec<&String> = topics.keys().collect();
        some.insert((*random.pick(&names)).clone());
    }
    some
}
