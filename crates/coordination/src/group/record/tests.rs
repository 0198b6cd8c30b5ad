use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::group::event::{Cause, Outcome};
use crate::ids::TopicId;

/// What a live Kafka 4.3.1 wrote while librdkafka clients joined, committed and left: what its dump tool says of each
/// record, then the key and the value in hexadecimal digits, a `-` for a tombstone.
const KAFKA: &str = include_str!("golden/kafka-4.3.1.txt");

const ID: GroupId = GroupId::from_u128(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0);

fn encode(record: &GroupRecord) -> (Vec<u8>, Option<Vec<u8>>) {
    // What is left of an earlier record must not shine through.
    let (mut key, mut value) = (b"old".to_vec(), b"old".to_vec());
    record.encode_into(&mut key, &mut value);
    (key, (!record.is_tombstone()).then_some(value))
}

fn decode(log: GroupLog, key: &[u8], value: Option<&[u8]>) -> GroupRecord {
    match GroupRecord::decode(log, key, value) {
        Ok(Decoded::Record(record)) => record,
        other => panic!("not a record: {other:?}"),
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says of a record what Kafka's dump tool says.
fn dumped(record: &GroupRecord) -> String {
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let nullable = |text: &Option<String>| text.as_deref().map_or("null".to_owned(), json);
    match record {
        GroupRecord::Offset { group, topic, partition, value } => {
            let (group, topic) = (json(group), json(topic));
            let key = format!("\"group\":{group},\"topic\":{topic},\"partition\":{partition}");
            let payload = value.as_ref().map(|value| {
                let (offset, metadata) = (value.offset, json(&value.metadata));
                match value.expire_ms {
                    Some(expire_ms) => format!(
                        "{{\"version\":\"1\",\"data\":{{\"offset\":{offset},\"metadata\":{metadata},\
                         \"commitTimestamp\":{},\"expireTimestamp\":{expire_ms}}}}}",
                        value.commit_ms
                    ),
                    None => format!(
                        "{{\"version\":\"4\",\"data\":{{\"offset\":{offset},\"leaderEpoch\":{},\
                         \"metadata\":{metadata},\"commitTimestamp\":{},\"topicId\":\"bf0SF2JvT6KdxoWvEMehOQ\"}}}}",
                        value.leader_epoch, value.commit_ms
                    ),
                }
            });
            let payload = payload.unwrap_or("<DELETE>".to_owned());
            format!("{{\"type\":\"1\",\"data\":{{{key}}}}} payload: {payload}")
        }
        GroupRecord::Group { group, value } => {
            let payload = value.as_ref().map(|value| {
                let members: Vec<_> = value
                    .members
                    .iter()
                    .map(|member| {
                        format!(
                            "{{\"memberId\":{},\"groupInstanceId\":{},\"clientId\":{},\"clientHost\":{},\
                             \"rebalanceTimeout\":{},\"sessionTimeout\":{},",
                            json(&member.member_id),
                            nullable(&member.instance_id),
                            json(&member.client_id),
                            json(&member.client_host),
                            member.rebalance_timeout_ms,
                            member.session_timeout_ms
                        )
                    })
                    .collect();
                format!(
                    "{{\"version\":\"3\",\"data\":{{\"protocolType\":{},\"generation\":{},\"protocol\":{},\
                     \"leader\":{},\"currentStateTimestamp\":{},\"members\":[{}]}}}}",
                    json(&value.protocol_type),
                    value.generation,
                    nullable(&value.protocol),
                    nullable(&value.leader),
                    value.state_timestamp_ms.unwrap_or(-1),
                    members.join(",")
                )
            });
            let payload = payload.unwrap_or("<DELETE>".to_owned());
            format!("{{\"type\":\"2\",\"data\":{{\"group\":{}}}}} payload: {payload}", json(group))
        }
        other => panic!("not of __consumer_offsets: {other:?}"),
    }
}

/// The dump tool's line without the two fields of each member that it takes apart further.
fn without_protocol_bytes(line: &str) -> String {
    let mut parts = line.split("\"subscription\":");
    let mut kept = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find("\"userData\":\"\"}}").unwrap() + "\"userData\":\"\"}}".len();
        kept.push_str(&part[end..]);
    }
    kept
}

/// LOAD-25: among them are deletions. WIRE-06, WIRE-09: kinds and versions are the bytes that Kafka begins with.
#[test]
fn what_a_live_kafka_wrote_is_read_and_written_byte_for_byte() {
    let mut count = 0;
    for entry in KAFKA.split_terminator("\n\n") {
        let mut lines = entry.lines();
        let mut next = || lines.next().unwrap();
        let (said, key, value) = (next(), next(), next());
        let value = (value != "-").then(|| unhex(value));
        let record = decode(GroupLog::Offsets, &unhex(key), value.as_deref());
        let ours = dumped(&record);
        assert_eq!(ours, without_protocol_bytes(said));
        let (our_key, our_value) = encode(&record);
        assert_eq!(hex(&our_key), key, "{said}");
        assert_eq!(our_value.as_deref().map(hex), value.as_deref().map(hex), "{said}");
        count += 1;
    }
    assert_eq!(count, 10);
}

/// WIRE-08.
#[test]
fn an_offset_that_expires_is_written_in_version_1_and_any_other_in_the_newest() {
    let version = |expire_ms| {
        let value = OffsetValue {
            offset: 7,
            leader_epoch: 1,
            metadata: "m".into(),
            commit_ms: 3,
            expire_ms,
            topic_id: TopicId::ZERO,
        };
        let offset =
            GroupRecord::Offset { group: "g".into(), topic: "t".into(), partition: 0, value: Some(value) };
        encode(&offset).1.map(|value| i16::from_be_bytes([value[0], value[1]]))
    };
    assert_eq!(version(Some(5)), Some(1));
    assert_eq!(version(None), Some(4));
}

#[test]
fn offsets_of_every_version_are_read() {
    let key = unhex("0001000361626300017400000007");
    let read = |value: &str| match decode(GroupLog::Offsets, &key, Some(&unhex(value))) {
        GroupRecord::Offset { value: Some(value), .. } => value,
        other => panic!("{other:?}"),
    };
    let base = OffsetValue {
        offset: 5,
        leader_epoch: -1,
        metadata: "m".into(),
        commit_ms: 9,
        expire_ms: None,
        topic_id: TopicId::ZERO,
    };
    assert_eq!(read("0000 0000000000000005 0001 6d 0000000000000009".replace(' ', "").as_str()), base);
    assert_eq!(read("0002 0000000000000005 0001 6d 0000000000000009".replace(' ', "").as_str()), base);
    let expiring = "0001 0000000000000005 0001 6d 0000000000000009 000000000000000a".replace(' ', "");
    assert_eq!(read(&expiring), OffsetValue { expire_ms: Some(10), ..base.clone() });
    let never = "0001 0000000000000005 0001 6d 0000000000000009 ffffffffffffffff".replace(' ', "");
    assert_eq!(read(&never), base);
    let epoch = "0003 0000000000000005 00000002 0001 6d 0000000000000009".replace(' ', "");
    assert_eq!(read(&epoch), OffsetValue { leader_epoch: 2, ..base.clone() });
    // A field of a later Kafka, tag 3, is skipped.
    let tagged = "0004 0000000000000005 00000002 02 6d 0000000000000009 01 03 02 ffff".replace(' ', "");
    assert_eq!(read(&tagged), OffsetValue { leader_epoch: 2, ..base });
}

/// LOAD-26.
#[test]
fn an_offset_under_the_oldest_key_is_an_offset() {
    let value = unhex(&"0000 0000000000000005 0001 6d 0000000000000009".replace(' ', ""));
    let key = unhex("0000000361626300017400000007");
    let record = decode(GroupLog::Offsets, &key, Some(&value));
    assert!(matches!(record, GroupRecord::Offset { partition: 7, value: Some(_), .. }), "{record:?}");
}

/// LOAD-03.
#[test]
fn members_of_every_version_are_read() {
    let read = |value: &str| match decode(
        GroupLog::Offsets,
        &unhex("0002000161"),
        Some(&unhex(&value.replace(' ', ""))),
    ) {
        GroupRecord::Group { value: Some(value), .. } => *value,
        other => panic!("{other:?}"),
    };
    let member = MemberValue {
        member_id: "m".to_owned(),
        client_id: "c".to_owned(),
        client_host: "h".to_owned(),
        rebalance_timeout_ms: 7,
        session_timeout_ms: 7,
        subscription: Bytes::from_static(b"s"),
        ..MemberValue::default()
    };
    let group = GroupValue {
        protocol_type: "t".to_owned(),
        generation: 1,
        members: vec![member.clone()],
        ..GroupValue::default()
    };
    // In version 0 the session timeout stands for the rebalance timeout.
    let head = "0001 74 00000001 ffff ffff";
    let tail = "00000007 00000001 73 00000000";
    assert_eq!(read(&format!("0000 {head} 00000001 0001 6d 0001 63 0001 68 {tail}")), group);
    let with_timeout = |rebalance_timeout_ms| GroupValue {
        members: vec![MemberValue { rebalance_timeout_ms, ..member.clone() }],
        ..group.clone()
    };
    assert_eq!(
        read(&format!("0001 {head} 00000001 0001 6d 0001 63 0001 68 00000008 {tail}")),
        with_timeout(8)
    );
    let timed = format!("0002 {head} 0000000000000003 00000001 0001 6d 0001 63 0001 68 00000008 {tail}");
    assert_eq!(read(&timed), GroupValue { state_timestamp_ms: Some(3), ..with_timeout(8) });
}

#[test]
fn a_member_id_too_long_for_the_usual_version_survives() {
    let long = "x".repeat(KAFKA_TEXT_MAX + 37);
    let record = GroupRecord::Group {
        group: "g".into(),
        value: Some(Box::new(GroupValue {
            leader: Some(long.clone()),
            members: vec![MemberValue { member_id: long, ..MemberValue::default() }],
            ..GroupValue::default()
        })),
    };
    let (key, value) = encode(&record);
    let value = value.unwrap();
    assert_eq!(value[..2], [0, 4]);
    assert_eq!(decode(GroupLog::Offsets, &key, Some(&value)), record);
}

/// LOAD-19, LOAD-20: what cannot be read. LOAD-18: what need not be.
#[test]
fn types_of_other_groups_are_set_aside_and_the_rest_is_refused_in_a_sentence() {
    for kind in [3_i16, 5, 16, 23, 99, -1] {
        let decoded = GroupRecord::decode(GroupLog::Offsets, &kind.to_be_bytes(), None);
        assert_eq!(decoded, Ok(Decoded::Other { kind }));
    }
    let refused = |key: &str, value: &str| {
        GroupRecord::decode(GroupLog::Offsets, &unhex(key), Some(&unhex(value))).unwrap_err().to_string()
    };
    assert_eq!(refused("00", ""), "a key in __consumer_offsets cannot be read: it ends too early");
    assert_eq!(
        refused("0002000161", "0005"),
        "the membership of group `a` in __consumer_offsets has version 5; this Kohort reads 0 to 4"
    );
    assert_eq!(
        refused("0002000161", "0003ffff"),
        "the membership of group `a` in __consumer_offsets cannot be read: a text or a list that must be there is null"
    );
    assert_eq!(
        refused("0001000161000174000000ff", "0004"),
        "the committed offset of group `a` in __consumer_offsets cannot be read: it ends too early"
    );
}

fn every_kind_of_kohort() -> Vec<GroupRecord> {
    let event = Event {
        number: 33,
        began_ms: 1_763_000_000_000,
        cause: Cause::SessionExpired,
        who: None,
        outcome: Outcome::Stable,
        generation: 7,
        members_before: 3,
        members_after: 2,
        join_ms: 15,
        sync_ms: 4,
        partitions_moved: Some(6),
    };
    vec![
        GroupRecord::Identity(Identity {
            id: ID,
            org: OrgId::DEFAULT,
            name: "my group".into(),
            generation: 7,
            created_ms: 1_763_000_000_000,
        }),
        GroupRecord::IdentityDeleted(ID),
        GroupRecord::Event { id: ID, slot: 1, event: Some(Box::new(event)) },
        GroupRecord::Event { id: ID, slot: 1, event: None },
    ]
}

#[test]
fn records_in_kohorts_log_are_text_that_stays_the_same() {
    let lines: Vec<String> = every_kind_of_kohort()
        .iter()
        .map(|record| {
            assert_eq!(record.log(), GroupLog::Kohort);
            let (key, value) = encode(record);
            assert_eq!(decode(GroupLog::Kohort, &key, value.as_deref()), *record);
            let text = |bytes| String::from_utf8(bytes).unwrap();
            format!("{} {}", text(key), value.map_or("-".to_owned(), text))
        })
        .collect();
    assert_eq!(
        lines,
        [
            "group/cgp_01k5x5tf0yhw014d2pf2dbsqqg {\"id\":\"cgp_01k5x5tf0yhw014d2pf2dbsqqg\",\
             \"org\":\"org_01jg0000008008000000000001\",\"name\":\"my group\",\"generation\":7,\
             \"created_ms\":1763000000000}",
            "group/cgp_01k5x5tf0yhw014d2pf2dbsqqg -",
            "group-event/cgp_01k5x5tf0yhw014d2pf2dbsqqg/1 {\"number\":33,\"began_ms\":1763000000000,\
             \"cause\":\"session_expired\",\"outcome\":\"stable\",\"generation\":7,\"members_before\":3,\
             \"members_after\":2,\"join_ms\":15,\"sync_ms\":4,\"partitions_moved\":6}",
            "group-event/cgp_01k5x5tf0yhw014d2pf2dbsqqg/1 -",
        ]
    );
}

#[test]
fn a_key_or_value_in_kohorts_log_that_nobody_writes_is_an_error() {
    let id = ID.to_string();
    for key in [
        "",
        "group/",
        "groups/x",
        "group-event/",
        &format!("group-event/{id}"),
        &format!("group-event/{id}/01"),
    ] {
        let error = GroupRecord::decode(GroupLog::Kohort, key.as_bytes(), Some(b"{}")).unwrap_err();
        assert!(error.to_string().contains("a newer one may have written it"), "{error}");
    }
    let (key, _) = encode(&GroupRecord::IdentityDeleted(ID));
    let other = GroupRecord::Identity(Identity {
        id: GroupId::from_u128(1),
        org: OrgId::DEFAULT,
        name: "x".into(),
        generation: 0,
        created_ms: 0,
    });
    for value in [b"{}".to_vec(), b"{".to_vec(), encode(&other).1.unwrap()] {
        assert!(GroupRecord::decode(GroupLog::Kohort, &key, Some(&value)).is_err());
    }
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..20).prop_map(|chars| chars.into_iter().collect())
}

