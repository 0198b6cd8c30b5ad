//! Produce (0): appends record batches.

use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply;

use crate::api::{gathered, milliseconds, topic_named, topic_ref};
use crate::field::Uuid;
use crate::message::message;
use crate::request::Asked;

message! {
    /// Record batches to append.
    pub struct ProduceRequest {
        transactional_id: Option<String> [3+, null 3+],
        acks: i16 [0+],
        timeout_ms: i32 [0+],
        topic_data: Vec<TopicProduceData> [0+],
    }

    /// The batches for one topic: by name up to version 12, then by id.
    pub struct TopicProduceData {
        name: String [0-12],
        topic_id: Uuid [13+],
        partition_data: Vec<PartitionProduceData> [0+],
    }

    /// The batches for one partition.
    pub struct PartitionProduceData {
        index: i32 [0+],
        records: Option<Bytes> [0+, null 0+],
    }

    /// What became of each batch.
    pub struct ProduceResponse {
        responses: Vec<TopicProduceResponse> [0+],
        throttle_time_ms: i32 [1+],
        node_endpoints: Vec<NodeEndpoint> [10+, tag 0],
    }

    /// What became of one topic's batches.
    pub struct TopicProduceResponse {
        name: String [0-12],
        topic_id: Uuid [13+],
        partition_responses: Vec<PartitionProduceResponse> [0+],
    }

    /// What became of one partition's batches.
    pub struct PartitionProduceResponse {
        index: i32 [0+],
        error_code: i16 [0+],
        base_offset: i64 [0+],
        log_append_time_ms: i64 [2+] = -1,
        log_start_offset: i64 [5+] = -1,
        record_errors: Vec<BatchIndexAndErrorMessage> [8+],
        error_message: Option<String> [8+, null 8+],
        current_leader: LeaderIdAndEpoch [10+, tag 0],
    }

    /// A record that is to blame, by its place in the batch.
    pub struct BatchIndexAndErrorMessage {
        batch_index: i32 [8+],
        batch_index_error_message: Option<String> [8+, null 8+],
    }

    /// Who leads a partition now.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 [10+] = -1,
        leader_epoch: i32 [10+] = -1,
    }

    /// Where a node that is named in the answer can be reached.
    pub struct NodeEndpoint {
        node_id: i32 [10+],
        host: String [10+],
        port: i32 [10+],
        rack: Option<String> [10+, null 10+],
    }
}

impl ProduceRequest {
    pub(crate) fn into_op(self, version: i16, asked: &mut Asked) -> Op {
        asked.silence = self.acks == 0;
        let partition =
            |data: PartitionProduceData| op::ProducePartition { index: data.index, records: data.records };
        let topic = |data: TopicProduceData| op::ProduceTopic {
            topic: topic_ref(version >= 13, data.name, data.topic_id),
            partitions: data.partition_data.into_iter().map(partition).collect(),
        };
        Op::Produce(op::Produce {
            transactional_id: self.transactional_id,
            acks: self.acks,
            zstd: version >= 7,
            topics: self.topic_data.into_iter().map(topic).collect(),
        })
    }
}

pub(crate) fn response(reply: reply::Produce) -> ProduceResponse {
    let topic = |topic: reply::ProduceTopic| {
        let (name, topic_id) = topic_named(topic.topic);
        TopicProduceResponse {
            name,
            topic_id,
            partition_responses: topic.partitions.into_iter().map(partition_response).collect(),
        }
    };
    let topics = gathered(reply.topics, |topic| &topic.topic, |topic| &mut topic.partitions);
    ProduceResponse {
        responses: topics.into_iter().map(topic).collect(),
        throttle_time_ms: milliseconds(reply.throttle),
        ..ProduceResponse::default()
    }
}

fn partition_response(partition: reply::ProducePartition) -> PartitionProduceResponse {
    let index = partition.index;
    match partition.result {
        Ok(appended) => PartitionProduceResponse {
            index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            ..PartitionProduceResponse::default()
        },
        Err(refused) => PartitionProduceResponse {
            index,
            error_code: refused.refusal.code.number(),
            base_offset: -1,
            log_start_offset: refused.log_start_offset,
            record_errors: refused
                .record_errors
                .into_iter()
                .map(|(batch_index, batch_index_error_message)| BatchIndexAndErrorMessage {
                    batch_index,
                    batch_index_error_message,
                })
                .collect(),
            error_message: refused.refusal.message,
            ..PartitionProduceResponse::default()
        },
    }
}
