//! What a consumer subscribes to comes, goes and changes.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;

use crate::reader::{Reader, Told, partitions, until};
use crate::world::World;

/// Proves E2E-17.
#[test]
fn a_pattern_follows_topics_as_they_come_and_go() {
    let world = World::enter("pattern");
    let (first, _) = (world.create("yes-1", 2), world.create("no-1", 1));
    world.produce(&first, 0, 0, 1);
    let pattern = format!("^{}", world.named("yes-.*"));
    let reader = world.reader("g").subscribed(&[&pattern]);
    // Nothing is committed, so each rebalance lets it begin anew.
    let has_read =
        |topic: &str, value: &str| reader.records().iter().any(|it| it.topic == topic && it.value == value);
    until("it has what matches", &[&reader], || {
        reader.assignment() == partitions(&first, 0..2) && has_read(&first, "0")
    });

    let second = world.create("yes-2", 1);
    world.produce(&second, 0, 0, 1);
    let both = &partitions(&first, 0..2) | &partitions(&second, 0..1);
    until("it has the new one", &[&reader], || reader.assignment() == both && has_read(&second, "0"));

    world.delete(&first);
    until("the deleted one is gone", &[&reader], || reader.assignment() == partitions(&second, 0..1));
    world.produce(&second, 0, 1, 1);
    until("it reads on", &[&reader], || has_read(&second, "1"));
}

/// Proves E2E-18: away and back.
#[test]
fn who_subscribes_anew_gets_what_it_asks_for() {
    let world = World::enter("anew");
    let (first, second) = (world.create("t1", 2), world.create("t2", 2));
    world.produce(&second, 0, 0, 1);
    let reader = world.reader("g").subscribed(&[&first]);
    until("it has the first", &[&reader], || reader.assignment() == partitions(&first, 0..2));
    reader.consumer.unsubscribe();
    until("it has left", &[&reader], || {
        reader.assignment().is_empty() && world.group("g").members.is_empty()
    });
    reader.consumer.subscribe(&[&second]).unwrap();
    until("it has the second", &[&reader], || reader.assignment() == partitions(&second, 0..2));
    until("it reads", &[&reader], || reader.count() == 1);
    // Without leaving in between.
    reader.consumer.subscribe(&[&first, &second]).unwrap();
    let both = &partitions(&first, 0..2) | &partitions(&second, 0..2);
    until("it has both", &[&reader], || reader.assignment() == both);
}

/// Proves E2E-18: only what has to move moves.
#[test]
fn who_adds_a_topic_moves_nothing_else() {
    let world = World::enter("adds");
    let (first, second) = (world.create("t1", 2), world.create("t2", 1));
    let mut settings = world.settings("g");
    settings.set("partition.assignment.strategy", "cooperative-sticky");
    let [adding, other] = [(), ()].map(|()| Reader::new(&settings).subscribed(&[&first]));
    let all = [&adding, &other];
    until("they share", &all, || all.iter().all(|it| it.assignment().len() == 1));
    let kept = other.assignment();
    for reader in all {
        reader.diary().clear();
    }

    adding.consumer.subscribe(&[&first, &second]).unwrap();
    until("one has the added topic", &all, || adding.assignment().is_superset(&partitions(&second, 0..1)));
    assert_eq!(other.assignment(), kept);
    assert_eq!(adding.diary().moves(), [Told::Assigned(partitions(&second, 0..1))]);
    assert_eq!(other.diary().moves(), []);
}

/// Proves E2E-21.
#[test]
fn a_topic_may_come_after_its_subscription() {
    let world = World::enter("later");
    let topic = world.named("t");
    let reader = world.reader("g").subscribed(&[&topic]);
    until("it is told that there is none", &[&reader], || {
        reader.met(RDKafkaErrorCode::UnknownTopicOrPartition)
    });
    assert!(!world.exists(&topic));
    world.create("t", 2);
    world.produce(&topic, 1, 0, 3);
    until("it reads", &[&reader], || reader.assignment() == partitions(&topic, 0..2) && reader.count() == 3);
}

/// Proves E2E-21: a name that no topic can have.
#[test]
fn a_name_that_no_topic_can_have_is_an_error() {
    let world = World::enter("invalid");
    let reader = Reader::new(world.settings("g").set("allow.auto.create.topics", "true"));
    assert_eq!(asked_for(&reader, "not a name!"), Some(RDKafkaErrorCode::InvalidTopic));
}

/// Proves E2E-22: both sides allow it.
#[test]
fn a_topic_is_made_by_asking_for_it_where_both_sides_allow_it() {
    let world = World::enter("both-allow");
    let topic = world.named("t");
    let reader =
        Reader::new(world.settings("g").set("allow.auto.create.topics", "true")).subscribed(&[&topic]);
    asked_for(&reader, &topic);
    until("it has the new topic", &[&reader], || reader.assignment() == partitions(&topic, 0..1));
    assert!(world.exists(&topic));
}

/// Proves E2E-22: the client does not allow it.
#[test]
fn a_topic_is_not_made_where_the_client_does_not_allow_it() {
    no_topic_is_made(&World::enter("client-forbids"), "false");
}

/// Proves E2E-22: the broker does not allow it.
#[test]
fn a_topic_is_not_made_where_the_broker_does_not_allow_it() {
    no_topic_is_made(&World::without_auto_creation("broker-forbids"), "true");
}

fn no_topic_is_made(world: &World, client_allows: &str) {
    let topic = world.named("t");
    let mut settings = world.settings("g");
    settings.set("allow.auto.create.topics", client_allows);
    let reader = Reader::new(&settings).subscribed(&[&topic]);
    let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
    assert_eq!(asked_for(&reader, &topic), Some(unknown));
    until("it is told that there is none", &[&reader], || reader.met(unknown));
    // Neither by the first question nor by those since.
    assert_eq!(asked_for(&reader, &topic), Some(unknown));
    assert!(!world.exists(&topic));
    assert!(reader.assignment().is_empty());
}

/// Asks for a topic as the consumer's settings say; gives the error of the answer.
fn asked_for(reader: &Reader, topic: &str) -> Option<RDKafkaErrorCode> {
    let answer = reader.consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    answer.topics()[0].error().map(RDKafkaErrorCode::from)
}
