//! An assigner that says what a test wants and remembers what it was told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assigner_client::proto;
use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::kafka_assigner_server::{KafkaAssigner, KafkaAssignerServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// How long anything may take; reached only when it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What a consumer has said, in the order in which it did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Register(proto::RegisterRequest),
    Ready(proto::PartitionReadyRequest),
    Released(proto::PartitionReleasedRequest),
    Progress(proto::WarmProgressRequest),
    Deregister(proto::DeregisterRequest),
}

/// How the scripted assigner answers.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) lease_ttl: Duration,
    pub(crate) keep_alive_interval: Duration,
    /// The answer to KeepAlive; nothing means that there is none.
    pub(crate) keep_alive: Option<Result<(), Status>>,
    /// What is answered to the next acknowledgements before they are accepted.
    pub(crate) refusals: Vec<Status>,
    pub(crate) drains: bool,
    pub(crate) keep_alives: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            lease_ttl: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(5),
            keep_alive: Some(Ok(())),
            refusals: Vec::new(),
            drains: false,
            keep_alives: 0,
        }
    }
}

/// The assigner's end of one stream.
pub(crate) struct Stream {
    pub(crate) request: proto::RegisterRequest,
    commands: mpsc::Sender<Result<proto::AssignmentCommand, Status>>,
    script: Arc<Mutex<Script>>,
}

impl Stream {
    async fn send(&self, command: Command) {
        let command = proto::AssignmentCommand { command: Some(command) };
        let sent = timeout(PATIENCE, self.commands.send(Ok(command))).await;
        let _ = sent.expect("the consumer reads");
    }

    pub(crate) async fn snapshot(&self, owned: &[(u32, u64)]) {
        let (lease_ttl, interval) = {
            let script = self.script.lock().expect("nobody panics with it");
            (script.lease_ttl, script.keep_alive_interval)
        };
        self.send(Command::Assignment(proto::Assignment {
            assigned: owned.iter().map(|(number, _)| place(*number)).collect(),
            epochs: owned.iter().map(|(_, epoch)| *epoch).collect(),
            is_snapshot: true,
            lease_ttl_ms: u64::try_from(lease_ttl.as_millis()).expect("it is short"),
            keep_alive_interval_ms: u64::try_from(interval.as_millis()).expect("it is short"),
            unassigned: Vec::new(),
        }))
        .await;
    }

    pub(crate) async fn assigned(&self, number: u32, epoch: u64) {
        let assigned = vec![place(number)];
        self.send(Command::Assignment(proto::Assignment {
            assigned,
            epochs: vec![epoch],
            ..Default::default()
        }))
        .await;
    }

    pub(crate) async fn unassigned(&self, number: u32) {
        let unassigned = vec![place(number)];
        self.send(Command::Assignment(proto::Assignment { unassigned, ..Default::default() })).await;
    }

    pub(crate) async fn warm(&self, number: u32, id: &str, epoch: u64) {
        let (partition, handoff_id) = (Some(place(number)), id.to_owned());
        let current_owner = "other".to_owned();
        self.send(Command::Warm(proto::Warm { partition, current_owner, handoff_id, epoch })).await;
    }

    pub(crate) async fn release(&self, number: u32, id: &str, epoch: u64) {
        let (partition, handoff_id) = (Some(place(number)), id.to_owned());
        let new_owner = "other".to_owned();
        self.send(Command::Release(proto::Release { partition, new_owner, handoff_id, epoch })).await;
    }

    /// Commands that make no sense, of every kind.
    pub(crate) async fn nonsense(&self) {
        let _ = self.commands.send(Ok(proto::AssignmentCommand { command: None })).await;
        self.send(Command::Warm(proto::Warm::default())).await;
        self.send(Command::Release(proto::Release::default())).await;
        self.send(Command::Cancel(proto::Cancel::default())).await;
        let epochs = vec![1, 2, 3];
        self.send(Command::Assignment(proto::Assignment { epochs, ..Default::default() })).await;
    }

    pub(crate) async fn end(self, status: Status) {
        let _ = self.commands.send(Err(status)).await;
    }
}

pub(crate) fn place(number: u32) -> proto::TopicPartition {
    proto::TopicPartition { topic: "t".to_owned(), partition: number }
}

pub(crate) struct Assigner {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Mutex<Script>>,
    heard: mpsc::UnboundedReceiver<Heard>,
    streams: mpsc::UnboundedReceiver<Stream>,
    task: JoinHandle<()>,
}

