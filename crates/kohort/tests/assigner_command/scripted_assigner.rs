//! An assigner that answers operators' questions from memory.

use std::net::SocketAddr;
use std::sync::mpsc;

use assigner_client::proto::kafka_assigner_admin_server::{KafkaAssignerAdmin, KafkaAssignerAdminServer};
use assigner_client::proto::{
    CancelHandoffRequest, CancelHandoffResponse, ConsumerStatus, GroupStatus, HandoffStatus,
    ListHandoffsRequest, ListHandoffsResponse, PlanRequest, PlanResponse, PlannedPartition, SetTopicRequest,
    SetTopicResponse, StatusRequest, StatusResponse, TopicPartition, TopicStatus,
};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// What the scripted assigner asks for, if it asks for a token.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// What it knows.
#[derive(Clone, Default)]
pub(crate) struct Assigner {
    pub(crate) handoffs: Vec<HandoffStatus>,
    pub(crate) needs_token: bool,
}

/// A handoff of `lines`, as it was listed.
pub(crate) fn handoff(group: &str, partition: u32) -> HandoffStatus {
    HandoffStatus {
        group: group.to_owned(),
        partition: Some(TopicPartition { topic: "lines".to_owned(), partition }),
        handoff_id: format!("id-{partition}"),
        epoch: 3,
        from: "a".to_owned(),
        to: "b".to_owned(),
        mode: "exclusive".to_owned(),
        phase: "ready".to_owned(),
        phase_age_ms: 1500,
        deadline_in_ms: 298_500,
        waits_for: "a".to_owned(),
        done: 10,
        total: 20,
    }
}

impl Assigner {
    /// Answers on a port of its own for as long as the test runs.
    pub(crate) fn start(self) -> String {
        let (sender, address) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let incoming = tonic::transport::server::TcpIncoming::from(listener);
                let server =
                    tonic::transport::Server::builder().add_service(KafkaAssignerAdminServer::new(self));
                server.serve_with_incoming(incoming).await.unwrap();
            });
        });
        format!("http://{}", address.recv().unwrap())
    }

    fn admit<T>(&self, request: Request<T>) -> Result<T, Status> {
        let given = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if self.needs_token && given != Some(&format!("Bearer {TOKEN}")) {
            return Err(Status::unauthenticated("a token is needed"));
        }
        Ok(request.into_inner())
    }
}

/// An address at which nobody listens, for as long as the socket is kept.
pub(crate) fn unheard() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, format!("http://{address}"))
}

#[tonic::async_trait]
impl KafkaAssignerAdmin for Assigner {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let wanted = self.admit(request)?.group;
        let consumer = ConsumerStatus {
            name: "a".to_owned(),
            state: "ready".to_owned(),
            partitions: 2,
            capacity: 1,
            registered_ms: 1_700_000_000_000,
            topics: vec!["lines".to_owned()],
            ..ConsumerStatus::default()
        };
        let topic = TopicStatus {
            topic: "lines".to_owned(),
            partitions: 2,
            assigned: 2,
            weight: 1,
            partition_weights: [(1, 3)].into(),
        };
        let known = GroupStatus {
            group: "counters".to_owned(),
            consumers: vec![consumer],
            topics: vec![topic],
            handoffs: 0,
        };
        let group = match wanted.as_str() {
            "" | "counters" => known,
            _ => GroupStatus { group: wanted, ..GroupStatus::default() },
        };
        Ok(Response::new(StatusResponse {
            instance: "one".to_owned(),
            version: "0.1.0".to_owned(),
            leader: "one".to_owned(),
            revision: 7,
            groups: vec![group],
            ..StatusResponse::default()
        }))
    }

    async fn list_handoffs(
        &self,
        request: Request<ListHandoffsRequest>,
    ) -> Result<Response<ListHandoffsResponse>, Status> {
        let ListHandoffsRequest { group, all_groups } = self.admit(request)?;
        let mut handoffs = self.handoffs.clone();
        handoffs.retain(|handoff| all_groups || handoff.group == group);
        Ok(Response::new(ListHandoffsResponse { handoffs }))
    }

    async fn cancel_handoff(
        &self,
        request: Request<CancelHandoffRequest>,
    ) -> Result<Response<CancelHandoffResponse>, Status> {
        let CancelHandoffRequest { partition, group, handoff_id } = self.admit(request)?;
        let mut handoffs = self.handoffs.iter();
        let Some(found) = handoffs.find(|known| known.partition == partition && known.group == group) else {
            return Err(Status::not_found("there is no handoff"));
        };
        if !handoff_id.is_empty() && handoff_id != found.handoff_id {
            return Err(Status::failed_precondition("the handoff is another"));
        }
        Ok(Response::new(CancelHandoffResponse { handoff_id: found.handoff_id.clone() }))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let PlanRequest { without, with, .. } = self.admit(request)?;
        if without.iter().any(|name| name != "a") {
            return Err(Status::not_found("without: consumer stranger is not registered in this group"));
        }
        let planned = |partition, action: &str, reason: &str, is_change| PlannedPartition {
            partition: Some(TopicPartition { topic: "lines".to_owned(), partition }),
            owner: "a".to_owned(),
            desired: with.first().map_or("a", String::as_str).to_owned(),
            action: action.to_owned(),
            reason: reason.to_owned(),
            is_change,
        };
        let partitions = vec![
            planned(0, "stays", "the load is balanced", false),
            planned(1, "is assigned to b", "its owner is gone", !without.is_empty()),
        ];
        Ok(Response::new(PlanResponse { partitions, revision: 7 }))
    }

    async fn set_topic(
        &self,
        request: Request<SetTopicRequest>,
    ) -> Result<Response<SetTopicResponse>, Status> {
        let SetTopicRequest { topic, weight, partition_weights, .. } = self.admit(request)?;
        if topic != "lines" {
            return Err(Status::not_found(format!("the group does not work on topic {topic}")));
        }
        assert_eq!((weight, partition_weights.get(&1)), (5, Some(&7)));
        Ok(Response::new(SetTopicResponse {}))
    }
}
