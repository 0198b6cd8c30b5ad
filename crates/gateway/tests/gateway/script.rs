//! A broker that does as the test says, a gateway on free ports, and a client that speaks frames.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use coordination::access::Operations;
use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::{self, Op, TopicRef};
use coordination::record::{ScramCredential, ScramMechanism};
use coordination::reply::{self, Refusal, Reply};
use gateway::{Gateway, ListenerConfig, Metrics, Options, Security};
use parking_lot::Mutex;
use rail::{
    Acceptor, Answer, BrokerAddress, Carrier, EndpointId, Gatekeeper, Hello, Key, Lost, Rail, Refused,
    RemoteRail, Roster,
};
use sasl::Credential;
use sasl::scram::Variant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use wire::RequestMessage;
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::fetch::FetchRequest;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::JoinGroupRequest;
use wire::api::offset_commit::OffsetCommitRequest;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

/// What no step of a test takes unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The client id of every request here.
pub(crate) const CLIENT_ID: &str = "tester";

/// Fails the test if `step` takes for ever.
pub(crate) async fn soon<T>(step: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, step).await.expect("this happens soon")
}

/// A call that the broker got.
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) carrier: Carrier,
    /// Where the test puts the reply, if it is not given at once.
    pub(crate) reply: Option<oneshot::Sender<Reply>>,
}

impl Call {
    /// Gives the reply that the op is waiting for.
    pub(crate) fn answer(self) {
        let reply = reply_to(&self.op);
        self.reply.expect("this op waits").send(reply).expect("the connection waits for it");
    }

    /// What tells this call from others: the base offset to be, or the like.
    pub(crate) fn mark(&self) -> i64 {
        mark_of(&self.op)
    }
}

/// What is kept of a user's passwords.
type Passwords = Vec<(ScramMechanism, ScramCredential)>;

/// What the broker knows and does beside answering calls.
#[derive(Default)]
pub(crate) struct Script {
    /// Users by the organisation and the name that a login gives.
    users: Mutex<HashMap<(Option<String>, String), Passwords>>,
    /// Organisations beside `default`.
    orgs: Mutex<HashMap<String, OrgId>>,
    /// Why nobody is let in.
    pub(crate) denial: Mutex<Option<Refusal>>,
    /// Whether Enter is answered when the test says so.
    pub(crate) enters_later: AtomicBool,
    /// Whether a call that the test drops is lost, as when the link to the broker breaks.
    pub(crate) may_lose: AtomicBool,
    /// Who was let in, and who has gone, by the number of the carrier.
    pub(crate) entered: Mutex<Vec<Carrier>>,
    pub(crate) left: Mutex<Vec<u64>>,
    /// Each answer that was not given at once holds one.
    owed: Arc<()>,
    /// How many of these there were whenever a client left.
    pub(crate) owed_at_leave: Mutex<Vec<usize>>,
    /// What Produce and Fetch are answered with.
    pub(crate) throttle: Mutex<Duration>,
    pub(crate) roster: Mutex<Option<Arc<Roster>>>,
}

impl Script {
    /// Makes a user; `login` is a name or `org/name`.
    pub(crate) fn add_user(&self, login: &str, password: &str, variant: Variant) {
        let kept = Credential::derive(variant, password, b"a salt of 16 byt", 4096);
        let kept = ScramCredential {
            salt: kept.salt,
            iterations: kept.iterations,
            stored_key: kept.stored_key,
            server_key: kept.server_key,
        };
        let mechanism = match variant {
            Variant::Sha256 => ScramMechanism::Sha256,
            Variant::Sha512 => ScramMechanism::Sha512,
        };
        let (org, user) = match login.split_once('/') {
            Some((org, user)) => (Some(org.to_owned()), user.to_owned()),
            None => (None, login.to_owned()),
        };
        self.users.lock().entry((org, user)).or_default().push((mechanism, kept));
    }

    pub(crate) fn add_org(&self, name: &str, number: u128) -> OrgId {
        let id = OrgId::from_u128(number);
        self.orgs.lock().insert(name.to_owned(), id);
        id
    }

    fn credentials(&self, op: &op::Credentials) -> reply::Credentials {
        let org = match &op.org {
            None => Some(OrgId::DEFAULT),
            Some(org) => self.orgs.lock().get(org).copied(),
        };
        let known = self.users.lock().get(&(op.org.clone(), op.user.clone())).cloned();
        let login = org.map(|org| reply::Login { org, credentials: known.unwrap_or_default() });
        reply::Credentials { login: login.map(Box::new), decoy_salt: Bytes::from_static(b"decoy") }
    }
}

