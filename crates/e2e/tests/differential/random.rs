//! Requests that nobody chose, from small pools so that they meet.

use std::collections::BTreeMap;

use batch::{Codec, ProducerFields};
use wire::api::*;
use wire::{AnyRequest, ApiKey};

use crate::pair::Pair;
use crate::requests;

/// A reproducible source of choices (xorshift).
pub(crate) struct Dice {
    state: u64,
    /// What each producer would send next to a partition if all that it sent was accepted.
    sequences: BTreeMap<(&'static str, i32, usize, i16), i32>,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, sequences: BTreeMap::new() }
    }

    fn roll(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % bound as u64).expect("below a usize")
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next sequence of a producer as a rule, else an earlier or a later one.
    fn sequence(&mut self, of: (&'static str, i32, usize, i16), count: usize) -> i32 {
        let next = self.sequences.get(&of).copied().unwrap_or(0);
        if self.below(4) == 0 {
            return self.pick(&[0, 1, 2, next - 1, next + 1]);
        }
        self.sequences.insert(of, next + i32::try_from(count).expect("few records"));
        next
    }

    /// The name of a topic's setting and a value, which may not fit.
    fn setting(&mut self) -> (&'static str, &'static str) {
        (self.pick(&requests::SETTINGS), self.pick(&requests::VALUES))
    }

    pub(crate) fn version(&mut self, api: ApiKey) -> i16 {
        let versions: Vec<i16> = api.versions().collect();
        self.pick(&versions)
    }
}

/// The topics; with four names, requests find them made, unmade, full and empty.
const TOPICS: [&str; 4] = ["a", "b", "c.d", "c_d"];

pub(crate) fn step(pair: &mut Pair, dice: &mut Dice) {
    let topic = dice.pick(&TOPICS);
    let partition = dice.pick(&[0, 0, 0, 1, 1, 2, 7, -1]);
    match dice.below(32) {
        0 => {
            let version = dice.version(ApiKey::CreateTopics);
            let count = dice.pick(&[1, 2, 3, -1, 0]);
            let validate = dice.below(4) == 0;
            pair.ask("random create", version, |_| {
                requests::create(&[requests::topic(topic, count, 1)], validate)
            });
        }
        1 if dice.below(3) == 0 => {
            let version = dice.version(ApiKey::DeleteTopics);
            pair.ask("random delete", version, |_| requests::delete(version, &[topic]));
        }
        2 => {
            let version = dice.version(ApiKey::CreatePartitions);
            let count = dice.pick(&[1, 2, 3, 4]);
            pair.ask("random partitions", version, |_| requests::more_partitions(topic, count, None, false));
        }
        3 => {
            // Older versions make the topic, which is told apart from not knowing it only by chance.
            let version = dice.version(ApiKey::Metadata).max(4);
            pair.ask("random metadata", version, |_| {
                requests::metadata(&[(wire::Uuid(0), Some(topic))], false)
            });
        }
        4 => {
            let version = dice.version(ApiKey::DescribeConfigs);
            pair.ask("random settings", version, |_| requests::describe(2, topic, None, true, false));
        }
        5 => {
            let version = dice.version(ApiKey::IncrementalAlterConfigs);
            let change = dice.pick(&[
                ("retention.ms", 0, Some("900000000000")),
                ("retention.ms", 1, None),
                ("max.message.bytes", 0, Some("300")),
                ("max.message.bytes", 1, None),
                ("cleanup.policy", 2, Some("compact")),
                ("cleanup.policy", 1, None),
                ("compression.type", 0, Some("snappy")),
                ("compression.type", 1, None),
            ]);
            pair.ask("random change", version, |_| requests::alter(2, topic, &[change], false));
        }
        6 => {
            let version = dice.version(ApiKey::DeleteRecords);
            let offset = dice.pick(&[0, 1, 3, 10, 50, -1, -2]);
            pair.ask("random forgetting", version, |_| requests::forget(topic, partition, offset));
        }
        7 => {
            let version = dice.version(ApiKey::InitProducerId);
            pair.ask("random producer", version, |_| requests::init_producer(None, -1, -1));
        }
        8..=10 => {
            let version = dice.version(ApiKey::ListOffsets);
            let timestamp =
                dice.pick(&[-1, -2, -3, -4, 0, requests::TIME, requests::TIME + 2, requests::TIME + 99]);
            pair.ask("random offset", version, |_| requests::find_offsets(topic, partition, timestamp));
        }
        11..=16 => {
            let version = dice.version(ApiKey::Fetch);
            let offset = dice.pick(&[0, 0, 1, 2, 5, 10, 20, 1000]);
            let max_bytes = dice.pick(&[1, 200, 1 << 20]);
            pair.ask("random fetch", version, |names| {
                requests::fetch(names, version, topic, partition, offset, |p| {
                    p.partition_max_bytes = max_bytes;
                })
            });
        }
        17 => {
            let version = dice.version(ApiKey::Metadata).max(12);
            pair.ask("random metadata by id", version, |names| {
                requests::metadata(&[(names.topic_id(topic), None)], false)
            });
        }
        18 => {
            let (limit, cursor) =
                (dice.pick(&[0, 1, 2, 5, 2000]), dice.pick(&[None, Some(0), Some(1), Some(9)]));
            let asked: &[&str] = dice.pick(&[&TOPICS[..2], &TOPICS[1..], &TOPICS]);
            pair.ask("a random page", 0, |_| {
                requests::page(asked, limit, cursor.map(|partition| (topic, partition)))
            });
        }
        19 => {
            let version = dice.version(ApiKey::OffsetForLeaderEpoch);
            let (current_leader_epoch, leader_epoch) =
                (dice.pick(&[-1, -1, 0, 1]), dice.pick(&[-1, 0, 0, 1]));
            pair.ask("a random epoch", version, |_| {
                AnyRequest::OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest {
                    replica_id: -1,
                    topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
                        topic: topic.to_owned(),
                        partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition {
                            partition,
                            current_leader_epoch,
                            leader_epoch,
                        }],
                    }],
                })
            });
        }
        20 => {
            let version = dice.version(ApiKey::CreateTopics);
            let (name, value) = dice.setting();
            pair.ask("random settings of a new topic", version, |_| {
                let mut new = requests::topic("new", 1, 1);
                new.configs.push(requests::config(name, value));
                requests::create(&[new], true)
            });
        }
        21 => {
            let version = dice.version(ApiKey::IncrementalAlterConfigs);
            let (name, value) = dice.setting();
            let operation = dice.pick(&[0, 0, 0, 1, 2, 3, 4]);
            pair.ask("a random change that is not made", version, |_| {
                requests::alter(2, topic, &[(name, operation, Some(value))], true)
            });
        }
        22..=24 => {
            let version = dice.version(ApiKey::Fetch);
            let (epoch, right_id) = (dice.pick(&[0, 1, 2, 3, -1]), dice.below(5) > 0);
            let wanted: Vec<(&str, i32, i64)> = (0..dice.below(4))
                .map(|_| (dice.pick(&TOPICS), dice.pick(&[0, 1, 2]), dice.pick(&[0, 1, 5, 20])))
                .collect();
            pair.ask("a random session", version, |names| {
                let session_id = if epoch != 0 && right_id { names.session_id() } else { 0 };
                requests::fetch_in_session(names, session_id, epoch, &wanted)
            });
        }
        _ => {
            let version = dice.version(ApiKey::Produce);
            let codec =
                dice.pick(&[Codec::None, Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]);
            let count = dice.pick(&[1, 2, 3, 10]);
            let acks = dice.pick(&[-1, -1, 1, 3]);
            let producer = dice.below(6);
            let epoch = dice.pick(&[0, 0, 0, 1]);
            let base_sequence = dice.sequence((topic, partition, producer, epoch), count);
            pair.ask("random produce", version, |names| {
                let fields = ProducerFields { id: names.producer_id(producer), epoch, base_sequence };
                let fields = (fields.id >= 0 && producer < 3).then_some(fields);
                requests::produce(
                    names,
                    topic,
                    partition,
                    Some(requests::records(count, codec, fields)),
                    acks,
                )
            });
        }
    }
}
