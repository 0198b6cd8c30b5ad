//! Scripts about records: written, read and looked for.

use batch::{Codec, ProducerFields};
use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, ApiKey};

use crate::differences::RECOUNTED;
use crate::names::Names;
use crate::pair::{Pair, newest};
use crate::requests::*;

pub(crate) fn producing(pair: &mut Pair) {
    for version in 3..=13 {
        let good = records(3, Codec::None, None);
        pair.ask("records", version, |names| produce(names, "t", 0, Some(good.clone()), -1));
        pair.ask("records, acks 1", version, |names| produce(names, "t", 1, Some(good.clone()), 1));
        pair.ask("no such partition", version, |names| produce(names, "t", 9, Some(good.clone()), -1));
        pair.ask("a negative partition", version, |names| produce(names, "t", -1, Some(good.clone()), -1));
        pair.ask("no such topic", version, |names| produce(names, "nosuch", 0, Some(good.clone()), -1));
        pair.ask("acks 2", version, |names| produce(names, "t", 0, Some(good.clone()), 2));
        // Null records are left out: Kafka stumbles over them and never answers, whatever the version.
        pair.ask("no records", version, |names| produce(names, "t", 0, Some(Bytes::new()), -1));
    }
    let v = newest(ApiKey::Produce);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        for version in [3, 6, 7, 12] {
            pair.ask("each codec", version, |names| {
                produce(names, "t", 2, Some(records(5, codec, None)), -1)
            });
        }
        pair.ask("a topic with a codec of its own", v, |names| {
            produce(names, "zipped", 0, Some(records(2, codec, None)), -1)
        });
        pair.ask("a topic with the newest codec", v, |names| {
            produce(names, "squeezed", 0, Some(records(2, codec, None)), -1)
        });
    }
    let good = records(3, Codec::None, None);
    let mut spoilt = Vec::new();
    for (what, at, to) in [
        ("a wrong checksum", 20, 0xff),
        ("magic 1", 16, 1),
        ("magic 0", 16, 0),
        ("magic 3", 16, 3),
        ("a length that is too small", 11, 3),
        ("a length that is too large", 10, 0x7f),
        ("a negative length", 8, 0xff),
        ("another base offset", 7, 9),
    ] {
        let mut bytes = good.to_vec();
        bytes[at] = to;
        spoilt.push((what, Bytes::from(bytes)));
    }
    for (what, at, to) in [
        ("an unknown codec", 22, 7),
        ("a transactional batch", 22, 0x10),
        ("a control batch", 22, 0x20),
        ("the broker's time", 22, 0x08),
        ("a wrong last offset", 26, 9),
        ("a wrong count", 60, 9),
        ("no count", 60, 0),
        ("a negative count", 57, 0xff),
        ("a record that is too long", 61, 0x7e),
        ("a record that is too short", 61, 0x02),
    ] {
        spoilt.push((what, resealed(&good, at, to)));
    }
    spoilt.push(("two batches", [good.clone(), good.clone()].concat().into()));
    spoilt.push(("half a batch", good.slice(..good.len() / 2)));
    spoilt.push(("a batch and a half", [good.clone(), good.slice(..20)].concat().into()));
    spoilt.push(("garbage", Bytes::from_static(&[7; 100])));
    for (what, bytes) in spoilt {
        for version in [3, 7, 8, v] {
            pair.ask(what, version, |names| produce(names, "t", 1, Some(bytes.clone()), -1));
        }
    }
    // In a topic of its own: Kafka accepts these, gives them other offsets than they had, and is ahead then.
    pair.ask("a wrong offset in a record", v, |names| {
        produce(names, RECOUNTED, 0, Some(resealed(&good, 64, 0x08)), -1)
    });
    pair.ask("and out of the way", 6, |_| delete(6, &[RECOUNTED]));
    pair.ask("no keys in a compacted topic", v, |names| produce(names, "compacted", 0, Some(keyless(3)), -1));
    pair.ask("keys in a compacted topic", v, |names| {
        produce(names, "compacted", 0, Some(records(3, Codec::None, None)), -1)
    });
    pair.ask("the broker's time", v, |names| {
        produce(names, "stamped", 0, Some(records(2, Codec::None, None)), -1)
    });
    pair.ask("the broker's time, compressed", v, |names| {
        produce(names, "stamped", 0, Some(records(2, Codec::Lz4, None)), -1)
    });
    pair.ask("too large", v, |names| produce(names, "small", 0, Some(records(20, Codec::None, None)), -1));
    pair.ask("too old", v, |names| produce(names, "timely", 0, Some(records(2, Codec::None, None)), -1));
    for version in [3, 8, v] {
        pair.ask("several partitions, one of them wrong", version, |names| {
            let AnyRequest::Produce(mut request) = produce(names, "t", 0, Some(good.clone()), -1) else {
                unreachable!("it is one")
            };
            for index in [9, 1] {
                request.topic_data[0]
                    .partition_data
                    .push(produce::PartitionProduceData { index, records: Some(good.clone()) });
            }
            AnyRequest::Produce(request)
        });
    }
    pair.tell(v, |names| produce(names, "t", 0, Some(good.clone()), 0));
    pair.ask("after a produce without an answer", 7, |_| find_offsets("t", 0, -1));
}

