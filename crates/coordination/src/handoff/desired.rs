//! Who should own what: balanced, with as little movement as balance allows, and the same for the same state.
//!
//! Partitions of the same weight that the same consumers can take are a pool. In a pool every slot goes to whoever
//! carries least for its capacity once it has it; where two are equal, to who has more partitions than slots, because
//! that saves a move. Then everyone keeps what it has within its slots, and what is left goes to who has slots left.
//! So no partition of a pool could move to make the fuller of two consumers less full, and no other outcome that is as
//! balanced moves less. Pools are filled one after another, the heavier and the pickier ones first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::names::{ConsumerName, TopicName, TopicPartition};
use super::plan::Settings;
use super::state::State;
use super::value::{Consumer, ConsumerState, Phase, Topic};

/// The greatest capacity of a consumer and the greatest weight of a partition; what is greater counts as this. Within
/// it, loads compare exactly.
pub const WEIGHT_MAX: u32 = 10_000;

/// Who should own what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The owner for each partition that somebody can take.
    pub choices: BTreeMap<TopicPartition, Choice>,
    /// New consumers that get no more before they are new no longer.
    pub capped: BTreeSet<ConsumerName>,
}

/// Who should own a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The owner.
    pub owner: ConsumerName,
    /// Why this one.
    pub because: Because,
}

/// Why a consumer was chosen for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It owns the partition and is not too full.
    Owns,
    /// A handoff to it is under way.
    UnderWay,
    /// It says it has the partition's state already.
    Warm,
    /// It is in the rack of the partition.
    Rack,
    /// It had the least load.
    LeastLoaded,
}

/// Says who should own what.
pub fn desired(state: &State, settings: &Settings, now_ms: u64) -> Desired {
    let members: Vec<(&ConsumerName, &Consumer)> = state
        .consumers
        .iter()
        .map(|(name, stored)| (name, &stored.value))
        .filter(|(_, consumer)| consumer.state == ConsumerState::Ready)
        .collect();
    let mut filling = Filling::new(state, settings, now_ms, members);
    let mut choices = Vec::new();
    for (pool, topics) in filling.pools(state) {
        filling.fill(state, &pool, &topics, &mut choices);
    }
    let named = |index: &usize| filling.members[*index].0.clone();
    Desired {
        capped: filling.capped.iter().map(named).collect(),
        choices: choices
            .into_iter()
            .map(|(place, index, because)| (place, Choice { owner: named(&index), because }))
            .collect(),
    }
}

/// Partitions of one weight that the same members can take. Ordered as pools are filled.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    weight: Reverse<u32>,
    size: usize,
    members: Vec<usize>,
}

/// Members are known by their place in the order of names.
struct Filling<'a> {
    members: Vec<(&'a ConsumerName, &'a Consumer)>,
    places: BTreeMap<&'a ConsumerName, usize>,
    /// Who says it is warm for a partition.
    warm: BTreeMap<&'a TopicPartition, Vec<usize>>,
    /// What each has been given so far, by weight.
    load: Vec<u64>,
    /// How many more partitions each may be given while it is new.
    cap: Vec<usize>,
    capped: BTreeSet<usize>,
}

/// One partition of the pool that is being filled.
struct Candidate<'a> {
    place: TopicPartition,
    owner: Option<usize>,
    /// The target of a handoff that is under way, else the owner.
    holder: Option<usize>,
    rack: Option<&'a str>,
}

