//! What members are told when partitions move, static members, and who finds no room.

use rdkafka::error::RDKafkaErrorCode;

use crate::programs;
use crate::reader::{Reader, Told, partitions, until};
use crate::world::{GROUP_MAX, World};

/// Proves E2E-19: cooperative.
#[test]
fn cooperative_members_are_told_only_of_what_moves() {
    let world = World::enter("cooperative");
    let topic = world.create("t", 4);
    let mut settings = world.settings("g");
    settings.set("partition.assignment.strategy", "cooperative-sticky");
    let first = Reader::new(&settings).subscribed(&[&topic]);
    let whole = partitions(&topic, 0..4);
    until("the first has all", &[&first], || first.assignment() == whole);
    assert_eq!(first.diary().told(), [Told::Assigned(whole.clone())]);
    first.diary().clear();

    let second = Reader::new(&settings).subscribed(&[&topic]);
    until("they share", &[&first, &second], || {
        first.assignment().len() == 2 && second.assignment().len() == 2
    });
    let (kept, moved) = (first.assignment(), second.assignment());
    assert_eq!(&kept | &moved, whole);
    assert_eq!(first.diary().moves(), [Told::Revoked(moved.clone())]);
    assert_eq!(second.diary().moves(), [Told::Assigned(moved.clone())]);
    first.diary().clear();
    second.close();
    until("the first has all again", &[&first], || first.assignment() == whole);
    assert_eq!(first.diary().moves(), [Told::Assigned(moved)]);
}

/// Proves E2E-19: eager.
#[test]
fn eager_members_give_up_all_and_get_all_that_is_theirs() {
    let world = World::enter("eager");
    let topic = world.create("t", 4);
    let first = world.reader("g").subscribed(&[&topic]);
    let whole = partitions(&topic, 0..4);
    until("the first has all", &[&first], || first.assignment() == whole);
    first.diary().clear();

    let second = world.reader("g").subscribed(&[&topic]);
    until("they share", &[&first, &second], || {
        first.assignment().len() == 2 && second.assignment().len() == 2
    });
    let (kept, moved) = (first.assignment(), second.assignment());
    assert_eq!(&kept | &moved, whole);
    assert_eq!(first.diary().told(), [Told::Revoked(whole), Told::Assigned(kept)]);
    assert_eq!(second.diary().told(), [Told::Assigned(moved)]);
}

/// Proves E2E-05.
#[test]
fn a_static_member_that_comes_back_sees_new_partitions() {
    let world = World::enter("static");
    let topic = world.create("t", 2);
    let mut settings = world.settings("g");
    settings.set("group.instance.id", "one").set("session.timeout.ms", "60000");
    let first = Reader::new(&settings).subscribed(&[&topic]);
    until("it has all", &[&first], || first.assignment() == partitions(&topic, 0..2));
    first.close();
    assert_eq!(world.group("g").members.len(), 1, "a static member does not leave by closing");
    let again = Reader::new(&settings).subscribed(&[&topic]);
    until("it has all again", &[&again], || again.assignment() == partitions(&topic, 0..2));
    world.grow(&topic, 4);
    until("it has the new ones too", &[&again], || again.assignment() == partitions(&topic, 0..4));
    let members = world.group("g").members;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].group_instance_id.as_deref(), Some("one"));
}

/// Proves E2E-05: Kafka's own client, which is told to skip the assignment and to stay the leader (KIP-814).
#[test]
fn a_static_leader_that_comes_back_still_watches_its_topics() {
    let world = World::enter("static-leader");
    let topic = world.create("t", 2);
    let arguments = [&world.bootstrap(), &topic, &world.named("g"), "static"];
    let Some(said) = programs::java(&arguments) else { return };
    // Coming back costs no rebalance, the new partitions cost one.
    assert_eq!(said, "generation 1\ngeneration 1\ngeneration 2\n");
}

/// Proves SIZE-07.
#[test]
fn a_consumer_that_finds_no_room_fails_and_the_others_go_on() {
    let world = World::enter("no-room");
    let topic = world.create("t", 3);
    let within: Vec<_> = (0..GROUP_MAX).map(|_| world.reader("g").subscribed(&[&topic])).collect();
    let within: Vec<&Reader> = within.iter().collect();
    until("they share", &within, || within.iter().all(|it| it.assignment().len() == 1));
    let members = world.members("g");
    for reader in &within {
        reader.diary().clear();
    }

    let refused = world.reader("g").subscribed(&[&topic]);
    let all: Vec<&Reader> = within.iter().copied().chain([&refused]).collect();
    until("one is refused", &all, || refused.met(RDKafkaErrorCode::GroupMaxSizeReached));
    for partition in 0..3 {
        world.produce(&topic, partition, 0, 10);
    }
    until("the others read on", &all, || within.iter().all(|it| it.count() == 10));
    assert_eq!((refused.count(), refused.assignment().len()), (0, 0));
    for reader in &within {
        assert_eq!(reader.diary().told(), [], "nobody was disturbed");
    }
    assert_eq!(world.members("g"), members);
}