fn some_bytes() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn offset_value() -> impl Strategy<Value = OffsetValue> {
    let rest = prop_oneof![
        (any::<i32>(), any::<u128>()).prop_map(|(epoch, id)| (epoch, None, TopicId::from_u128(id))),
        (0..i64::MAX).prop_map(|expire_ms| (-1, Some(expire_ms), TopicId::ZERO)),
    ];
    (any::<i64>(), text(), any::<i64>(), rest).prop_map(
        |(offset, metadata, commit_ms, (leader_epoch, expire_ms, topic_id))| OffsetValue {
            offset,
            leader_epoch,
            metadata: metadata.into(),
            commit_ms,
            expire_ms,
            topic_id,
        },
    )
}

fn member_value() -> impl Strategy<Value = MemberValue> {
    let texts = (text(), proptest::option::of(text()), text(), text());
    (texts, 0..i32::MAX, any::<i32>(), some_bytes(), some_bytes()).prop_map(
        |(texts, rebalance_timeout_ms, session_timeout_ms, subscription, assignment)| MemberValue {
            member_id: texts.0,
            instance_id: texts.1,
            client_id: texts.2,
            client_host: texts.3,
            rebalance_timeout_ms,
            session_timeout_ms,
            subscription,
            assignment,
        },
    )
}

