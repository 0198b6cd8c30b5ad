//! What consumers say about handoffs.

use assigner_client::proto;
use coordination::handoff::{Ack, Progress, Refusal, Step, progress, ready, released};
use tonic::Status;

use crate::clock::now_ms;
use crate::groups::{Group, GroupId};

use super::limits::PROGRESS_INTERVAL_MS;
use super::message;
use super::{Service, refusal};

/// The handoff that an acknowledgement was about.
struct Named {
    handoff_id: String,
    epoch: u64,
}

impl Service {
    /// The target is warm.
    pub(super) async fn make_ready(
        &self,
        request: &proto::PartitionReadyRequest,
    ) -> Result<proto::PartitionReadyResponse, Status> {
        let group = message::group(&request.group)?;
        let ack = message::ack(&request.into())?;
        let decide = |known: &Group| ready(&known.state, now_ms(), &ack);
        let Named { handoff_id, epoch } = self.acknowledge(&group, &ack, decide).await?;
        tracing::debug!(handoff = handoff_id, "ready");
        Ok(proto::PartitionReadyResponse { handoff_id, epoch })
    }

    /// The owner has let go.
    pub(super) async fn let_go(
        &self,
        request: &proto::PartitionReleasedRequest,
    ) -> Result<proto::PartitionReleasedResponse, Status> {
        let group = message::group(&request.group)?;
        let ack = message::ack(&request.into())?;
        let decide = |known: &Group| released(&known.state, &ack);
        let Named { handoff_id, epoch } = self.acknowledge(&group, &ack, decide).await?;
        tracing::debug!(handoff = handoff_id, "released");
        Ok(proto::PartitionReleasedResponse { handoff_id, epoch })
    }

    /// The target warms up, and says how far it is.
    pub(super) async fn note_progress(
        &self,
        request: &proto::WarmProgressRequest,
    ) -> Result<proto::WarmProgressResponse, Status> {
        let group = message::group(&request.group)?;
        let ack = message::ack(&request.into())?;
        let decide = |known: &Group| {
            let now = Progress { done: request.done, total: request.total, at_ms: now_ms() };
            let step = progress(&known.state, &ack, now)?;
            // Some report every record. Writing that down would change nothing but the load on etcd.
            let handoff = known.state.handoffs.get(&ack.partition);
            let written = handoff.and_then(|stored| stored.value.progress);
            let is_recent =
                written.is_some_and(|written| now.at_ms.saturating_sub(written.at_ms) < PROGRESS_INTERVAL_MS);
            Ok(step.filter(|_| !is_recent))
        };
        self.acknowledge(&group, &ack, decide).await?;
        Ok(proto::WarmProgressResponse {})
    }

    async fn acknowledge(
        &self,
        group: &GroupId,
        ack: &Ack,
        decide: impl Fn(&Group) -> Result<Option<Step>, Refusal>,
    ) -> Result<Named, Status> {
        let decide = |known: &Group| Ok((decide(known)?, named(known, ack)));
        let settled = self.instance.groups.settle(group, None, decide).await;
        settled.map_err(|error| refusal::unsettled(&error))
    }
}

/// The handoff that is under way, or else the one that the caller names, which is over.
fn named(known: &Group, ack: &Ack) -> Named {
    let current = known.state.handoffs.get(&ack.partition).map(|stored| &stored.value);
    let id = current.map(|handoff| handoff.id).or(ack.handoff);
    let epoch = current.map(|handoff| handoff.epoch).or(ack.epoch);
    Named {
        handoff_id: id.map(|id| id.to_string()).unwrap_or_default(),
        epoch: epoch.map_or(0, |epoch| epoch.0),
    }
}