pub(crate) fn idempotent_producers(pair: &mut Pair) {
    for version in 0..=5 {
        pair.ask("a producer id", version, |_| init_producer(None, -1, -1));
        pair.ask("an empty transactional id", version, |_| init_producer(Some(""), -1, -1));
    }
    pair.ask("an id of one's own", 5, |names| init_producer(None, names.producer_id(0), 0));
    pair.ask("an epoch without an id", 5, |_| init_producer(None, -1, 3));
    pair.ask("an id without an epoch", 5, |_| init_producer(None, 77, -1));
    let v = 9;
    let steps: &[(&str, usize, i16, i32, usize)] = &[
        ("the first batch", 0, 0, 0, 3),
        ("the next", 0, 0, 3, 2),
        ("the last again", 0, 0, 3, 2),
        ("the first again", 0, 0, 0, 3),
        ("a gap", 0, 0, 9, 1),
        ("an overlap", 0, 0, 4, 2),
        ("a lower sequence that was never there", 0, 0, 1, 1),
        ("going on", 0, 0, 5, 1),
        ("a newer epoch, not from 0", 0, 1, 6, 1),
        ("a newer epoch", 0, 1, 0, 1),
        ("the older epoch", 0, 0, 6, 1),
        ("an unknown producer that begins late", 1, 0, 40, 1),
        ("and goes on", 1, 0, 41, 1),
        ("another from 0", 2, 0, 0, 1),
        ("six small ones: 1", 2, 0, 1, 1),
        ("2", 2, 0, 2, 1),
        ("3", 2, 0, 3, 1),
        ("4", 2, 0, 4, 1),
        ("5", 2, 0, 5, 1),
        ("6", 2, 0, 6, 1),
        ("one of the last five again", 2, 0, 2, 1),
        ("one that is forgotten", 2, 0, 1, 1),
        ("the highest sequence", 3, 0, i32::MAX, 1),
        ("which wraps", 3, 0, 0, 1),
        ("over the edge in one batch", 4, 0, i32::MAX - 1, 4),
        ("and on", 4, 0, 2, 1),
        ("a negative sequence", 5, 0, -1, 1),
        ("a negative epoch", 5, -1, 0, 1),
    ];
    for &(what, producer, epoch, sequence, count) in steps {
        pair.ask(what, v, |names| {
            let fields = ProducerFields { id: names.producer_id(producer), epoch, base_sequence: sequence };
            produce(names, "idem", 0, Some(records(count, Codec::None, Some(fields))), -1)
        });
    }
    pair.ask("what is there now", 12, |names| fetch(names, 12, "idem", 0, 0, |_| {}));
}

pub(crate) fn fetching(pair: &mut Pair) {
    for version in 4..=18 {
        pair.ask("from the start", version, |names| fetch(names, version, "t", 0, 0, |_| {}));
        pair.ask("from the middle of a batch", version, |names| fetch(names, version, "t", 0, 4, |_| {}));
        pair.ask("at the end", version, |names| fetch(names, version, "timely", 0, 0, |_| {}));
        pair.ask("beyond the end", version, |names| fetch(names, version, "t", 0, 1_000_000, |_| {}));
        pair.ask("below the start", version, |names| fetch(names, version, "t", 0, -1, |_| {}));
        pair.ask("no such partition", version, |names| fetch(names, version, "t", 9, 0, |_| {}));
        pair.ask("no such topic", version, |names| fetch(names, version, "nosuch", 0, 0, |_| {}));
        pair.ask("an older leader epoch", version, |names| {
            fetch(names, version, "t", 0, 0, |p| p.current_leader_epoch = -2)
        });
        pair.ask("a newer leader epoch", version, |names| {
            fetch(names, version, "t", 0, 0, |p| p.current_leader_epoch = 5)
        });
        pair.ask("an epoch read last", version, |names| {
            fetch(names, version, "t", 0, 0, |p| p.last_fetched_epoch = 0)
        });
        pair.ask("a newer epoch read last", version, |names| {
            fetch(names, version, "t", 0, 0, |p| p.last_fetched_epoch = 3)
        });
        pair.ask("one byte is one batch", version, |names| {
            fetch(names, version, "t", 0, 0, |p| p.partition_max_bytes = 1)
        });
        pair.ask("every codec comes back", version, |names| fetch(names, version, "t", 2, 0, |_| {}));
        for topic in ["zipped", "stamped", "compacted", "squeezed"] {
            pair.ask("what the broker may change", version, |names| {
                fetch(names, version, topic, 0, 0, |_| {})
            });
        }
    }
}