impl<'a> Filling<'a> {
    fn new(
        state: &'a State,
        settings: &Settings,
        now_ms: u64,
        members: Vec<(&'a ConsumerName, &'a Consumer)>,
    ) -> Self {
        let places: BTreeMap<_, _> =
            members.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
        let mut warm: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, (_, consumer)) in members.iter().enumerate() {
            for place in &consumer.holds {
                warm.entry(place).or_default().push(index);
            }
        }
        let mut owned = vec![0_usize; members.len()];
        for stored in state.assignments.values() {
            if let Some(index) = places.get(&stored.value.owner) {
                owned[*index] += 1;
            }
        }
        let mut cap = vec![usize::MAX; members.len()];
        for (index, (_, consumer)) in members.iter().enumerate() {
            if let Some(newcomers) = settings.newcomers
                && now_ms < consumer.registered_ms.saturating_add(newcomers.lasts_ms)
            {
                // What a new member has already it keeps: the cap is for giving.
                cap[index] = newcomers.partitions_max.max(owned[index]);
            }
        }
        Self { load: vec![0; members.len()], cap, capped: BTreeSet::new(), members, places, warm }
    }

    /// The topics of each pool. Members with the same subscription are looked at together: there are few of those.
    fn pools(&self, state: &'a State) -> BTreeMap<Pool, Vec<(&'a TopicName, &'a Topic)>> {
        let mut alike: BTreeMap<&BTreeSet<TopicName>, Vec<usize>> = BTreeMap::new();
        for (index, (_, consumer)) in self.members.iter().enumerate() {
            alike.entry(&consumer.topics).or_default().push(index);
        }
        let mut pools: BTreeMap<Pool, Vec<_>> = BTreeMap::new();
        for (topic, stored) in &state.topics {
            let takers = alike.values().filter(|alike| self.members[alike[0]].1.takes(topic));
            let mut members: Vec<usize> = takers.flatten().copied().collect();
            members.sort_unstable();
            if !members.is_empty() {
                let weight = Reverse(stored.value.weight.clamp(1, WEIGHT_MAX));
                let pool = Pool { weight, size: members.len(), members };
                pools.entry(pool).or_default().push((topic, &stored.value));
            }
        }
        pools
    }

    fn fill(
        &mut self,
        state: &State,
        pool: &Pool,
        topics: &[(&'a TopicName, &'a Topic)],
        choices: &mut Vec<(TopicPartition, usize, Because)>,
    ) {
        let weight = u64::from(pool.weight.0);
        let candidates = self.candidates(state, pool, topics);
        let mut held: BTreeMap<usize, Vec<usize>> =
            pool.members.iter().map(|member| (*member, Vec::new())).collect();
        let mut loose = Vec::new();
        for (number, candidate) in candidates.iter().enumerate() {
            match candidate.holder {
                Some(holder) => held.entry(holder).or_default().push(number),
                None => loose.push(number),
            }
        }
        let before = self.load.clone();
        let slots = self.slots(pool, candidates.len(), &held);
        // From here on `load` counts what is really given, and ends where the slots ended.
        self.load = before;
        let mut room = slots;
        let mut give = |this: &mut Self, number: usize, member: usize, because: Because| {
            let left = room.entry(member).or_default();
            if *left == 0 {
                return false;
            }
            *left -= 1;
            this.load[member] += weight;
            choices.push((candidates[number].place.clone(), member, because));
            true
        };
        for (member, mut numbers) in held {
            numbers.sort_by_key(|number| self.reluctance(member, &candidates[*number]));
            for number in numbers {
                let is_owner = candidates[number].owner == Some(member);
                let because = if is_owner { Because::Owns } else { Because::UnderWay };
                if !give(self, number, member, because) {
                    loose.push(number);
                }
            }
        }
        loose.sort_unstable();
        // A handoff that is given up leaves the partition where it is, if there is room.
        loose.retain(|number| {
            let owner = candidates[*number].owner;
            !owner.is_some_and(|owner| give(self, *number, owner, Because::Owns))
        });
        loose.retain(|number| {
            let mut warm = self.warm.get(&candidates[*number].place).cloned().unwrap_or_default();
            warm.retain(|member| pool.members.binary_search(member).is_ok());
            warm.sort_by_key(|member| (self.fullness(*member, weight), *member));
            !warm.into_iter().any(|member| give(self, *number, member, Because::Warm))
        });
        let mut racks: BTreeMap<&str, BTreeSet<(u128, usize)>> = BTreeMap::new();
        for member in &pool.members {
            let consumer: &'a Consumer = self.members[*member].1;
            if let Some(rack) = &consumer.rack {
                racks.entry(rack).or_default().insert((self.fullness(*member, weight), *member));
            }
        }
        loose.retain(|number| {
            let in_rack = candidates[*number].rack.and_then(|rack| racks.get_mut(rack));
            !in_rack.is_some_and(|queue| {
                next(queue, |member| {
                    let given = give(self, *number, member, Because::Rack);
                    given.then(|| self.fullness(member, weight))
                })
            })
        });
        let mut queue: BTreeSet<(u128, usize)> =
            pool.members.iter().map(|member| (self.fullness(*member, weight), *member)).collect();
        for number in loose {
            let given = next(&mut queue, |member| {
                let given = give(self, number, member, Because::LeastLoaded);
                given.then(|| self.fullness(member, weight))
            });
            assert!(given, "there are as many slots as partitions");
        }
    }

    fn candidates(
        &self,
        state: &State,
        pool: &Pool,
        topics: &[(&'a TopicName, &'a Topic)],
    ) -> Vec<Candidate<'a>> {
        let in_pool = |name: &ConsumerName| {
            self.places.get(name).copied().filter(|index| pool.members.binary_search(index).is_ok())
        };
        let mut candidates = Vec::new();
        for (topic, value) in topics {
            for partition in value.partition_numbers() {
                let place = TopicPartition { topic: (*topic).clone(), partition };
                let owner = state.assignments.get(&place).and_then(|stored| in_pool(&stored.value.owner));
                let target = state.handoffs.get(&place).map(|stored| &stored.value).and_then(|handoff| {
                    let is_open = matches!(handoff.phase, Phase::Warming | Phase::Ready);
                    let is_alive = state.takes(&handoff.to, handoff.to_session, topic);
                    if is_open && is_alive { in_pool(&handoff.to) } else { None }
                });
                let rack = value.racks.get(&partition).map(String::as_str);
                candidates.push(Candidate { place, owner, holder: target.or(owner), rack });
            }
        }
        candidates
    }

    /// How many partitions of the pool each member gets.
    fn slots(
        &mut self,
        pool: &Pool,
        count: usize,
        held: &BTreeMap<usize, Vec<usize>>,
    ) -> BTreeMap<usize, usize> {
        let weight = u64::from(pool.weight.0);
        let mut slots: BTreeMap<usize, usize> = pool.members.iter().map(|member| (*member, 0)).collect();
        let mut queue: BTreeSet<(u128, bool, usize)> = BTreeSet::new();
        let entry = |this: &Self, member: usize, slots: usize| {
            let saves_a_move = held.get(&member).is_some_and(|held| held.len() > slots);
            (this.fullness(member, weight), !saves_a_move, member)
        };
        for member in &pool.members {
            if self.cap[*member] > 0 {
                queue.insert(entry(self, *member, 0));
            } else {
                self.capped.insert(*member);
            }
        }
        for _ in 0..count {
            if queue.is_empty() {
                // All are new and full. Somebody has to do the work all the same.
                for member in &pool.members {
                    self.cap[*member] = usize::MAX;
                    self.capped.remove(member);
                    queue.insert(entry(self, *member, slots[member]));
                }
            }
            let Some((_, _, member)) = queue.pop_first() else { break };
            let taken = slots.entry(member).or_default();
            *taken += 1;
            let taken = *taken;
            self.load[member] += weight;
            self.cap[member] = self.cap[member].saturating_sub(usize::from(self.cap[member] != usize::MAX));
            if self.cap[member] > 0 {
                queue.insert(entry(self, member, taken));
            } else {
                self.capped.insert(member);
            }
        }
        slots
    }

    /// How full a member would be, for its capacity, if it got one more of this weight. Fractions of capacities within
    /// [`WEIGHT_MAX`] differ by more than the 32 bits after the point can hide.
    fn fullness(&self, member: usize, weight: u64) -> u128 {
        let capacity = self.members[member].1.capacity.clamp(1, WEIGHT_MAX);
        (u128::from(self.load[member] + weight) << 32) / u128::from(capacity)
    }

    /// What a member that has too much gives away last comes first.
    fn reluctance(&self, member: usize, candidate: &Candidate<'_>) -> (bool, bool, bool) {
        let is_underway = candidate.owner != Some(member);
        let rack = self.members[member].1.rack.as_deref();
        let is_elsewhere = candidate.rack.is_some() && candidate.rack != rack;
        let warm = self.warm.get(&candidate.place);
        let is_warm_elsewhere = warm.is_some_and(|warm| warm.iter().any(|other| *other != member));
        (is_underway, is_elsewhere, is_warm_elsewhere)
    }
}

/// Offers to the first in the queue until one takes, and puts it back with its new fullness.
fn next(queue: &mut BTreeSet<(u128, usize)>, mut offer: impl FnMut(usize) -> Option<u128>) -> bool {
    while let Some((_, member)) = queue.pop_first() {
        if let Some(fullness) = offer(member) {
            queue.insert((fullness, member));
            return true;
        }
    }
    false
}
