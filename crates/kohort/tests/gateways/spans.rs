//! What a collector of spans is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use client::{Client, Options};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::process::Broker;

/// Keeps all spans that it is sent.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        address
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.spans.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    /// The only span of this name.
    fn one(&self, name: &str) -> Span {
        let mut named = self.named(name);
        let all: Vec<String> = self.spans.lock().unwrap().iter().map(|span| span.name.clone()).collect();
        assert_eq!(named.len(), 1, "{name} among {all:?}");
        named.remove(0)
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes =
            request.into_inner().resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        self.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    found.value.clone()?.value
}

/// Joins a group of one, and returns its generation and its leader.
async fn join(client: &mut Client, group: &str) -> (i32, String) {
    let find = FindCoordinatorRequest { coordinator_keys: vec![group.to_owned()], ..Default::default() };
    client.call(&find).await.unwrap();
    let mut join = JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    join.member_id = client.call(&join).await.unwrap().member_id;
    let joined = client.call(&join).await.unwrap();
    assert_eq!(joined.error_code, 0);
    let sync = SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: joined.protocol_type,
        protocol_name: joined.protocol_name,
        assignments: vec![SyncGroupRequestAssignment {
            member_id: joined.member_id,
            assignment: b"all of it".to_vec().into(),
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&sync).await.unwrap().error_code, 0);
    (joined.generation_id, joined.leader)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_is_told_of_a_join_on_both_sides_of_the_rail() {
    let collector = Collector::default();
    let endpoint = format!("kohort.otlp.endpoint=http://{}", collector.start().await);
    let dir = tempfile::tempdir().unwrap();
    let args = ["--set", endpoint.as_str()];
    let quick = ["--set", "group.initial.rebalance.delay.ms=0"];
    let broker = Broker::start(&dir.path().join("data"), &[args, quick].concat());
    let (gateway, bootstrap) = broker.linked_gateway(&dir.path().join("key"), &args);
    let mut client = Client::connect(&[bootstrap], Options::default()).await.unwrap();
    let (generation, leader) = join(&mut client, "billing").await;
    drop(client);
    // The last spans are sent at the end.
    assert!(gateway.end().0.success());
    assert!(broker.process.end().0.success());

    collector.one("kohort.gateway.kafka.find-coordinator");
    let at_gateway = collector.named("kohort.gateway.group.join");
    let at_broker = collector.named("kohort.broker.group.join");
    assert_eq!((at_gateway.len(), at_broker.len()), (2, 2));
    for span in &at_broker {
        let above = at_gateway.iter().find(|above| above.span_id == span.parent_span_id).unwrap();
        assert_eq!(above.trace_id, span.trace_id);
        assert!(above.parent_span_id.is_empty());
    }
    let completed = collector.one("kohort.broker.coordinator.rebalance-complete");
    assert_eq!(attribute(&completed, "generation_id"), Some(Value::IntValue(generation.into())));
    assert_eq!(attribute(&completed, "leader_id"), Some(Value::StringValue(leader)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_costs_spans_and_nothing_else() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = format!("kohort.otlp.endpoint=http://{free}");
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(&dir.path().join("data"), &["--set", endpoint.as_str()]);
    let (gateway, bootstrap) = broker.linked_gateway(&dir.path().join("key"), &[]);
    let mut client = Client::connect(&[bootstrap], Options::default()).await.unwrap();
    client.metadata(None).await.unwrap();
    drop(client);
    assert!(gateway.end().0.success());
    let (status, said) = broker.process.end();
    assert!(status.success() && said.contains("spans are not taken"), "{said}");
}