/// Answers DescribeCluster, Heartbeat and Produce with acks 0 or 1 at once, and all else when the test says so.
struct ScriptedRail {
    calls: mpsc::UnboundedSender<Call>,
    script: Arc<Script>,
}

impl Rail for ScriptedRail {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        assert!(!matches!(op, Op::DeleteTopics(_)), "a bug in the broker, as the test wants it");
        match &op {
            Op::Credentials(op) => return Reply::Credentials(self.script.credentials(op)).into(),
            Op::Enter if !self.script.enters_later.load(Ordering::SeqCst) => {
                let denial = self.script.denial.lock().clone();
                if denial.is_none() {
                    self.script.entered.lock().push(carrier.clone());
                }
                return Reply::Enter(denial).into();
            }
            _ => {}
        }
        let is_at_once = matches!(&op, Op::DescribeCluster(_) | Op::Metadata(_) | Op::Heartbeat(_))
            || matches!(&op, Op::FindCoordinator(_))
            || matches!(&op, Op::Produce(produce) if produce.acks != -1);
        let carrier = carrier.clone();
        if is_at_once {
            let mut reply = reply_to(&op);
            if let Reply::Produce(reply) = &mut reply {
                reply.throttle = *self.script.throttle.lock();
            }
            // A test that does not look at the calls has dropped the other end.
            let _ = self.calls.send(Call { op, carrier, reply: None });
            return Answer::Now(reply);
        }
        let (sender, receiver) = oneshot::channel();
        let _ = self.calls.send(Call { op, carrier, reply: Some(sender) });
        if self.script.may_lose.load(Ordering::SeqCst) {
            return Answer::Sent(Box::pin(async { receiver.await.map_err(|_| Lost) }));
        }
        let owed = Arc::clone(&self.script.owed);
        Answer::Later(Box::pin(async move {
            let _owed = owed;
            receiver.await.expect("the test answers or cuts the connection")
        }))
    }

    fn leave(&self, carrier: &Carrier) {
        self.script.owed_at_leave.lock().push(Arc::strong_count(&self.script.owed) - 1);
        self.script.left.lock().push(carrier.number());
    }

    fn roster(&self) -> Option<Arc<Roster>> {
        self.script.roster.lock().clone()
    }
}

/// A Produce carries its mark in its partition's number, which comes back as the base offset; a Fetch in
/// `min_bytes`, and what a group is asked in its generation or session timeout.
pub(crate) fn mark_of(op: &Op) -> i64 {
    match op {
        Op::Produce(produce) => i64::from(produce.topics[0].partitions[0].index),
        Op::Fetch(fetch) => i64::from(fetch.min_bytes),
        Op::OffsetCommit(commit) => i64::from(commit.generation),
        Op::Heartbeat(heartbeat) => i64::from(heartbeat.generation),
        Op::JoinGroup(join) => i64::from(join.session_timeout_ms),
        _ => -1,
    }
}

/// A topic that every Produce to is refused.
pub(crate) const REFUSED: &str = "refused";

pub(crate) fn reply_to(op: &Op) -> Reply {
    match op {
        Op::DescribeCluster(_) => {
            let result = Ok("cluster".into());
            Reply::DescribeCluster(reply::DescribeCluster { result, operations: Operations::NONE })
        }
        Op::Metadata(_) => Reply::Metadata(reply::Metadata {
            cluster_id: "cluster".into(),
            topics: Vec::new(),
            operations: Operations::NONE,
        }),
        Op::Fetch(fetch) => Reply::Fetch(fetched(fetch)),
        Op::Produce(produce) => {
            let topics = produce.topics.iter().map(produced).collect();
            Reply::Produce(reply::Produce { topics, throttle: Duration::ZERO })
        }
        Op::OffsetCommit(_) => Reply::OffsetCommit(reply::OffsetCommit { topics: Vec::new() }),
        Op::Heartbeat(_) => Reply::Heartbeat(reply::Heartbeat { error: None }),
        Op::FindCoordinator(find) => {
            let groups = find.groups.iter().map(|group| (group.clone(), None)).collect();
            Reply::FindCoordinator(reply::FindCoordinator { groups })
        }
        Op::Enter => Reply::Enter(None),
        Op::JoinGroup(join) => Reply::JoinGroup(reply::JoinGroup {
            member_id: join.member_id.clone(),
            result: Err(ErrorCode::MemberIdRequired),
        }),
        other => panic!("no test sends {other:?}"),
    }
}

