//! Where a consumer begins to read: with a group, without one, with and without a committed offset.

use rdkafka::Offset;
use rdkafka::consumer::CommitMode;
use rdkafka::error::RDKafkaErrorCode;

use crate::programs;
use crate::reader::{Reader, Record, partitions, until};
use crate::world::World;

/// Proves E2E-01.
#[test]
fn a_consumer_in_a_group_reads_all_records() {
    let world = World::enter("all-records");
    let topic = world.create("t", 3);
    for partition in 0..3 {
        world.produce(&topic, partition, 0, 100);
    }
    let reader = world.reader("g").subscribed(&[&topic]);
    until("all records are read", &[&reader], || reader.count() >= 300);
    let mut wanted = Vec::new();
    for partition in 0..3 {
        wanted.extend((0..100).map(|offset| Record {
            topic: topic.clone(),
            partition,
            offset,
            value: offset.to_string(),
        }));
    }
    let mut found = reader.records();
    found.sort();
    assert_eq!(found, wanted);
}

/// Proves E2E-14: `earliest`.
#[test]
fn without_an_offset_earliest_begins_at_the_begin() {
    let world = World::enter("earliest");
    let topic = world.create("t", 1);
    world.produce(&topic, 0, 0, 10);
    let reader = Reader::new(world.settings("g").set("auto.offset.reset", "earliest")).subscribed(&[&topic]);
    until("the first record is read", &[&reader], || reader.count() > 0);
    assert_eq!(reader.records()[0].offset, 0);
}

/// Proves E2E-14: `latest`.
#[test]
fn without_an_offset_latest_begins_at_the_end() {
    let world = World::enter("latest");
    let topic = world.create("t", 1);
    world.produce(&topic, 0, 0, 10);
    let mut settings = world.settings("g");
    settings.set("auto.offset.reset", "latest").set("enable.partition.eof", "true");
    let reader = Reader::new(&settings).subscribed(&[&topic]);
    until("it stands at the end", &[&reader], || reader.met_end());
    assert_eq!(reader.records(), []);
    world.produce(&topic, 0, 10, 1);
    until("a record is read", &[&reader], || reader.count() > 0);
    assert_eq!(reader.records()[0].offset, 10);
}

/// Proves E2E-14: no policy.
#[test]
fn without_an_offset_and_without_a_policy_reading_is_an_error() {
    let world = World::enter("no-policy");
    let topic = world.create("t", 1);
    world.produce(&topic, 0, 0, 10);
    let reader = Reader::new(world.settings("g").set("auto.offset.reset", "error")).subscribed(&[&topic]);
    until("it is told so", &[&reader], || reader.met(RDKafkaErrorCode::AutoOffsetReset));
    assert_eq!(reader.records(), []);
}

/// Proves E2E-14: a committed offset is stronger than any policy.
#[test]
fn with_an_offset_the_policy_is_not_asked() {
    let world = World::enter("with-offset");
    let topic = world.create("t", 1);
    world.produce(&topic, 0, 0, 10);
    let whole = partitions(&topic, 0..1);
    let outsider = world.reader("g").assigned(&whole, Offset::Beginning);
    outsider.commit(&topic, 0, 7, "", CommitMode::Sync).unwrap();
    outsider.close();
    for policy in ["earliest", "latest", "error"] {
        let reader = Reader::new(world.settings("g").set("auto.offset.reset", policy)).subscribed(&[&topic]);
        until("the rest is read", &[&reader], || reader.count() >= 3);
        let offsets: Vec<i64> = reader.records().iter().map(|it| it.offset).collect();
        assert_eq!(offsets, [7, 8, 9], "{policy}");
    }
}

/// Proves E2E-15.
#[test]
fn a_consumer_that_assigns_itself_commits_and_goes_on_without_being_a_member() {
    let world = World::enter("no-membership");
    let topic = world.create("t", 2);
    for partition in 0..2 {
        world.produce(&topic, partition, 0, 10);
    }
    let whole = partitions(&topic, 0..2);
    let first = world.reader("g").assigned(&whole, Offset::Beginning);
    until("all is read", &[&first], || first.count() == 20);
    assert_eq!(first.committed(&topic, 0).0, Offset::Invalid);
    first.commit(&topic, 0, 4, "half way", CommitMode::Sync).unwrap();
    assert_eq!(first.committed(&topic, 0), (Offset::Offset(4), "half way".to_owned()));
    let group = world.group("g");
    assert_eq!((group.group_state.as_str(), group.members.len()), ("Empty", 0));
    assert_eq!((group.protocol_type.as_str(), group.protocol_data.as_str()), ("", ""));
    first.close();

    let second = world.reader("g").assigned(&whole, Offset::Stored);
    until("the rest is read", &[&second], || second.count() == 16);
    let firsts = [0, 1].map(|number| second.records().into_iter().find(|it| it.partition == number));
    assert_eq!(firsts.map(|it| it.map(|it| it.offset)), [Some(4), Some(0)]);
    assert_eq!(world.group("g").members, []);
}

/// Proves E2E-14: `by_duration`, which librdkafka does not know.
#[test]
fn without_an_offset_by_duration_begins_at_a_time() {
    let world = World::enter("by-duration");
    let topic = world.create("t", 1);
    let arguments = [&world.bootstrap(), &topic, &world.named("g"), "by-duration"];
    let Some(said) = programs::java(&arguments) else { return };
    assert_eq!(said, "read 2\n");
}

/// Proves E2E-16. librdkafka cannot read without a group id, Kafka's own client can.
#[test]
fn without_a_group_one_can_read_and_not_commit() {
    let world = World::enter("no-group");
    let topic = world.create("t", 1);
    world.produce(&topic, 0, 0, 10);
    let Some(said) = programs::java(&[&world.bootstrap(), &topic, "", "no-group"]) else { return };
    assert_eq!(said, "commit refused\n");
}
