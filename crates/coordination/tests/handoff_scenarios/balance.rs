//! Balance and movement of what is desired, for any state.

use std::collections::BTreeMap;

use coordination::handoff::{
    Assignment, Change, Consumer, ConsumerName, Entry, Epoch, SessionId, Settings, State, Topic,
    TopicPartition, desired,
};
use proptest::prelude::*;

/// Consumers by capacity, and topics by the owners of their partitions: numbers beyond the consumers are dead or nobody.
fn state(capacities: &[u32], topics: &[Vec<usize>]) -> State {
    let mut state = State::default();
    for (number, capacity) in capacities.iter().enumerate() {
        let consumer = Consumer { capacity: *capacity, ..Consumer::new(SessionId::from_u128(1), 0) };
        state.apply(1, Change::Put(Entry::Consumer(name(number), consumer)));
    }
    for (number, owners) in topics.iter().enumerate() {
        let topic: coordination::handoff::TopicName = format!("t{number}").parse().unwrap();
        let partitions = u32::try_from(owners.len()).unwrap();
        let value = Topic::new(partitions);
        state.apply(2, Change::Put(Entry::Topic(topic.clone(), value)));
        for (partition, owner) in (0..).zip(owners) {
            let place = TopicPartition { topic: topic.clone(), partition };
            // Some are owned by nobody at all.
            if *owner < 12 {
                let assignment = Assignment { owner: name(*owner), epoch: Epoch(1) };
                state.apply(3, Change::Put(Entry::Assignment(place, assignment)));
            }
        }
    }
    state
}

fn name(number: usize) -> ConsumerName {
    format!("c{number:02}").parse().unwrap()
}

fn loads(
    state: &State,
    owner: impl Fn(&TopicPartition) -> Option<ConsumerName>,
) -> BTreeMap<ConsumerName, u64> {
    let mut loads: BTreeMap<_, _> = state.consumers.keys().map(|name| (name.clone(), 0)).collect();
    for place in state.partitions() {
        if let Some(load) = owner(&place).and_then(|name| loads.get_mut(&name)) {
            *load += 1;
        }
    }
    loads
}

fn topics() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::collection::vec(prop::collection::vec(0..14_usize, 0..30), 1..4)
}

proptest! {
    #[test]
    fn equal_consumers_differ_by_one_and_no_more_moves_than_that_needs(
        count in 1..9_usize,
        topics in topics(),
    ) {
        let state = state(&vec![1; count], &topics);
        let desired = desired(&state, &Settings::default(), 0);
        prop_assert_eq!(desired.choices.len(), state.partitions().len());
        let chosen = |place: &TopicPartition| desired.choices.get(place).map(|choice| choice.owner.clone());
        let after = loads(&state, chosen);
        let (least, most) = (after.values().min().unwrap(), after.values().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", after);

        let owner = |place: &TopicPartition| {
            state.assignments.get(place).map(|stored| stored.value.owner.clone())
        };
        let before = loads(&state, owner);
        let (all, count) = (u64::try_from(state.partitions().len()).unwrap(), u64::try_from(count).unwrap());
        let (share, extra) = (all / count, all % count);
        let too_many: u64 = before.values().map(|load| load.saturating_sub(share)).sum();
        let fuller = u64::try_from(before.values().filter(|load| **load > share).count()).unwrap();
        let bound = too_many - fuller.min(extra);
        let is_move = |place: &&TopicPartition| {
            owner(place).is_some_and(|name| before.contains_key(&name) && chosen(place) != Some(name))
        };
        let moves = state.partitions().iter().filter(is_move).count();
        prop_assert_eq!(u64::try_from(moves).unwrap(), bound);
    }

    #[test]
    fn no_partition_could_move_to_make_the_fuller_of_two_less_full(
        capacities in prop::collection::vec(1..20_u32, 1..9),
        topics in topics(),
    ) {
        let state = state(&capacities, &topics);
        let desired = desired(&state, &Settings::default(), 0);
        let loads = loads(&state, |place| desired.choices.get(place).map(|choice| choice.owner.clone()));
        let loads: Vec<u64> = loads.into_values().collect();
        for (one, one_capacity) in loads.iter().zip(&capacities) {
            for (other, other_capacity) in loads.iter().zip(&capacities) {
                let (one_capacity, other_capacity) = (u64::from(*one_capacity), u64::from(*other_capacity));
                prop_assert!(
                    *one == 0 || one * other_capacity <= (other + 1) * one_capacity,
                    "{:?} for {:?}", loads, capacities
                );
            }
        }
    }

    #[test]
    fn what_is_desired_is_the_same_again_and_once_it_has_come_true(
        capacities in prop::collection::vec(1..5_u32, 1..9),
        topics in topics(),
    ) {
        let mut state = state(&capacities, &topics);
        let first = desired(&state, &Settings::default(), 0);
        prop_assert_eq!(&first, &desired(&state, &Settings::default(), 0));
        for (place, choice) in &first.choices {
            let assignment = Assignment { owner: choice.owner.clone(), epoch: Epoch(2) };
            state.apply(4, Change::Put(Entry::Assignment(place.clone(), assignment)));
        }
        let then = desired(&state, &Settings::default(), 0);
        for (place, choice) in &first.choices {
            prop_assert_eq!(&then.choices[place].owner, &choice.owner);
        }
    }
}