/// As many bytes as were asked for, in batches of uneven sizes.
fn fetched(fetch: &op::Fetch) -> reply::Fetch {
    let wanted = usize::try_from(fetch.max_bytes).expect("no test asks for less than nothing");
    let records = pattern(wanted).chunks(7000).map(Bytes::copy_from_slice).collect();
    let partition = reply::FetchPartition {
        index: 0,
        error: None,
        high_watermark: 0,
        last_stable_offset: 0,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader_epoch: None,
        records,
        origin: reply::Origin::default(),
    };
    let topic =
        reply::FetchTopic { topic: TopicRef::Name("t".into()), id: None, partitions: vec![partition] };
    reply::Fetch { error: None, session_id: 0, topics: vec![topic], throttle: Duration::ZERO }
}

/// Bytes of which no two neighbouring runs are alike.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| i.to_le_bytes()[i % 3]).collect()
}

fn produced(topic: &op::ProduceTopic) -> reply::ProduceTopic {
    let result = |index: i32| match &topic.topic {
        TopicRef::Name(name) if name == REFUSED => Err(ErrorCode::CorruptMessage.into()),
        _ => Ok(reply::Appended { base_offset: index.into(), log_append_time_ms: -1, log_start_offset: 0 }),
    };
    reply::ProduceTopic {
        topic: topic.topic.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| reply::ProducePartition {
                index: partition.index,
                result: result(partition.index),
            })
            .collect(),
    }
}

/// A broker, its calls, and what it is told to do.
fn scripted() -> (Arc<dyn Rail>, mpsc::UnboundedReceiver<Call>, Arc<Script>) {
    let (sender, calls) = mpsc::unbounded_channel();
    let script = Arc::new(Script::default());
    (Arc::new(ScriptedRail { calls: sender, script: Arc::clone(&script) }), calls, script)
}

/// Lets every gateway in.
struct OpenDoor;

impl Gatekeeper for OpenDoor {
    fn admit(&self, _: EndpointId, _: &Hello) -> Result<i32, Refused> {
        Ok(1)
    }

    fn left(&self, _: EndpointId) {}
}

/// A gateway at work.
pub(crate) struct Running {
    pub(crate) addrs: Vec<SocketAddr>,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
    pub(crate) metrics: Metrics,
    pub(crate) script: Arc<Script>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<usize>,
}

impl Running {
    /// On one free port of 127.0.0.1.
    pub(crate) fn start(options: Options) -> Self {
        Self::start_on(vec![listener("127.0.0.1:0")], options)
    }

    pub(crate) fn start_on(listeners: Vec<ListenerConfig>, options: Options) -> Self {
        let (rail, calls, script) = scripted();
        Self::before(rail, calls, script, listeners, options)
    }

    /// The same, with the broker at the other end of a link.
    pub(crate) async fn start_apart(options: Options) -> (Self, Arc<Acceptor>, Arc<RemoteRail>) {
        let (broker, calls, script) = scripted();
        let key = Key::generate();
        let endpoint = rail::bind(&key, "127.0.0.1:0".parse().expect("an address")).await.expect("a socket");
        let address = rail::local_address(&endpoint).expect("it is bound").to_string();
        let address = BrokerAddress { id: key.id(), address };
        let acceptor = Acceptor::listen(endpoint, broker, Arc::new(OpenDoor));
        let endpoint = rail::bind_to_dial(&Key::generate(), &address).await.expect("a socket");
        let rail = RemoteRail::connect(endpoint, address, Hello::default(), 0);
        soon(rail.connected()).await;
        let listeners = vec![listener("127.0.0.1:0")];
        let running = Self::before(Arc::clone(&rail) as _, calls, script, listeners, options);
        (running, acceptor, rail)
    }

