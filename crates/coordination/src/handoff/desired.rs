//! Who should own what: balanced, with as little movement as balance allows, and the same for the same state.
//!
//! Partitions of the same weight that the same consumers can take are a pool. In a pool every slot goes to whoever
//! carries least for its capacity once it has it; where two are equal, to who has more partitions than slots, because
//! that saves a move. Then everyone keeps what it has within its slots, and what is left goes to who has slots left.
//! So no partition of a pool could move to make the fuller of two consumers less full, and no other outcome that is as
//! balanced moves less. Pools are filled one after another, the heavier and the pickier ones first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::limits::WEIGHT_MAX;

use super::names::{ConsumerName, TopicName, TopicPartition};
use super::plan::Settings;
use super::state::{Row, State};
use super::value::{Consumer, ConsumerState, Phase};

/// Who should own what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The owner for each partition that somebody can take.
    pub choices: BTreeMap<TopicPartition, Choice>,
    /// Consumers that get no more for now: new ones, and those that wait for their predecessors to stop.
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
    let rows = state.rows();
    let wanted = wanted(state, &rows, settings, now_ms);
    wanted.into_desired(&rows)
}

/// Who should own what, by the places of partitions in the rows.
pub(super) struct Wanted<'a> {
    members: Vec<(&'a ConsumerName, &'a Consumer)>,
    choices: Vec<Option<(usize, Because)>>,
    capped: BTreeSet<usize>,
}

impl<'a> Wanted<'a> {
    pub(super) fn choice(&self, row: usize) -> Option<(&'a ConsumerName, Because)> {
        self.choices[row].map(|(member, because)| (self.members[member].0, because))
    }

    pub(super) fn into_desired(self, rows: &[Row<'_>]) -> Desired {
        let chosen = rows.iter().enumerate().filter_map(|(number, row)| {
            let (owner, because) = self.choice(number)?;
            Some((row.place.clone(), Choice { owner: owner.clone(), because }))
        });
        let capped = self.capped.iter().map(|member| self.members[*member].0.clone());
        Desired { choices: chosen.collect(), capped: capped.collect() }
    }
}

pub(super) fn wanted<'a>(
    state: &'a State,
    rows: &'a [Row<'a>],
    settings: &Settings,
    now_ms: u64,
) -> Wanted<'a> {
    let members: Vec<(&ConsumerName, &Consumer)> = state
        .consumers
        .iter()
        .map(|(name, stored)| (name, &stored.value))
        .filter(|(_, consumer)| consumer.state == ConsumerState::Ready)
        .collect();
    let mut filling = Filling::new(state, rows, settings, now_ms, members);
    for (pool, numbers) in filling.pools() {
        filling.fill(&pool, &numbers);
    }
    let Filling { members, choices, capped, .. } = filling;
    Wanted { members, choices, capped }
}

/// Partitions of one weight that the same members can take. Ordered as pools are filled.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    weight: Reverse<u32>,
    size: usize,
    members: Vec<usize>,
}

/// Members are known by their place in the order of names, and partitions by their place in the rows.
struct Filling<'a> {
    state: &'a State,
    rows: &'a [Row<'a>],
    members: Vec<(&'a ConsumerName, &'a Consumer)>,
    places: BTreeMap<&'a ConsumerName, usize>,
    /// Who says it is warm for a partition.
    warm: BTreeMap<&'a TopicPartition, Vec<usize>>,
    /// What each has been given so far, by weight.
    load: Vec<u64>,
    /// How many more partitions each may be given while it is new.
    cap: Vec<usize>,
    capped: BTreeSet<usize>,
    choices: Vec<Option<(usize, Because)>>,
}

/// One partition of the pool that is being filled.
struct Candidate<'a> {
    row: usize,
    place: &'a TopicPartition,
    owner: Option<usize>,
    /// The target of a handoff that is under way, else the owner.
    holder: Option<usize>,
    rack: Option<&'a str>,
}

