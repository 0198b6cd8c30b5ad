//! InitProducerId.

use std::sync::Arc;

use coordination::catalog::Decision;
use coordination::error_code::ErrorCode;
use coordination::op;
use coordination::reply::{self, Reply};
use rail::Answer;

use super::Admin;

impl Admin {
    /// Gives a producer an id that no other has had or will have.
    ///
    /// As in Kafka, an idempotent producer that comes with an id it has (KIP-360) gets a new one.
    pub fn init_producer_id(self: &Arc<Self>, op: &op::InitProducerId) -> Answer {
        if let Some(refusal) = refusal(op) {
            return answer(Err(refusal)).into();
        }
        if let Some(id) = self.producer_ids.lock().next() {
            return answer(Ok((id, FIRST_EPOCH))).into();
        }
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(
            async move { answer(admin.next_producer_id().await.map(|id| (id, FIRST_EPOCH))) },
        ))
    }

    async fn next_producer_id(self: &Arc<Self>) -> Result<i64, ErrorCode> {
        loop {
            if let Some(id) = self.producer_ids.lock().next() {
                return Ok(id);
            }
            let admin = Arc::clone(self);
            let block = self.change(move |catalog, _| {
                // Others that found none waited too; the first of them fetches for all.
                if admin.producer_ids.lock().is_empty() {
                    let Decision { records, reply } = catalog.handle_producer_ids();
                    Decision { records, reply: Some(reply) }
                } else {
                    Decision { records: Vec::new(), reply: None }
                }
            });
            // What Kafka answers while it has no ids: clients of all kinds try again.
            let block = block.await.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
            if let Some(block) = block {
                let mut ids = self.producer_ids.lock();
                if ids.is_empty() {
                    *ids = block;
                }
            }
        }
    }
}

/// Every id is new, so every epoch begins.
const FIRST_EPOCH: i16 = 0;

fn refusal(op: &op::InitProducerId) -> Option<ErrorCode> {
    match op.transactional_id.as_deref() {
        Some("") => Some(ErrorCode::InvalidRequest),
        // Transactions do not exist yet. Clients fail at once on this, and retry what sounds temporary.
        Some(_) => Some(ErrorCode::TransactionalIdAuthorizationFailed),
        None => ((op.producer_id == -1) != (op.producer_epoch == -1)).then_some(ErrorCode::InvalidRequest),
    }
}

fn answer(result: Result<(i64, i16), ErrorCode>) -> Reply {
    Reply::InitProducerId(reply::InitProducerId { result })
}