pub(crate) fn fetch_sessions(pair: &mut Pair) {
    for version in [7, 12, 13, 18] {
        let ask =
            |names: &Names, session: i32, epoch: i32, partitions: &[i32], offset: i64, forgotten: &[i32]| {
                let AnyRequest::Fetch(mut request) = fetch(names, version, "t", 0, offset, |_| {}) else {
                    unreachable!("it is one")
                };
                request.session_id = session;
                request.session_epoch = epoch;
                let first = request.topics[0].partitions[0].clone();
                request.topics[0].partitions = partitions
                    .iter()
                    .map(|&partition| fetch::FetchPartition { partition, ..first.clone() })
                    .collect();
                if partitions.is_empty() {
                    request.topics.clear();
                }
                if !forgotten.is_empty() {
                    request.forgotten_topics_data.push(fetch::ForgottenTopic {
                        topic: "t".to_owned(),
                        topic_id: names.topic_id("t"),
                        partitions: forgotten.to_vec(),
                    });
                }
                AnyRequest::Fetch(request)
            };
        pair.ask("a new session", version, |names| ask(names, 0, 0, &[0, 1, 2], 0, &[]));
        pair.ask("the same again, incrementally", version, |names| {
            ask(names, names.session_id(), 1, &[], 0, &[])
        });
        pair.ask("moving on", version, |names| ask(names, names.session_id(), 2, &[0, 1, 2], 6, &[]));
        pair.ask("one forgotten", version, |names| ask(names, names.session_id(), 3, &[], 0, &[1]));
        pair.ask("the wrong epoch", version, |names| ask(names, names.session_id(), 9, &[], 0, &[]));
        pair.ask("an unknown session", version, |_| ask(&Names::default(), 12345, 1, &[], 0, &[]));
        pair.ask("an end", version, |names| ask(names, names.session_id(), -1, &[0], 0, &[]));
        pair.ask("after the end", version, |names| ask(names, names.session_id(), 4, &[], 0, &[]));
        pair.ask("a session id with a first epoch", version, |names| {
            ask(names, names.session_id(), 0, &[0], 0, &[])
        });
    }
    pair.ask("a session by name", 12, |names| {
        let AnyRequest::Fetch(mut request) = fetch(names, 12, "t", 0, 0, |_| {}) else {
            unreachable!("it is one")
        };
        request.session_epoch = 0;
        AnyRequest::Fetch(request)
    });
    pair.ask("then by id", 13, |names| {
        let AnyRequest::Fetch(mut request) = fetch(names, 13, "t", 1, 0, |_| {}) else {
            unreachable!("it is one")
        };
        (request.session_id, request.session_epoch) = (names.session_id(), 1);
        AnyRequest::Fetch(request)
    });
}

pub(crate) fn finding_offsets(pair: &mut Pair) {
    for version in 1..=11 {
        for timestamp in
            [-1, -2, -3, -4, -5, -6, -7, 0, TIME, TIME + 1, TIME + 2, TIME + 1_000_000_000, i64::MAX]
        {
            for topic in ["t", "timely", "zipped"] {
                pair.ask("an offset", version, |_| find_offsets(topic, 0, timestamp));
            }
        }
        pair.ask("no such partition", version, |_| find_offsets("t", 9, -1));
        pair.ask("no such topic", version, |_| find_offsets("nosuch", 0, -1));
        pair.ask("the same partition twice", version, |_| {
            let AnyRequest::ListOffsets(mut request) = find_offsets("t", 0, -1) else {
                unreachable!("it is one")
            };
            let first = request.topics[0].partitions[0].clone();
            request.topics[0].partitions.push(first);
            AnyRequest::ListOffsets(request)
        });
        for epoch in [-1, 0, 3] {
            pair.ask("with a leader epoch", version, |_| {
                let AnyRequest::ListOffsets(mut request) = find_offsets("t", 0, -1) else {
                    unreachable!("it is one")
                };
                request.topics[0].partitions[0].current_leader_epoch = epoch;
                AnyRequest::ListOffsets(request)
            });
        }
    }
    for version in 2..=4 {
        for (current, asked) in [(-1, 0), (0, 0), (3, 0), (-1, 5), (-1, -1), (-1, -5)] {
            for (topic, partition) in [("t", 0), ("t", 9), ("nosuch", 0), ("timely", 0)] {
                pair.ask("where an epoch ended", version, |_| {
                    AnyRequest::OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest {
                        replica_id: -1,
                        topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
                            topic: topic.to_owned(),
                            partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition {
                                partition,
                                current_leader_epoch: current,
                                leader_epoch: asked,
                            }],
                        }],
                    })
                });
            }
        }
    }
}

/// Every byte of a batch changed in a few ways, under a checksum that fits.
pub(crate) fn spoiling_each_byte(pair: &mut Pair) {
    let good = records(2, Codec::None, None);
    // The offsets of the records, see RECOUNTED, and the year that is furthest away.
    let left_out = [64, 91, 27];
    for at in (0..good.len()).filter(|at| !left_out.contains(at)) {
        for to in [0, 1, 2, 0x7f, 0x80, 0xff] {
            pair.ask(&format!("byte {at} made {to}"), 12, |names| {
                produce(names, "spoilt", 0, Some(resealed(&good, at, to)), -1)
            });
        }
    }
}