    fn before(
        rail: Arc<dyn Rail>,
        calls: mpsc::UnboundedReceiver<Call>,
        script: Arc<Script>,
        listeners: Vec<ListenerConfig>,
        options: Options,
    ) -> Self {
        let gateway = Gateway::bind(listeners, options).expect("free ports are free");
        let (stop, stopped) = oneshot::channel();
        let addrs = gateway.local_addrs();
        let metrics = gateway.metrics().clone();
        let serving = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            gateway.serve(rail, shutdown).await.expect("sockets stay")
        });
        Self { addrs, calls, metrics, script, stop: Some(stop), serving }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.addrs[0]).await
    }

    pub(crate) async fn next_call(&mut self) -> Call {
        soon(self.calls.recv()).await.expect("the gateway runs")
    }

    /// Tells the gateway to drain.
    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("stopped once").send(()).expect("the gateway runs");
    }

    /// Waits until the gateway has drained; says how many connections were cut.
    pub(crate) async fn stopped(self) -> usize {
        soon(self.serving).await.expect("no panic")
    }

    /// Waits until something is true, which nothing tells of.
    pub(crate) async fn until(&self, is_true: impl Fn(&Self) -> bool) {
        soon(async {
            while !is_true(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    /// The value of a metric, by its whole name with labels.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let mut registry = prometheus_client::registry::Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text takes anything");
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

pub(crate) fn listener(addr: &str) -> ListenerConfig {
    guarded("PLAINTEXT", addr, Security::default())
}

/// A listener that asks something of its clients.
pub(crate) fn guarded(name: &str, addr: &str, security: Security) -> ListenerConfig {
    ListenerConfig { name: name.into(), addr: addr.parse().expect("an address"), advertised: None, security }
}

/// A client that sends and receives frames.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self { stream: soon(TcpStream::connect(addr)).await.expect("the gateway listens") }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.expect("the gateway reads");
    }

    /// The next answer's frame, or `None` when the gateway has closed.
    pub(crate) async fn receive(&mut self) -> Option<Bytes> {
        let size = soon(self.stream.read_i32()).await.ok()?;
        let mut frame = vec![0; usize::try_from(size).expect("a size")];
        soon(self.stream.read_exact(&mut frame)).await.ok()?;
        Some(frame.into())
    }

    /// The next answer's correlation id.
    pub(crate) async fn receive_id(&mut self) -> Option<i32> {
        self.receive().await.map(|frame| correlation_id(&frame))
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask<R: RequestMessage>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(&frame(request, version, 77)).await;
        let answer = self.receive().await.expect("an answer");
        let (id, response) = wire::decode_response::<R>(answer, version).expect("a well-formed answer");
        assert_eq!(id, 77);
        response
    }

    /// Whether the gateway has closed the connection, with nothing left to read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        matches!(soon(self.stream.read(&mut [0; 1])).await, Ok(0) | Err(_))
    }
}

fn correlation_id(frame: &[u8]) -> i32 {
    i32::from_be_bytes(*frame.first_chunk().expect("an answer has a header"))
}

/// A request with its size in front.
pub(crate) fn frame<R: RequestMessage>(request: &R, version: i16, id: i32) -> Bytes {
    wire::encode_request(request, version, id, Some(CLIENT_ID)).into_bytes()
}

/// A request that is answered at once.
pub(crate) fn describe(id: i32) -> Bytes {
    frame(&DescribeClusterRequest { endpoint_type: 1, ..Default::default() }, 1, id)
}

/// A request that waits until the test answers it.
pub(crate) fn fetch(id: i32) -> Bytes {
    fetch_of(id, 0)
}

/// A Fetch that will be answered with `size` bytes.
pub(crate) fn fetch_of(id: i32, size: i32) -> Bytes {
    frame(&FetchRequest { min_bytes: id, max_bytes: size, ..Default::default() }, 12, id)
}

/// A Produce of `size` bytes, marked with its correlation id. With acks -1 it waits until the test answers it.
pub(crate) fn produce(id: i32, topic: &str, acks: i16, size: usize) -> Bytes {
    let partition = PartitionProduceData { index: id, records: Some(vec![1; size].into()) };
    let topic =
        TopicProduceData { name: topic.to_owned(), partition_data: vec![partition], ..Default::default() };
    frame(&ProduceRequest { acks, topic_data: vec![topic], ..Default::default() }, 9, id)
}

/// An OffsetCommit that waits until the test answers it.
pub(crate) fn commit(id: i32) -> Bytes {
    let request = OffsetCommitRequest { generation_id_or_member_epoch: id, ..Default::default() };
    frame(&request, 8, id)
}

/// A Heartbeat, which is answered at once.
pub(crate) fn heartbeat(id: i32) -> Bytes {
    frame(&HeartbeatRequest { generation_id: id, ..Default::default() }, 4, id)
}

/// A JoinGroup that waits until the test answers it.
pub(crate) fn join(id: i32) -> Bytes {
    frame(&JoinGroupRequest { session_timeout_ms: id, ..Default::default() }, 6, id)
}

/// The correlation id of the next answer.
pub(crate) async fn receive_id(replies: &mut (impl AsyncRead + Unpin)) -> i32 {
    let size = soon(replies.read_i32()).await.expect("an answer");
    let mut answer = vec![0; usize::try_from(size).expect("a size")];
    soon(replies.read_exact(&mut answer)).await.expect("an answer");
    correlation_id(&answer)
}
