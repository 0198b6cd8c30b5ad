//! The calls as tonic knows them, each in a span of its own.

use assigner_client::proto;
use assigner_client::proto::kafka_assigner_admin_server::KafkaAssignerAdmin;
use assigner_client::proto::kafka_assigner_server::KafkaAssigner;
use tonic::{Request, Response, Status};
use tracing::{Instrument as _, Span, debug_span, field, info_span};

use super::Service;
use super::message::shown;
use super::stream::CommandStream;

#[tonic::async_trait]
impl KafkaAssigner for Service {
    type RegisterStream = CommandStream;

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<CommandStream>, Status> {
        let peer = request.remote_addr();
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.register",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
            topic = shown(&request.topic),
            protocol_version = request.protocol_version,
            peer = peer.map(field::display),
        );
        Box::pin(logged(self.admit(&request)).instrument(span)).await
    }

    async fn partition_ready(
        &self,
        request: Request<proto::PartitionReadyRequest>,
    ) -> Result<Response<proto::PartitionReadyResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.ready",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
            topic = field::Empty,
            partition = field::Empty,
            handoff = shown(&request.handoff_id),
        );
        note_partition(&span, request.partition.as_ref());
        logged(self.make_ready(&request)).instrument(span).await
    }

    async fn partition_released(
        &self,
        request: Request<proto::PartitionReleasedRequest>,
    ) -> Result<Response<proto::PartitionReleasedResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.released",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
            topic = field::Empty,
            partition = field::Empty,
            handoff = shown(&request.handoff_id),
        );
        note_partition(&span, request.partition.as_ref());
        logged(self.let_go(&request)).instrument(span).await
    }

    async fn deregister(
        &self,
        request: Request<proto::DeregisterRequest>,
    ) -> Result<Response<proto::DeregisterResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.deregister",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
        );
        logged(self.take_leave(&request)).instrument(span).await
    }

    async fn keep_alive(
        &self,
        request: Request<proto::KeepAliveRequest>,
    ) -> Result<Response<proto::KeepAliveResponse>, Status> {
        let request = request.into_inner();
        let span = debug_span!(
            "kohort.assigner.keep_alive",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
        );
        logged(self.renew(&request)).instrument(span).await
    }

    async fn warm_progress(
        &self,
        request: Request<proto::WarmProgressRequest>,
    ) -> Result<Response<proto::WarmProgressResponse>, Status> {
        let request = request.into_inner();
        let span = debug_span!(
            "kohort.assigner.progress",
            group = shown(&request.group),
            consumer = shown(&request.consumer_name),
            topic = field::Empty,
            partition = field::Empty,
            handoff = shown(&request.handoff_id),
            done = request.done,
            total = request.total,
        );
        note_partition(&span, request.partition.as_ref());
        logged(self.note_progress(&request)).instrument(span).await
    }
}

#[tonic::async_trait]
impl KafkaAssignerAdmin for Service {
    async fn status(
        &self,
        request: Request<proto::StatusRequest>,
    ) -> Result<Response<proto::StatusResponse>, Status> {
        self.describe(&request.into_inner()).map(Response::new)
    }

    async fn list_handoffs(
        &self,
        request: Request<proto::ListHandoffsRequest>,
    ) -> Result<Response<proto::ListHandoffsResponse>, Status> {
        self.handoffs(&request.into_inner()).map(Response::new)
    }

    async fn cancel_handoff(
        &self,
        request: Request<proto::CancelHandoffRequest>,
    ) -> Result<Response<proto::CancelHandoffResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.cancel",
            group = shown(&request.group),
            topic = field::Empty,
            partition = field::Empty,
            handoff = shown(&request.handoff_id),
        );
        note_partition(&span, request.partition.as_ref());
        logged(self.give_up(&request)).instrument(span).await
    }

    async fn plan(
        &self,
        request: Request<proto::PlanRequest>,
    ) -> Result<Response<proto::PlanResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!("kohort.assigner.foresee", group = shown(&request.group));
        logged(self.foresee(&request)).instrument(span).await
    }

    async fn set_topic(
        &self,
        request: Request<proto::SetTopicRequest>,
    ) -> Result<Response<proto::SetTopicResponse>, Status> {
        let request = request.into_inner();
        let span = info_span!(
            "kohort.assigner.set_topic",
            group = shown(&request.group),
            topic = shown(&request.topic)
        );
        logged(self.weigh(&request)).instrument(span).await
    }
}

/// A refusal is an answer; it is for the caller to make something of it.
async fn logged<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<Response<T>, Status> {
    let answer = answer.await;
    if let Err(status) = &answer {
        tracing::debug!(code = ?status.code(), "refused: {}", status.message());
    }
    answer.map(Response::new)
}

fn note_partition(span: &Span, place: Option<&proto::TopicPartition>) {
    if let Some(place) = place {
        span.record("topic", shown(&place.topic));
        span.record("partition", place.partition);
    }
}
