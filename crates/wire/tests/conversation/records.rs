//! What is said about records.

use std::time::Duration;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{OffsetTarget, Op, TopicRef};
use coordination::reply::{self, Refusal, Reply};
use wire::api::*;
use wire::{Body, Request, Uuid, decode_request, decode_response, encode_reply, encode_request};

use super::{addresses, decoded, exchange, op};

#[test]
fn special_timestamps_are_refused_in_versions_that_do_not_have_them() {
    let target = |timestamp, version| {
        let partition = list_offsets::ListOffsetsPartition { timestamp, ..Default::default() };
        let topic = list_offsets::ListOffsetsTopic { name: "a".to_owned(), partitions: vec![partition] };
        let request = list_offsets::ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        match op(&request, version) {
            Op::ListOffsets(list) => list.topics[0].partitions[0].target,
            op => panic!("{op:?}"),
        }
    };
    let since = [
        (-1, 1, OffsetTarget::Latest),
        (-2, 1, OffsetTarget::Earliest),
        (-3, 7, OffsetTarget::MaxTimestamp),
        (-4, 8, OffsetTarget::EarliestLocal),
        (-5, 9, OffsetTarget::LatestTiered),
        (-6, 11, OffsetTarget::EarliestPendingUpload),
        (12, 1, OffsetTarget::Time(12)),
    ];
    for (timestamp, first, expected) in since {
        for version in 1..=11 {
            let expected = if version < first { Err(ErrorCode::UnsupportedVersion) } else { Ok(expected) };
            assert_eq!(target(timestamp, version), expected, "{timestamp} in version {version}");
        }
    }
    assert_eq!(target(-7, 11), Err(ErrorCode::UnsupportedVersion));
}

#[test]
fn produced_records_share_the_frame_and_acks_0_expects_no_reply() {
    let records = Bytes::from(vec![1; 10_000]);
    let request = produce::ProduceRequest {
        acks: 0,
        topic_data: vec![produce::TopicProduceData {
            name: "a".to_owned(),
            topic_id: Uuid(5),
            partition_data: vec![produce::PartitionProduceData { index: 3, records: Some(records.clone()) }],
        }],
        ..Default::default()
    };
    let frame = encode_request(&request, 12, 1, None).into_content();
    let within = frame.as_ptr_range();
    let Request { head, body: Body::Op(Op::Produce(op)), .. } = decode_request(frame).unwrap() else {
        panic!("an op")
    };
    assert!(!head.expects_reply());
    assert_eq!(op.topics[0].topic, TopicRef::Name("a".to_owned()));
    let shared = op.topics[0].partitions[0].records.clone().unwrap();
    assert_eq!(shared, records);
    assert!(within.contains(&shared.as_ptr()), "no copy was made");

    let Op::Produce(op) = self::op(&request, 13) else { panic!("an op") };
    assert_eq!(op.topics[0].topic, TopicRef::Id(TopicId::from_u128(5)));
}

#[test]
fn a_produce_refusal_shows_what_its_version_can_say() {
    let refusal = reply::ProduceRefusal {
        refusal: Refusal::new(ErrorCode::InvalidRecord, "no key"),
        record_errors: vec![(2, Some("here".to_owned()))],
        log_start_offset: 4,
    };
    let partition = reply::ProducePartition { index: 1, result: Err(refusal) };
    let topic = reply::ProduceTopic { topic: TopicRef::Name("a".to_owned()), partitions: vec![partition] };
    let reply = Reply::Produce(reply::Produce { topics: vec![topic], throttle: Duration::from_millis(250) });
    let request = produce::ProduceRequest { acks: 1, ..Default::default() };
    let new = exchange(&request, 12, reply.clone());
    let told = &new.responses[0].partition_responses[0];
    assert_eq!((told.error_code, told.base_offset, told.log_start_offset), (87, -1, 4));
    assert_eq!(told.error_message.as_deref(), Some("no key"));
    assert_eq!(told.record_errors[0].batch_index, 2);
    assert_eq!(new.throttle_time_ms, 250);
    let old = exchange(&request, 3, reply);
    assert_eq!(old.responses[0].partition_responses[0].error_code, 87);
}

fn fetched(error: Option<ErrorCode>) -> Reply {
    let partition = reply::FetchPartition {
        index: 0,
        error,
        high_watermark: 5,
        last_stable_offset: 5,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader_epoch: error.map(|_| 2),
        records: vec![Bytes::from(vec![1; 5_000]), Bytes::from(vec![2; 10])],
        origin: reply::Origin::default(),
    };
    let topic =
        reply::FetchTopic { topic: TopicRef::Name("a".to_owned()), id: None, partitions: vec![partition] };
    Reply::Fetch(reply::Fetch {
        error: None,
        session_id: 0,
        topics: vec![topic],
        throttle: Duration::from_secs(3),
    })
}

#[test]
fn fetched_batches_go_out_as_they_are() {
    let head = decoded(&fetch::FetchRequest::default(), 12).head;
    let reply = fetched(None);
    let Reply::Fetch(fetch) = &reply else { unreachable!() };
    let batch = fetch.topics[0].partitions[0].records[0].clone();
    let frame = encode_reply(&head, reply, &addresses());
    assert!(frame.chunks().iter().any(|chunk| chunk.as_ptr() == batch.as_ptr()), "no copy was made");
    let (_, response) = decode_response::<fetch::FetchRequest>(frame.into_content(), 12).unwrap();
    let records = response.responses[0].partitions[0].records.clone().unwrap();
    assert_eq!(records.len(), 5_010);
    assert_eq!(response.throttle_time_ms, 3_000);
}

#[test]
fn a_fetch_lists_aborted_transactions_as_kafka_does() {
    let aborted = |isolation_level, error| {
        let request = fetch::FetchRequest { isolation_level, ..Default::default() };
        exchange(&request, 11, fetched(error)).responses[0].partitions[0].aborted_transactions.clone()
    };
    assert_eq!(aborted(0, None), None);
    assert_eq!(aborted(1, None), Some(vec![]));
    assert_eq!(aborted(0, Some(ErrorCode::OffsetOutOfRange)), None);
    assert_eq!(aborted(0, Some(ErrorCode::UnknownTopicOrPartition)), Some(vec![]));
}

#[test]
fn old_consumers_are_not_told_of_a_failed_disk() {
    let code = |version, error| {
        exchange(&fetch::FetchRequest::default(), version, fetched(Some(error))).responses[0].partitions[0]
            .error_code
    };
    assert_eq!(code(5, ErrorCode::KafkaStorageError), ErrorCode::NotLeaderOrFollower.number());
    assert_eq!(code(6, ErrorCode::KafkaStorageError), ErrorCode::KafkaStorageError.number());
}
