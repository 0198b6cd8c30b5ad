use batch::{BatchBuilder, BatchHeader, Codec, HEADER_LEN, MAX_DECOMPRESSED, NewRecord, TimestampType};
use bytes::{Bytes, BytesMut};
use coordination::error_code::ErrorCode;
use coordination::ids::TopicId;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::Reply;
use rail::Answer;

use crate::world::{World, batch, batch_at, keyed, now_ms, packed, produce, produced, records, timed};

#[tokio::test]
async fn what_is_produced_comes_back_at_the_offset_that_was_answered() {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    let first = world.produce("orders", 0, batch(3)).await.unwrap();
    assert_eq!((first.base_offset, first.log_append_time_ms, first.log_start_offset), (0, -1, 0));
    assert_eq!(world.append("orders", 0, 2).await, 3);
    assert_eq!(world.append("orders", 1, 1).await, 0);
    assert_eq!(world.values("orders", 0, 0).await, ["v0", "v1", "v2", "v0", "v1"]);
    assert_eq!(world.values("orders", 0, 3).await, ["v0", "v1"]);
}

#[tokio::test]
async fn a_batch_is_stored_byte_for_byte_but_for_its_place() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    world.append("orders", 0, 7).await;
    for codec in Codec::ALL {
        let sent = packed(20, codec);
        let offset = world.produce("orders", 0, sent.clone()).await.unwrap().base_offset;
        let stored = Bytes::from(world.read("orders", 0, offset).await.records.concat());
        let header = BatchHeader::parse(&stored).unwrap();
        assert_eq!((header.base_offset, header.partition_leader_epoch), (offset, 0));
        assert_eq!(stored[16..], sent[16..], "{codec}");
    }
}

#[tokio::test]
async fn every_partition_of_a_request_has_its_own_answer() {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    let parts = vec![(1, batch(1)), (5, batch(1)), (-1, batch(1)), (0, Bytes::new())];
    let Reply::Produce(reply) = world.call(produce(1, "orders", parts)).reply().await.unwrap() else {
        panic!()
    };
    let answers: Vec<_> = reply.topics[0]
        .partitions
        .iter()
        .map(|part| (part.index, part.result.as_ref().err().map(|refusal| refusal.refusal.code)))
        .collect();
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(answers, [(1, None), (5, unknown), (-1, unknown), (0, Some(ErrorCode::InvalidRecord))]);
}

#[tokio::test]
async fn what_a_request_unpacks_to_is_bounded_over_all_its_batches() {
    let world = World::new().await;
    world.create("orders", 3, &[]).await;
    let zeros = vec![0; usize::try_from(MAX_DECOMPRESSED / 2).unwrap() + 1];
    let mut builder = BatchBuilder::new(0).codec(Codec::Zstd);
    builder.push(&NewRecord { timestamp: now_ms(), value: Some(&zeros), ..NewRecord::default() }).unwrap();
    let large = builder.finish().unwrap();
    let parts = vec![(0, large.clone()), (1, large.clone()), (2, batch(1))];
    let Reply::Produce(reply) = world.call(produce(1, "orders", parts)).reply().await.unwrap() else {
        panic!()
    };
    let codes =
        reply.topics[0].partitions.iter().map(|part| part.result.as_ref().err().map(|e| e.refusal.code));
    // What is told to come again comes in a request of its own, sooner or later.
    assert_eq!(codes.collect::<Vec<_>>(), [None, Some(ErrorCode::KafkaStorageError), None]);
    world.produce("orders", 1, large).await.unwrap();
}

#[tokio::test]
async fn an_unknown_topic_is_3_by_name_and_100_by_id() {
    let world = World::new().await;
    assert_eq!(world.refusal("nowhere", batch(1)).await, ErrorCode::UnknownTopicOrPartition);
    let topic = TopicRef::Id(TopicId::from_u128(7));
    let partitions = vec![op::ProducePartition { index: 0, records: Some(batch(1)) }];
    let topics = vec![op::ProduceTopic { topic, partitions }];
    let reply = world
        .call(Op::Produce(op::Produce { transactional_id: None, acks: 1, zstd: true, topics }))
        .reply()
        .await
        .unwrap();
    assert_eq!(produced(reply).unwrap_err().refusal.code, ErrorCode::UnknownTopicId);
}

