//! What goes in comes out, however it is cut on the way.

use bytes::Bytes;
use coordination::op::{Op, Produce, ProducePartition, ProduceTopic, TopicRef};
use coordination::reply::Reply;
use proptest::prelude::*;
use rail::format::{
    self, FromBroker, FromGateway, Head, Inlet, KeptRecords, Order, Outbox, SentRecords, Version, op_codes,
    since,
};
use rail::{FRAME_MAX, TraceContext};

use crate::golden::{say_to_broker, say_to_gateway};
use crate::kept_records::fetched;
use crate::random::random_variant;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_op_comes_out_as_it_went_in(seed: u64, id in 0..1_u32 << 18, carrier in 0..1_u32 << 18, is_sampled: bool) {
        for variant in 0..op_codes().len() {
            let op: Op = random_variant(variant, seed);
            for &version in Version::ALL.iter().filter(|&&version| version >= since(&op)) {
                let trace = TraceContext { trace_id: u128::from(seed) << 9, span_id: seed, is_sampled };
                let trace = (seed % 3 > 0).then_some(trace);
                let said = FromGateway::Request(Head { id, carrier, trace }, op.clone());
                let message = say_to_broker(version, said.clone());
                prop_assert_eq!(format::decode_from_gateway(version, &message), Ok(said));
            }
        }
    }

    #[test]
    fn every_reply_comes_out_as_it_went_in(seed: u64, id in 0..1_u32 << 18) {
        for variant in 0..op_codes().len() {
            let said = FromBroker::Reply(id, random_variant(variant, seed));
            for &version in Version::ALL {
                let message = say_to_gateway(version, said.clone(), &mut SentRecords::default());
                let read = format::decode_from_broker(version, &message, &mut KeptRecords::default());
                prop_assert_eq!(read, Ok(said.clone()));
            }
        }
    }

    #[test]
    fn messages_come_out_however_the_stream_is_cut(
        sizes in prop::collection::vec(prop_oneof![0..200_usize, 1000..5000_usize, FRAME_MAX - 40..FRAME_MAX * 3], 1..6),
        cut in prop_oneof![1..50_usize, 1000..70_000_usize],
        is_free: bool,
    ) {
        let mut outbox = Outbox::new(if is_free { Order::Free } else { Order::Kept });
        for (id, &size) in (0..).zip(&sizes) {
            let mut op = produce(size);
            let head = Head { id, carrier: 0, trace: None };
            outbox.push(|out, records| format::request(head, &mut op, out, records)).expect("it fits");
        }
        let mut stream = Vec::new();
        while outbox.queued() > 0 {
            let mut chunks = Vec::new();
            outbox.take(&mut chunks);
            chunks.iter().for_each(|chunk| stream.extend_from_slice(chunk));
        }
        let mut inlet = Inlet::default();
        let mut found = Vec::new();
        // Cutting megabytes into single bytes takes longer than it teaches.
        for piece in stream.chunks(cut.max(stream.len() / 100_000)) {
            inlet.feed(Bytes::copy_from_slice(piece));
            while let Some(message) = inlet.next_message().expect("the format is kept") {
                let FromGateway::Request(head, op) = format::decode_from_gateway(Version::Four, &message).expect("an op")
                else { panic!("an op") };
                found.push((head.id, op));
            }
        }
        if is_free {
            found.sort_by_key(|(id, _)| *id);
        }
        let expected: Vec<_> = (0..).zip(sizes.iter().map(|&size| produce(size))).collect();
        prop_assert!(found == expected, "{} of {} messages", found.len(), expected.len());
    }
}

fn produce(size: usize) -> Op {
    let records = Some(Bytes::from(vec![u8::try_from(size % 251).expect("small"); size]));
    let partitions = vec![
        ProducePartition { index: 0, records: None },
        ProducePartition { index: 1, records },
        ProducePartition { index: 2, records: Some(Bytes::new()) },
    ];
    let topic = TopicRef::Name("orders".to_owned());
    Op::Produce(Produce {
        transactional_id: None,
        acks: -1,
        zstd: true,
        topics: vec![ProduceTopic { topic, partitions }],
    })
}

#[test]
fn records_are_neither_copied_on_the_way_out_nor_on_the_way_in() {
    let batch = Bytes::from(vec![7; 50_000]);
    let fetch = fetched(None, &[batch.clone(), batch.slice(..20_000)]);
    let mut outbox = Outbox::new(Order::Free);
    let mut said = fetch.clone();
    let mut sent = SentRecords::new(1 << 20);
    outbox
        .push(|out, records| format::reply(Version::Three, 1, &mut said, &mut sent, out, records))
        .expect("it fits");
    let mut chunks = Vec::new();
    outbox.take(&mut chunks);
    assert!(
        chunks.iter().any(|chunk| chunk.as_ptr() == batch.as_ptr()),
        "what is written is the batch itself"
    );

    let received = Bytes::from(chunks.concat());
    let range = received.as_ptr_range();
    let mut inlet = Inlet::default();
    inlet.feed(received);
    let message = inlet.next_message().expect("a message").expect("all of it");
    let mut kept = KeptRecords::new(1 << 20);
    let read = format::decode_from_broker(Version::Three, &message, &mut kept);
    let Ok(FromBroker::Reply(1, read)) = read else { panic!("a reply") };
    assert_eq!(read, fetch);
    let Reply::Fetch(read) = read else { panic!("a fetch") };
    for records in
        read.topics.iter().flat_map(|topic| &topic.partitions).flat_map(|partition| &partition.records)
    {
        assert!(range.contains(&records.as_ptr()), "a slice of what was received");
    }
}

#[test]
fn what_is_not_taken_yet_counts_as_queued() {
    for order in [Order::Free, Order::Kept] {
        let mut outbox = Outbox::new(order);
        let mut op = produce(30 * FRAME_MAX);
        let head = Head { id: 1, carrier: 0, trace: None };
        outbox.push(|out, records| format::request(head, &mut op, out, records)).expect("it fits");
        let mut left = outbox.queued();
        assert!(left >= 30 * FRAME_MAX, "{order:?}");
        while left > 0 {
            let mut chunks = Vec::new();
            outbox.take(&mut chunks);
            let taken: usize = chunks.iter().map(Bytes::len).sum();
            assert!((1..6 * FRAME_MAX).contains(&taken), "{taken} at once, {order:?}");
            assert!(outbox.queued() + taken >= left, "{order:?}");
            left = outbox.queued();
        }
    }
}

#[test]
fn a_small_reply_goes_between_the_frames_of_a_large_one_and_an_op_does_not() {
    for (order, first) in [(Order::Free, 2), (Order::Kept, 1)] {
        let mut outbox = Outbox::new(order);
        for (id, size) in [(1, FRAME_MAX * 3), (2, 10)] {
            let mut op = produce(size);
            let head = Head { id, carrier: 0, trace: None };
            outbox.push(|out, records| format::request(head, &mut op, out, records)).expect("it fits");
        }
        let mut inlet = Inlet::default();
        let mut found = Vec::new();
        while outbox.queued() > 0 {
            let mut chunks = Vec::new();
            outbox.take(&mut chunks);
            for chunk in chunks {
                inlet.feed(chunk);
                while let Some(message) = inlet.next_message().expect("the format is kept") {
                    found.push(message.len());
                }
            }
        }
        assert_eq!(found.len(), 2);
        assert_eq!(found[0] < FRAME_MAX, first == 2, "{order:?}");
    }
}