fn group_value() -> impl Strategy<Value = GroupValue> {
    let texts = (text(), proptest::option::of(text()), proptest::option::of(text()));
    let members = proptest::collection::vec(member_value(), 0..4);
    (texts, any::<i32>(), proptest::option::of(0..i64::MAX), members).prop_map(
        |(texts, generation, state_timestamp_ms, members)| GroupValue {
            protocol_type: texts.0,
            generation,
            protocol: texts.1,
            leader: texts.2,
            state_timestamp_ms,
            members,
        },
    )
}

fn offsets_record() -> impl Strategy<Value = GroupRecord> {
    prop_oneof![
        (text(), text(), any::<i32>(), proptest::option::of(offset_value())).prop_map(
            |(group, topic, partition, value)| GroupRecord::Offset {
                group: group.into(),
                topic: topic.into(),
                partition,
                value
            }
        ),
        (text(), proptest::option::of(group_value())).prop_map(|(group, value)| GroupRecord::Group {
            group: group.into(),
            value: value.map(Box::new)
        }),
    ]
}

proptest! {
    /// WIRE-07.
    #[test]
    fn what_is_encoded_is_decoded_again(record in offsets_record()) {
        let (key, value) = encode(&record);
        prop_assert_eq!(record.log(), GroupLog::Offsets);
        prop_assert_eq!(decode(GroupLog::Offsets, &key, value.as_deref()), record);
    }

    #[test]
    fn members_in_the_newest_version_are_read(group in group_value()) {
        let mut value = Vec::new();
        group.encode_flexible_into(&mut value);
        prop_assert_eq!(GroupValue::decode("g", &value), Ok(group));
    }

    /// WIRE-07.
    #[test]
    fn a_torn_record_is_refused(record in offsets_record(), cut in any::<usize>()) {
        let (key, value) = encode(&record);
        let torn = &key[..cut % key.len()];
        prop_assert!(GroupRecord::decode(GroupLog::Offsets, torn, value.as_deref()).is_err());
        if let Some(value) = value {
            let torn = &value[..cut % value.len()];
            prop_assert!(GroupRecord::decode(GroupLog::Offsets, &key, Some(torn)).is_err());
        }
    }

    /// Cut at any byte and with any byte changed, a record is read as something or refused.
    #[test]
    fn damaged_records_are_never_a_panic(record in offsets_record(), cut in any::<usize>(), place in any::<usize>(), byte: u8) {
        let (key, value) = encode(&record);
        let value = value.unwrap_or_default();
        let _ = GroupRecord::decode(GroupLog::Offsets, &key[..cut % (key.len() + 1)], Some(&value));
        let _ = GroupRecord::decode(GroupLog::Offsets, &key, Some(&value[..cut % (value.len() + 1)]));
        for bytes in [&key, &value] {
            let mut damaged = bytes.clone();
            if !damaged.is_empty() {
                let place = place % damaged.len();
                damaged[place] = byte;
            }
            let _ = GroupRecord::decode(GroupLog::Offsets, &damaged, Some(&value));
            let _ = GroupRecord::decode(GroupLog::Offsets, &key, Some(&damaged));
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_a_panic(key in some_bytes(), value in some_bytes(), kind in 0_i16..3, version in 0_i16..5) {
        let _ = GroupRecord::decode(GroupLog::Offsets, &key, Some(&value));
        let _ = GroupRecord::decode(GroupLog::Kohort, &key, Some(&value));
        let key = [&kind.to_be_bytes(), &[0, 0, 0, 0, 0, 0, 0, 0][..]].concat();
        let value = [&version.to_be_bytes(), &value[..]].concat();
        let _ = GroupRecord::decode(GroupLog::Offsets, &key, Some(&value));
    }
}
