//! Offsets: committed by themselves, by hand, and gone with their topic.

use rdkafka::Offset;
use rdkafka::consumer::CommitMode;

use crate::programs;
use crate::reader::{Reader, partitions, until};
use crate::world::World;

/// So long that it never comes.
const NEVER_MS: &str = "3600000";

/// A topic with two partitions of ten records, and a consumer that commits by itself and has read them all.
fn read_all(world: &World, interval_ms: &str) -> (String, Reader) {
    let topic = world.create("t", 2);
    for partition in 0..2 {
        world.produce(&topic, partition, 0, 10);
    }
    let mut settings = world.settings("g");
    settings.set("enable.auto.commit", "true").set("auto.commit.interval.ms", interval_ms);
    let reader = Reader::new(&settings).subscribed(&[&topic]);
    until("all is read", &[&reader], || reader.count() == 20);
    (topic, reader)
}

/// Proves E2E-11: on an interval.
#[test]
fn offsets_are_committed_by_themselves_after_a_while() {
    let world = World::enter("auto-interval");
    let (topic, reader) = read_all(&world, "100");
    until("they are committed", &[&reader], || world.offsets("g", &topic, 2) == [10, 10]);
}

/// Proves E2E-11: on close.
#[test]
fn offsets_are_committed_by_themselves_on_closing() {
    let world = World::enter("auto-close");
    let (topic, reader) = read_all(&world, NEVER_MS);
    assert_eq!(world.offsets("g", &topic, 2), [-1, -1]);
    reader.close();
    assert_eq!(world.offsets("g", &topic, 2), [10, 10]);
}

/// Proves E2E-11: on a rebalance.
#[test]
fn offsets_are_committed_by_themselves_before_partitions_move() {
    let world = World::enter("auto-rebalance");
    let (topic, reader) = read_all(&world, NEVER_MS);
    assert_eq!(world.offsets("g", &topic, 2), [-1, -1]);
    let other = world.reader("g").subscribed(&[&topic]);
    until("they share", &[&reader, &other], || {
        reader.assignment().len() == 1 && other.assignment().len() == 1
    });
    assert_eq!(world.offsets("g", &topic, 2), [10, 10]);
    world.produce(&topic, 0, 10, 1);
    world.produce(&topic, 1, 10, 1);
    until("the other goes on where the first was", &[&reader, &other], || other.count() > 0);
    assert_eq!(other.records()[0].offset, 10);
}

/// Proves E2E-11: not when disabled.
#[test]
fn offsets_are_not_committed_by_themselves_where_that_is_disabled() {
    let world = World::enter("auto-disabled");
    let topic = world.create("t", 2);
    for partition in 0..2 {
        world.produce(&topic, partition, 0, 10);
    }
    let mut settings = world.settings("g");
    settings.set("enable.auto.commit", "false").set("auto.commit.interval.ms", "10");
    let [first, second] = [(), ()].map(|()| Reader::new(&settings).subscribed(&[&topic]));
    until("both have read their half", &[&first, &second], || {
        let half = |it: &Reader| it.assignment().len() == 1 && it.count() >= 10;
        half(&first) && half(&second)
    });
    first.close();
    until("one has all", &[&second], || second.assignment().len() == 2);
    second.close();
    assert_eq!(world.offsets("g", &topic, 2), [-1, -1]);
}

/// Proves E2E-12: one after the other.
#[test]
fn a_commit_that_is_waited_for_is_there_with_its_metadata() {
    let world = World::enter("commit-sync");
    let topic = world.create("t", 2);
    let reader = world.reader("g").subscribed(&[&topic]);
    until("it has both", &[&reader], || reader.assignment() == partitions(&topic, 0..2));
    for (offset, metadata) in [(3, "three"), (5, "fünf"), (4, "")] {
        reader.commit(&topic, 1, offset, metadata, CommitMode::Sync).unwrap();
        assert_eq!(world.committed("g", &topic, 2), [None, Some((offset, metadata.to_owned()))]);
        assert_eq!(reader.committed(&topic, 1), (Offset::Offset(offset), metadata.to_owned()));
    }
    assert_eq!(reader.committed(&topic, 0).0, Offset::Invalid);
}

/// Proves E2E-12: many at once. The crate rdkafka does not hand out what becomes of them, confluent-kafka does.
#[test]
fn commits_that_are_not_waited_for_end_in_their_order_and_the_last_one_stays() {
    let world = World::enter("commit-async");
    let topic = world.create("t", 1);
    let said = programs::python(FIFTY_COMMITS, &[&world.bootstrap(), &world.named("g"), &topic]);
    let Some(said) = said else { return };
    let wanted: Vec<String> = (1..=50).map(|offset| format!("{offset} at {offset}")).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(world.offsets("g", &topic, 1), [50]);
}

const FIFTY_COMMITS: &str = r#"
import sys, time
from confluent_kafka import Consumer, TopicPartition
bootstrap, group, topic = sys.argv[1:]
ended = []

def on_commit(error, partitions):
    ended.append(str(error) if error else f"{partitions[0].offset} {partitions[0].metadata}")

consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "on_commit": on_commit,
                     "enable.auto.commit": False})
joined = []
consumer.subscribe([topic], on_assign=lambda _, partitions: joined.extend(partitions))
ends = time.monotonic() + 30
while not joined and time.monotonic() < ends:
    consumer.poll(0.05)
for offset in range(1, 51):
    consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata=f"at {offset}")], asynchronous=True)
while len(ended) < 50 and time.monotonic() < ends:
    consumer.poll(0.05)
consumer.close()
print(*ended, sep="\n")
"#;

/// Proves E2E-13.
#[test]
fn the_offset_of_a_deleted_topic_is_gone_and_does_not_come_back_with_its_name() {
    let world = World::enter("deleted-topic");
    let (topic, other) = (world.create("t", 1), world.create("other", 1));
    let both = &partitions(&topic, 0..1) | &partitions(&other, 0..1);
    let reader = world.reader("g").assigned(&both, Offset::Beginning);
    for topic in [&topic, &other] {
        reader.commit(topic, 0, 5, "", CommitMode::Sync).unwrap();
    }
    world.delete(&topic);
    until("its offset is gone", &[], || world.offsets("g", &topic, 1) == [-1]);
    world.create("t", 1);
    assert_eq!(world.offsets("g", &topic, 1), [-1]);
    assert_eq!(world.offsets("g", &other, 1), [5]);
    let next = world.reader("g");
    assert_eq!(next.committed(&topic, 0).0, Offset::Invalid);
    assert_eq!(next.committed(&other, 0).0, Offset::Offset(5));
}