#[tokio::test]
async fn zstd_is_refused_from_a_version_that_does_not_know_it() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let send = async |codec, zstd| {
        let Op::Produce(request) = produce(1, "orders", vec![(0, packed(2, codec))]) else { panic!() };
        let reply = world.call(Op::Produce(op::Produce { zstd, ..request })).reply().await.unwrap();
        produced(reply).map_err(|refused| (refused.refusal.code, refused.log_start_offset))
    };
    assert_eq!(send(Codec::Zstd, false).await, Err((ErrorCode::UnsupportedCompressionType, -1)));
    assert!(send(Codec::Gzip, false).await.is_ok());
    assert!(send(Codec::Zstd, true).await.is_ok());
}

#[tokio::test]
async fn acks_are_minus_one_to_one() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    for acks in [-1, 0, 1] {
        let reply = world.call(produce(acks, "orders", vec![(0, batch(1))])).reply().await.unwrap();
        assert!(produced(reply).is_ok(), "acks {acks}");
    }
    for acks in [-2, 2] {
        let reply = world.call(produce(acks, "orders", vec![(0, batch(1))])).reply().await.unwrap();
        assert_eq!(produced(reply).unwrap_err().refusal.code, ErrorCode::InvalidRequiredAcks);
    }
    let reply = world.call(produce(5, "nowhere", vec![(0, batch(1))])).reply().await.unwrap();
    assert_eq!(produced(reply).unwrap_err().refusal.code, ErrorCode::UnknownTopicOrPartition);
}

#[tokio::test]
async fn a_refusal_needs_no_waiting() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    assert!(matches!(world.send("orders", 0, Bytes::new()), Answer::Now(_)));
    assert!(matches!(world.send("orders", 0, batch(1)), Answer::Later(_)));
}

#[tokio::test]
async fn bytes_that_are_not_one_whole_batch_are_refused_as_kafka_does() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let good = batch(2);
    let with = |at: usize, byte: u8| {
        let mut bytes = BytesMut::from(&good[..]);
        bytes[at] = byte;
        bytes.freeze()
    };
    let cases = [
        ("nothing", Bytes::new(), ErrorCode::InvalidRecord),
        ("half a batch", good.slice(..40), ErrorCode::InvalidRecord),
        ("two batches", [&good[..], &good[..]].concat().into(), ErrorCode::InvalidRecord),
        ("magic 0", with(16, 0), ErrorCode::InvalidRecord),
        ("magic 1", with(16, 1), ErrorCode::InvalidRecord),
        ("magic 3", with(16, 3), ErrorCode::CorruptMessage),
        ("a wrong checksum", with(20, good[20] ^ 1), ErrorCode::CorruptMessage),
        ("a flipped bit", with(70, good[70] ^ 1), ErrorCode::CorruptMessage),
        ("a base offset", with(7, 1), ErrorCode::InvalidRecord),
    ];
    for (what, bytes, code) in cases {
        assert_eq!(world.refusal("orders", bytes).await, code, "{what}");
    }
    assert_eq!(world.read("orders", 0, 0).await.high_watermark, 0);

    let trailing: Bytes = [&good[..], &good[..30]].concat().into();
    assert!(world.produce("orders", 0, trailing).await.is_ok(), "an unfinished batch at the end is cut");
    assert_eq!(world.values("orders", 0, 0).await, ["v0", "v1"]);
}

