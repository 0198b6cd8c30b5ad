//! InitProducerId (22): an id for an idempotent producer.

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// A producer that introduces itself.
    pub struct InitProducerIdRequest {
        transactional_id: Option<String> [0+, null 0+],
        transaction_timeout_ms: i32 [0+],
        producer_id: i64 [3+] = -1,
        producer_epoch: i16 [3+] = -1,
    }

    /// An id for the producer.
    pub struct InitProducerIdResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        producer_id: i64 [0+] = -1,
        producer_epoch: i16 [0+],
    }
}

impl InitProducerIdRequest {
    pub(crate) fn into_op(self) -> Op {
        Op::InitProducerId(op::InitProducerId {
            transactional_id: self.transactional_id,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
        })
    }
}

pub(crate) fn response(reply: &reply::InitProducerId) -> InitProducerIdResponse {
    let (producer_id, producer_epoch) = reply.result.unwrap_or((-1, -1));
    InitProducerIdResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::number_of(reply.result.err()),
        producer_id,
        producer_epoch,
    }
}
