//! How long partitions stand still while a member joins and another leaves: by warm handoff, and in an ordinary group.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::figures::{Disturbance, HEAD, row};
use crate::load::Producer;
use crate::ordinary::OrdinaryMember;
use crate::station::{Log, Place};
use crate::warm::WarmMember;
use crate::world::{World, now_us, until};

const TOPIC: &str = "measured";
const PARTITIONS: usize = 24;
const MEMBERS: usize = 4;
/// One record for each partition each time this has passed.
const INTERVAL: Duration = Duration::from_millis(10);
/// A partition is not behind when no more than this waits.
const BEHIND: i64 = 20;
/// How many records of each partition are to pass undisturbed between changes.
const REST: i64 = 100;
const LONG_REST: i64 = 300;

/// How a group gets its partitions.
#[derive(Clone, Copy)]
enum Way {
    Warm,
    Ordinary { assignor: &'static str, heartbeat: Duration },
}

enum Member {
    Warm(WarmMember),
    Ordinary(OrdinaryMember),
}

/// With `KOHORT_PAUSES=N` so many rounds of each kind with a state that takes two seconds to rebuild, which prints
/// the table of docs/handoff-measurements.md; otherwise one round with little state, to see that no record is lost or
/// worked on twice in any of them.
#[test]
fn no_record_is_lost_or_done_twice_while_members_join_and_leave_however_partitions_are_given() {
    let rounds: Option<usize> = env::var("KOHORT_PAUSES").ok().and_then(|it| it.parse().ok());
    let window = if rounds.is_some() { 10_000 } else { 500 };
    let world = World::start(&[], rounds.is_none());
    world.create_topic(TOPIC, PARTITIONS);
    let bootstrap = world.broker.bootstrap();
    let producer = Producer::start(&bootstrap, TOPIC, PARTITIONS, window, INTERVAL);
    until("the records before are there", String::new, || producer.sent() >= window);
    let runtime = Arc::new(Runtime::new().unwrap());

    let often = Duration::from_millis(300);
    let usual = Duration::from_secs(3);
    let group = |assignor, heartbeat| Way::Ordinary { assignor, heartbeat };
    let (eager, cooperative) = ("range", "cooperative-sticky");
    let mut ways = vec![
        ("the assigner, by warm handoff", Way::Warm),
        ("a group, cooperative, heartbeats every 0.3 s", group(cooperative, often)),
        ("a group, eager, heartbeats every 0.3 s", group(eager, often)),
    ];
    if rounds.is_some() {
        ways.push(("a group, cooperative, heartbeats every 3 s (the default)", group(cooperative, usual)));
        ways.push(("a group, eager, heartbeats every 3 s (the default)", group(eager, usual)));
    }
    println!("{HEAD}");
    for (index, (name, way)) in ways.into_iter().enumerate() {
        let log = Log::new(PARTITIONS);
        let group = format!("group-{index}");
        let place = Place { bootstrap: bootstrap.clone(), topic: TOPIC, group, window, log };
        place.begin_at(producer.sent()).unwrap();
        let crew = Crew { way, place, world: &world, producer: &producer, runtime: &runtime };
        let [rests, joins, leaves] = crew.measure(rounds.unwrap_or(1));
        for it in joins.iter().chain(&leaves) {
            assert_eq!((it.twice, it.lost), (0, 0), "{name}: records twice, and records lost");
            assert!(!it.pauses_us.is_empty(), "{name}: no partition has moved");
        }
        println!("{}", row(name, "none, for three seconds", &rests));
        println!("{}", row(name, "one joins", &joins));
        println!("{}", row(name, "one leaves", &leaves));
    }
    producer.finish();
}

/// The members of one group.
struct Crew<'a> {
    way: Way,
    place: Place,
    world: &'a World,
    producer: &'a Producer,
    runtime: &'a Arc<Runtime>,
}

impl Crew<'_> {
    /// In each round nothing happens for a while, which shows what the machine does by itself; then a new member joins,
    /// with no state, and the eldest leaves.
    fn measure(&self, rounds: usize) -> [Vec<Disturbance>; 3] {
        let mut members: BTreeMap<usize, Member> = (0..MEMBERS).map(|who| (who, self.start(who))).collect();
        self.settle(&members);
        let (mut rests, mut joins, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let from_us = now_us();
            rests.push(self.disturbance(from_us, self.rest(LONG_REST)));
            let from_us = now_us();
            let who = MEMBERS + round;
            members.insert(who, self.start(who));
            joins.push(self.disturbance(from_us, self.settle(&members)));

            self.rest(REST);
            let from_us = now_us();
            let (_, eldest) = members.pop_first().unwrap();
            eldest.leave();
            leaves.push(self.disturbance(from_us, self.settle(&members)));
        }
        for member in members.into_values() {
            member.leave();
        }
        [rests, joins, leaves]
    }

    fn start(&self, who: usize) -> Member {
        match self.way {
            Way::Warm => {
                let assigners = self.world.assigner_urls();
                Member::Warm(WarmMember::start(who, &self.place, &assigners, self.runtime))
            }
            Way::Ordinary { assignor, heartbeat } => {
                Member::Ordinary(OrdinaryMember::start(who, &self.place, assignor, heartbeat))
            }
        }
    }

    /// Waits until each member has its share and no partition is behind, and says when that was.
    fn settle(&self, members: &BTreeMap<usize, Member>) -> u64 {
        let fair = PARTITIONS / members.len()..=PARTITIONS.div_ceil(members.len());
        until(
            "all members have their share",
            || self.story(),
            || {
                let sent = self.producer.sent();
                let last: Vec<_> = self.place.log.last().into_iter().flatten().collect();
                let has_share =
                    |who: &usize| fair.contains(&last.iter().filter(|seen| seen.who == *who).count());
                last.len() == PARTITIONS
                    && members.keys().all(has_share)
                    && last.iter().all(|seen| seen.offset + BEHIND >= sent)
            },
        );
        now_us()
    }

    /// Lets so many records of each partition pass undisturbed, and says when that was over.
    fn rest(&self, records: i64) -> u64 {
        let to = self.producer.sent() + records;
        until(
            "records are worked on",
            || self.story(),
            || self.place.log.last().iter().all(|seen| seen.is_some_and(|seen| seen.offset >= to)),
        );
        now_us()
    }

    fn disturbance(&self, from_us: u64, to_us: u64) -> Disturbance {
        Disturbance::of(&self.place.log.all(), &self.producer.acknowledged_us(), from_us, to_us)
    }

    fn story(&self) -> String {
        format!("{} were sent; last: {:?}", self.producer.sent(), self.place.log.last())
    }
}

impl Member {
    fn leave(self) {
        match self {
            Self::Warm(member) => member.leave(),
            Self::Ordinary(member) => member.leave(),
        }
    }
}