/// A batch with other header fields and the checksum to go with them.
fn altered(change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let good = batch(2);
    let mut header = BatchHeader::parse(&good).unwrap();
    change(&mut header);
    let mut bytes = BytesMut::from(&header.to_bytes()[..]);
    bytes.extend_from_slice(&good[HEADER_LEN..]);
    let crc = batch::crc_of(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.freeze()
}

#[tokio::test]
async fn headers_that_contradict_the_records_are_refused() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let cases = [
        altered(|header| header.records_count = 3),
        altered(|header| header.records_count = 1),
        altered(|header| header.records_count = -1),
        altered(|header| header.last_offset_delta = 5),
        altered(|header| header.attributes.0 |= 0x20),
        altered(|header| (header.producer_id, header.base_sequence) = (5, -1)),
    ];
    for bytes in cases {
        assert_eq!(world.refusal("orders", bytes).await, ErrorCode::InvalidRecord);
    }
    assert_eq!(world.refusal("orders", altered(|header| header.attributes.0 |= 5)).await.number(), -1);
    assert_eq!(world.refusal("orders", altered(|header| header.attributes.0 |= 1)).await.number(), -1);
}

#[tokio::test]
async fn a_transactional_batch_fails_at_once() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let answer = world.send("orders", 0, altered(|header| header.attributes.0 |= 0x10));
    let Answer::Now(reply) = answer else { panic!("there is nothing to wait for") };
    // Clients give up on this one, and retry what sounds temporary.
    let refused = produced(reply).unwrap_err();
    assert_eq!(refused.refusal, ErrorCode::TransactionalIdAuthorizationFailed.into());

    let Op::Produce(mut op) = produce(-1, "orders", vec![(0, altered(|header| header.attributes.0 |= 0x10))])
    else {
        panic!()
    };
    op.transactional_id = Some("tx".to_owned());
    let refused = produced(world.call(Op::Produce(op)).reply().await.unwrap()).unwrap_err().refusal;
    assert_eq!(refused.code, ErrorCode::TransactionalIdAuthorizationFailed);
    assert!(refused.message.unwrap_or_default().contains("does not support transactions"));
}

#[tokio::test]
async fn a_client_too_old_for_zstd_cannot_send_it() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let Op::Produce(mut op) = produce(-1, "orders", vec![(0, packed(1, Codec::Zstd))]) else { panic!() };
    op.zstd = false;
    let refused = produced(world.call(Op::Produce(op)).reply().await.unwrap()).unwrap_err();
    assert_eq!(refused.refusal.code, ErrorCode::UnsupportedCompressionType);
}

#[tokio::test]
async fn a_batch_larger_than_max_message_bytes_is_refused() {
    let world = World::new().await;
    world.create("small", 1, &[("max.message.bytes", "200")]).await;
    assert!(world.produce("small", 0, batch(2)).await.is_ok());
    let refused = world.produce("small", 0, batch(30)).await.unwrap_err();
    assert_eq!((refused.refusal.code, refused.log_start_offset), (ErrorCode::MessageTooLarge, -1));
}

#[tokio::test]
async fn timestamps_out_of_bounds_are_named_one_by_one() {
    let world = World::new().await;
    let bounds = [("message.timestamp.before.max.ms", "10000"), ("message.timestamp.after.max.ms", "10000")];
    world.create("orders", 1, &bounds).await;
    let now = now_ms();
    let refused =
        world.produce("orders", 0, timed(&[now, now + 60_000, now, now - 60_000])).await.unwrap_err();
    assert_eq!(refused.refusal.code, ErrorCode::InvalidTimestamp);
    assert_eq!(refused.log_start_offset, 0);
    let indices: Vec<i32> = refused.record_errors.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [1, 3]);
    let sentence = refused.record_errors[0].1.as_deref().unwrap();
    assert!(sentence.starts_with(&format!("Timestamp {} of message with offset 1 is out", now + 60_000)));
    assert!(world.produce("orders", 0, timed(&[now, -1])).await.is_ok(), "no timestamp is not a wrong one");
}