impl<'a> Filling<'a> {
    fn new(
        state: &'a State,
        rows: &'a [Row<'a>],
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
        let is_new = |consumer: &Consumer| {
            let lasts = settings.newcomers.map(|newcomers| newcomers.lasts_ms);
            lasts.is_some_and(|lasts_ms| now_ms < consumer.registered_ms.saturating_add(lasts_ms))
        };
        let is_capped = |consumer: &Consumer| is_new(consumer) || !consumer.predecessors.is_empty();
        if members.iter().any(|(_, consumer)| is_capped(consumer)) {
            for assignment in rows.iter().filter_map(|row| row.assignment) {
                if let Some(index) = places.get(&assignment.value.owner) {
                    owned[*index] += 1;
                }
            }
        }
        let mut cap = vec![usize::MAX; members.len()];
        for (index, (_, consumer)) in members.iter().enumerate() {
            if let Some(newcomers) = settings.newcomers.filter(|_| is_new(consumer)) {
                // What a new member has already it keeps: the cap is for giving.
                cap[index] = newcomers.partitions_max.max(owned[index]);
            }
            // Whatever such a member were given, nobody would work on before its predecessors are gone.
            if !consumer.predecessors.is_empty() {
                cap[index] = cap[index].min(owned[index]);
            }
        }
        let (load, choices) = (vec![0; members.len()], vec![None; rows.len()]);
        Self { state, rows, members, places, warm, load, cap, capped: BTreeSet::new(), choices }
    }

    /// The partitions of each pool. Members with the same subscription are looked at together: there are few of those.
    fn pools(&self) -> BTreeMap<Pool, Vec<usize>> {
        let mut alike: BTreeMap<&BTreeSet<TopicName>, Vec<usize>> = BTreeMap::new();
        for (index, (_, consumer)) in self.members.iter().enumerate() {
            alike.entry(&consumer.topics).or_default().push(index);
        }
        let mut pools: BTreeMap<Pool, Vec<usize>> = BTreeMap::new();
        let existing =
            self.rows.iter().enumerate().filter_map(|(row, known)| Some((row, known, known.topic?)));
        let mut existing = existing.peekable();
        while let Some((_, first, topic)) = existing.peek() {
            let (name, topic) = (&first.place.topic, *topic);
            let mut weights: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            while let Some((row, known, _)) = existing.next_if(|(_, known, _)| known.place.topic == *name) {
                let weight = topic.weight_of(known.place.partition).clamp(1, WEIGHT_MAX);
                weights.entry(weight).or_default().push(row);
            }
            let takers = alike.values().filter(|alike| self.members[alike[0]].1.takes(name));
            let mut members: Vec<usize> = takers.flatten().copied().collect();
            members.sort_unstable();
            for (weight, rows) in weights.into_iter().filter(|_| !members.is_empty()) {
                let pool = Pool { weight: Reverse(weight), size: members.len(), members: members.clone() };
                pools.entry(pool).or_default().extend(rows);
            }
        }
        pools
    }

    fn fill(&mut self, pool: &Pool, rows: &[usize]) {
        let weight = u64::from(pool.weight.0);
        let candidates = self.candidates(pool, rows);
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); self.members.len()];
        let mut loose = Vec::new();
        for (number, candidate) in candidates.iter().enumerate() {
            match candidate.holder {
                Some(holder) => held[holder].push(number),
                None => loose.push(number),
            }
        }
        let before = self.load.clone();
        let slots = self.slots(pool, candidates.len(), &held);
        // From here on `load` counts what is really given, and ends where the slots ended.
        self.load = before;
        let mut room = slots.clone();
        let mut give = |this: &mut Self, number: usize, member: usize, because: Because| {
            if room[member] == 0 {
                return false;
            }
            room[member] -= 1;
            this.load[member] += weight;
            this.choices[candidates[number].row] = Some((member, because));
            true
        };
        for member in pool.members.iter().copied() {
            let mut numbers = std::mem::take(&mut held[member]);
            // Who keeps all need not choose.
            if numbers.len() > slots[member] {
                numbers.sort_by_cached_key(|number| self.reluctance(member, &candidates[*number]));
            }
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
            let mut warm = self.warm.get(candidates[*number].place).cloned().unwrap_or_default();
            warm.retain(|member| pool.members.binary_search(member).is_ok());
            warm.sort_by_key(|member| (self.fullness(*member, weight), *member));
            !warm.into_iter().any(|member| give(self, *number, member, Because::Warm))
        });
        let mut racks: BTreeMap<&str, Queue> = BTreeMap::new();
        for member in &pool.members {
            let consumer: &'a Consumer = self.members[*member].1;
            if let Some(rack) = &consumer.rack {
                racks.entry(rack).or_default().push(Reverse((self.fullness(*member, weight), *member)));
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
        let mut queue: Queue =
            pool.members.iter().map(|member| Reverse((self.fullness(*member, weight), *member))).collect();
        for number in loose {
            let given = next(&mut queue, |member| {
                let given = give(self, number, member, Because::LeastLoaded);
                given.then(|| self.fullness(member, weight))
            });
            assert!(given, "there are as many slots as partitions");
        }
    }

    fn candidates(&self, pool: &Pool, rows: &[usize]) -> Vec<Candidate<'a>> {
        let mut is_in_pool = vec![false; self.members.len()];
        for member in &pool.members {
            is_in_pool[*member] = true;
        }
        let in_pool = |name: &ConsumerName| self.places.get(name).copied().filter(|index| is_in_pool[*index]);
        let candidate = |row: &usize| {
            let Row { place, topic, assignment, handoff } = &self.rows[*row];
            let owner = assignment.and_then(|stored| in_pool(&stored.value.owner));
            let target = handoff.map(|stored| &stored.value).and_then(|handoff| {
                let is_open = matches!(handoff.phase, Phase::Warming | Phase::Ready);
                let is_alive = self.state.takes(&handoff.to, handoff.to_session, &place.topic);
                if is_open && is_alive { in_pool(&handoff.to) } else { None }
            });
            let rack = topic.and_then(|topic| topic.racks.get(&place.partition)).map(String::as_str);
            Candidate { row: *row, place, owner, holder: target.or(owner), rack }
        };
        rows.iter().map(candidate).collect()
    }

    /// How many partitions of the pool each member gets.
    fn slots(&mut self, pool: &Pool, count: usize, held: &[Vec<usize>]) -> Vec<usize> {
        let weight = u64::from(pool.weight.0);
        let mut slots = vec![0_usize; self.members.len()];
        let mut queue: BinaryHeap<Reverse<(u128, bool, usize)>> = BinaryHeap::new();
        let entry = |this: &Self, member: usize, slots: usize| {
            let saves_a_move = held[member].len() > slots;
            Reverse((this.fullness(member, weight), !saves_a_move, member))
        };
        for member in &pool.members {
            if self.cap[*member] > 0 {
                queue.push(entry(self, *member, 0));
            } else {
                self.capped.insert(*member);
            }
        }
        for _ in 0..count {
            if queue.is_empty() {
                // All are new and full, or wait. Somebody has to do the work all the same.
                for member in &pool.members {
                    self.cap[*member] = usize::MAX;
                    self.capped.remove(member);
                    queue.push(entry(self, *member, slots[*member]));
                }
            }
            let Some(Reverse((_, _, member))) = queue.pop() else { break };
            slots[member] += 1;
            self.load[member] += weight;
            self.cap[member] = self.cap[member].saturating_sub(usize::from(self.cap[member] != usize::MAX));
            if self.cap[member] > 0 {
                queue.push(entry(self, member, slots[member]));
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
        let load = self.load[member] + weight;
        // Long division takes a multiple of the time, and hardly any load needs it.
        match u32::try_from(load) {
            Ok(load) => u128::from((u64::from(load) << 32) / u64::from(capacity)),
            Err(_) => (u128::from(load) << 32) / u128::from(capacity),
        }
    }

    /// What a member that has too much gives away last comes first.
    fn reluctance(&self, member: usize, candidate: &Candidate<'_>) -> (bool, bool, bool) {
        let is_underway = candidate.owner != Some(member);
        let rack = self.members[member].1.rack.as_deref();
        let is_elsewhere = candidate.rack.is_some() && candidate.rack != rack;
        let warm = if self.warm.is_empty() { None } else { self.warm.get(candidate.place) };
        let is_warm_elsewhere = warm.is_some_and(|warm| warm.iter().any(|other| *other != member));
        (is_underway, is_elsewhere, is_warm_elsewhere)
    }
}

/// Members, those first that are least full.
type Queue = BinaryHeap<Reverse<(u128, usize)>>;

/// Offers to the first in the queue until one takes, and puts it back with its new fullness.
fn next(queue: &mut Queue, mut offer: impl FnMut(usize) -> Option<u128>) -> bool {
    while let Some(Reverse((_, member))) = queue.pop() {
        if let Some(fullness) = offer(member) {
            queue.push(Reverse((fullness, member)));
            return true;
        }
    }
    false
}