impl Assigner {
    pub(crate) fn start(script: Script) -> Self {
        Self::serve(script, Server::builder())
    }

    pub(crate) fn start_with_tls(script: Script, identity: Identity) -> Self {
        let tls = ServerTlsConfig::new().identity(identity);
        Self::serve(script, Server::builder().tls_config(tls).expect("the identity is right"))
    }

    fn serve(script: Script, mut server: Server) -> Self {
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let address = incoming.local_addr().expect("it is bound");
        let script = Arc::new(Mutex::new(script));
        let (heard_sender, heard) = mpsc::unbounded_channel();
        let (streams_sender, streams) = mpsc::unbounded_channel();
        let service = Service { script: Arc::clone(&script), heard: heard_sender, streams: streams_sender };
        let server = server.add_service(KafkaAssignerServer::new(service));
        let task =
            tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("it serves") });
        Self { address, script, heard, streams, task }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn heard(&mut self) -> Heard {
        timeout(PATIENCE, self.heard.recv()).await.expect("something is said").expect("it runs")
    }

    /// The stream of the next consumer that registers.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = timeout(PATIENCE, self.streams.recv()).await.expect("it registers").expect("it runs");
        assert_eq!(self.heard().await, Heard::Register(stream.request.clone()));
        stream
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().expect("nobody panics with it"));
    }
}

impl Drop for Assigner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Service {
    script: Arc<Mutex<Script>>,
    heard: mpsc::UnboundedSender<Heard>,
    streams: mpsc::UnboundedSender<Stream>,
}

impl Service {
    fn hear<T>(&self, heard: Heard, answer: T) -> Result<Response<T>, Status> {
        let _ = self.heard.send(heard);
        match self.script.lock().expect("nobody panics with it").refusals.pop() {
            Some(status) => Err(status),
            None => Ok(Response::new(answer)),
        }
    }
}

#[tonic::async_trait]
impl KafkaAssigner for Service {
    type RegisterStream = ReceiverStream<Result<proto::AssignmentCommand, Status>>;

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<Self::RegisterStream>, Status> {
        let token = request.metadata().get("authorization").and_then(|token| token.to_str().ok());
        if token != Some("Bearer secret") {
            return Err(Status::unauthenticated("a token is needed"));
        }
        let request = request.into_inner();
        let (commands, receiver) = mpsc::channel(64);
        let _ = self.heard.send(Heard::Register(request.clone()));
        let _ = self.streams.send(Stream { request, commands, script: Arc::clone(&self.script) });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn partition_ready(
        &self,
        request: Request<proto::PartitionReadyRequest>,
    ) -> Result<Response<proto::PartitionReadyResponse>, Status> {
        self.hear(Heard::Ready(request.into_inner()), proto::PartitionReadyResponse::default())
    }

    async fn partition_released(
        &self,
        request: Request<proto::PartitionReleasedRequest>,
    ) -> Result<Response<proto::PartitionReleasedResponse>, Status> {
        self.hear(Heard::Released(request.into_inner()), proto::PartitionReleasedResponse::default())
    }

    async fn deregister(
        &self,
        request: Request<proto::DeregisterRequest>,
    ) -> Result<Response<proto::DeregisterResponse>, Status> {
        let drains = self.script.lock().expect("nobody panics with it").drains;
        let action =
            if drains { proto::DeregisterAction::WaitForDrain } else { proto::DeregisterAction::ShutdownNow };
        let answer = proto::DeregisterResponse { action: action.into() };
        self.hear(Heard::Deregister(request.into_inner()), answer)
    }

    async fn keep_alive(
        &self,
        _request: Request<proto::KeepAliveRequest>,
    ) -> Result<Response<proto::KeepAliveResponse>, Status> {
        let answer = {
            let mut script = self.script.lock().expect("nobody panics with it");
            script.keep_alives += 1;
            script.keep_alive.clone()
        };
        match answer {
            Some(Ok(())) => Ok(Response::new(proto::KeepAliveResponse { lease_ttl_ms: 0 })),
            Some(Err(status)) => Err(status),
            None => std::future::pending().await,
        }
    }

    async fn warm_progress(
        &self,
        request: Request<proto::WarmProgressRequest>,
    ) -> Result<Response<proto::WarmProgressResponse>, Status> {
        self.hear(Heard::Progress(request.into_inner()), proto::WarmProgressResponse {})
    }
}