#[tokio::test]
async fn with_log_append_time_the_brokers_time_counts() {
    let world = World::new().await;
    world.create("logged", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let before = now_ms();
    let appended = world.produce("logged", 0, batch_at(2, 5)).await.unwrap();
    assert!(appended.log_append_time_ms >= before);
    let stored = world.read("logged", 0, 0).await.records.concat();
    batch::verify_crc(&stored).unwrap();
    let header = BatchHeader::parse(&stored).unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.max_timestamp, appended.log_append_time_ms);
    let times: Vec<i64> = records(&[stored.into()]).iter().map(|record| record.timestamp).collect();
    assert_eq!(times, [appended.log_append_time_ms; 2]);
}

#[tokio::test]
async fn a_wrong_largest_timestamp_is_put_right() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let bytes = altered(|header| header.max_timestamp += 1_000);
    let real = BatchHeader::parse(&bytes).unwrap().max_timestamp - 1_000;
    world.produce("orders", 0, bytes).await.unwrap();
    let stored = world.read("orders", 0, 0).await.records.concat();
    batch::verify_crc(&stored).unwrap();
    assert_eq!(BatchHeader::parse(&stored).unwrap().max_timestamp, real);
}

#[tokio::test]
async fn a_compacted_topic_takes_no_record_without_a_key() {
    let world = World::new().await;
    world.create("state", 1, &[("cleanup.policy", "compact")]).await;
    let refused =
        world.produce("state", 0, keyed(&[(Some("a"), Some("1")), (None, Some("2"))])).await.unwrap_err();
    assert_eq!(refused.refusal.code, ErrorCode::InvalidRecord);
    let sentence = "Compacted topic cannot accept message without key in topic partition state-0";
    assert_eq!(refused.record_errors, [(1, Some(sentence.to_owned()))]);
    assert!(world.produce("state", 0, keyed(&[(Some("a"), None)])).await.is_ok());
}

#[tokio::test]
async fn a_topics_compression_type_decides_how_batches_are_stored() {
    let world = World::new().await;
    for (name, wanted) in [("uncompressed", Codec::None), ("gzip", Codec::Gzip), ("zstd", Codec::Zstd)] {
        world.create(name, 1, &[("compression.type", name)]).await;
        for sent in Codec::ALL {
            let offset = world.produce(name, 0, packed(5, sent)).await.unwrap().base_offset;
            let stored = Bytes::from(world.read(name, 0, offset).await.records.concat());
            batch::verify_crc(&stored).unwrap();
            assert_eq!(BatchHeader::parse(&stored).unwrap().codec(), Ok(wanted));
            let values = world.values(name, 0, offset).await;
            assert_eq!(values, ["v0", "v1", "v2", "v3", "v4"], "{sent} to {wanted}");
        }
    }
}

#[tokio::test]
async fn of_a_partition_named_twice_the_last_batch_counts() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let op = produce(-1, "orders", vec![(0, batch(1)), (0, batch(2))]);
    let Reply::Produce(reply) = world.call(op).reply().await.unwrap() else { panic!() };
    assert_eq!(reply.topics[0].partitions.len(), 1);
    assert_eq!(world.values("orders", 0, 0).await, ["v0", "v1"]);
}

#[tokio::test]
async fn requests_take_effect_in_the_order_of_the_calls() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    let answers: Vec<_> = (0..50).map(|_| world.send("orders", 0, batch(2))).collect();
    for (nth, answer) in answers.into_iter().enumerate() {
        let offset = produced(answer.reply().await.unwrap()).unwrap().base_offset;
        assert_eq!(offset, 2 * i64::try_from(nth).unwrap());
    }
}

#[tokio::test]
async fn a_dropped_answer_leaves_the_record_where_it_is() {
    let world = World::new().await;
    world.create("orders", 1, &[]).await;
    drop(world.send("orders", 0, batch(1)));
    assert_eq!(world.append("orders", 0, 1).await, 1);
    assert_eq!(world.values("orders", 0, 0).await, ["v0", "v0"]);
}
