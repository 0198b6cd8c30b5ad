//! An etcd, instances of the assigner on it, and consumers that do as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use assigner::{Assigner, Settings};
use assigner_client::proto;
use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use coordination::handoff::{Entry, Topic};
use etcd::{Etcd, Outcome, Write};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

/// How long anything may take on a busy machine before it counts as never.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    _node: e2e::etcd::Etcd,
    settings: Settings,
    pub(crate) etcd: Etcd,
    pub(crate) instances: Vec<Assigner>,
    consumers: BTreeMap<String, Consumer>,
    told: mpsc::UnboundedReceiver<(String, Event)>,
    teller: mpsc::UnboundedSender<(String, Event)>,
    /// All that consumers were told, in the order in which they were.
    pub(crate) events: Vec<(String, Event)>,
    owned: BTreeMap<String, BTreeSet<u32>>,
}

struct Consumer {
    session: String,
    follower: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Snapshot,
    Assigned(u32),
    Unassigned(u32),
    Warm(u32),
    Release(u32),
    Cancel(u32),
    Ended(tonic::Code),
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

impl World {
    /// An etcd with a topic `t`, and one instance that leads. `None` if there is no etcd on the machine.
    pub(crate) async fn start(partitions: u32) -> Option<Self> {
        Self::start_with(partitions, Settings::default()).await
    }

    /// The same, with settings of its own.
    pub(crate) async fn start_with(partitions: u32, settings: Settings) -> Option<Self> {
        let options = e2e::etcd::Options { without_fsync: true, ..e2e::etcd::Options::default() };
        let node = match e2e::etcd::Etcd::start(&options) {
            Ok(node) => node,
            Err(error) if error.to_string().contains("no etcd") => {
                assert!(!std::env::var("CI").is_ok_and(|it| it == "true"), "{error:#}");
                return None;
            }
            Err(error) => panic!("{error:#}"),
        };
        let endpoints = vec![node.url()];
        let etcd = Etcd::new(etcd::Options { endpoints, ..etcd::Options::default() }).unwrap();
        let (teller, told) = mpsc::unbounded_channel();
        let mut world = Self {
            settings: Settings {
                etcd_endpoints: vec![node.url()],
                bind_host: "127.0.0.1".to_owned(),
                bind_port: 0,
                consumer_keepalive_interval: settings.consumer_lease_ttl / 10,
                leader_lease_ttl: Duration::from_secs(120),
                rebalance_debounce_interval: Duration::from_millis(100),
                ..settings
            },
            _node: node,
            etcd,
            instances: Vec::new(),
            consumers: BTreeMap::new(),
            told,
            teller,
            events: Vec::new(),
            owned: BTreeMap::new(),
        };
        let topic = Entry::Topic("t".parse().unwrap(), Topic::new(partitions));
        world.put("/kafka-assigner/config/topics/t", &topic.encode()).await;
        world.add_instance().await;
        world.wait("the instance leads", |world| world.instances[0].is_leader()).await;
        Some(world)
    }

    /// Starts another instance and waits until it is ready.
    pub(crate) async fn add_instance(&mut self) -> usize {
        self.instances.push(Assigner::start(self.settings.clone()).await.unwrap());
        let index = self.instances.len() - 1;
        self.wait("the instance is ready", |world| world.instances[index].is_ready()).await;
        index
    }

    pub(crate) async fn put(&self, key: &str, value: &[u8]) {
        let write = Write::Put { key: key.to_owned(), value: value.to_vec().into(), lease: None };
        let outcome = self.etcd.transact(&[], &[write]).await.unwrap();
        assert!(matches!(outcome, Outcome::Committed { .. }));
    }

    fn address(&self) -> SocketAddr {
        self.instances[0].address()
    }

    /// A consumer registers with the first instance, keeps its session if it had one, and does as it is told from then
    /// on.
    pub(crate) async fn join(&mut self, name: &str) {
        self.register(name, true).await;
    }

    /// A consumer registers, and never gets warm.
    pub(crate) async fn join_cold(&mut self, name: &str) {
        self.register(name, false).await;
    }

    async fn register(&mut self, name: &str, gets_warm: bool) {
        let session = match self.consumers.remove(name) {
            Some(former) => {
                former.follower.abort();
                former.keeper.abort();
                former.session
            }
            None => ulid::Ulid::from_parts(1, rand::random()).to_string(),
        };
        let stream = within("registration", register(self.address(), name, &session)).await.unwrap();
        let client = connect(self.address()).await;
        let follower = Follower {
            client: client.clone(),
            name: name.to_owned(),
            session: session.clone(),
            teller: self.teller.clone(),
            gets_warm,
        };
        let keep =
            keep_alive(client, name.to_owned(), session.clone(), self.settings.consumer_keepalive_interval);
        let consumer =
            Consumer { session, follower: tokio::spawn(follower.follow(stream)), keeper: tokio::spawn(keep) };
        self.consumers.insert(name.to_owned(), consumer);
    }

    /// A consumer dies: nobody hears of it any more.
    pub(crate) async fn kill(&mut self, name: &str) {
        let consumer = self.consumers.remove(name).unwrap();
        consumer.follower.abort();
        consumer.keeper.abort();
        self.owned.remove(name);
    }

    pub(crate) async fn deregister(&mut self, name: &str, has_stopped: bool) -> proto::DeregisterAction {
        let request = proto::DeregisterRequest {
            consumer_name: name.to_owned(),
            session: self.consumers[name].session.clone(),
            has_stopped,
            ..Default::default()
        };
        let answer = connect(self.address()).await.deregister(request).await.unwrap();
        answer.into_inner().action()
    }

    pub(crate) async fn status(&self) -> proto::StatusResponse {
        let endpoint = Channel::from_shared(format!("http://{}", self.address())).unwrap();
        let mut client = KafkaAssignerAdminClient::new(endpoint.connect().await.unwrap());
        client.status(proto::StatusRequest::default()).await.unwrap().into_inner()
    }

    /// Waits until consumers own as many partitions as they should, by what they were told.
    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&[(&str, usize)]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let owned: Vec<(&str, usize)> =
                self.owned.iter().map(|(name, partitions)| (name.as_str(), partitions.len())).collect();
            if is_so(&owned) {
                return;
            }
            let Ok(told) = tokio::time::timeout_at(deadline.into(), self.told.recv()).await else {
                panic!("waited in vain: {what}: {:?} {:?}", self.owned, self.events);
            };
            let (name, event) = told.unwrap();
            self.take_in(name, event);
        }
    }

    /// Waits until a consumer is told something.
    pub(crate) async fn until_event(&mut self, what: &str, name: &str, is_it: impl Fn(&Event) -> bool) {
        while !self.events.iter().any(|(told, event)| told == name && is_it(event)) {
            let (name, event) = within(what, self.told.recv()).await.unwrap();
            self.take_in(name, event);
        }
    }

    fn take_in(&mut self, name: String, event: Event) {
        let owned = self.owned.entry(name.clone()).or_default();
        match &event {
            Event::Snapshot => owned.clear(),
            Event::Assigned(partition) => {
                owned.insert(*partition);
                let owners = self.owned.values().filter(|owned| owned.contains(partition)).count();
                assert_eq!(owners, 1, "{partition} has two owners: {:?}", self.events);
            }
            Event::Unassigned(partition) | Event::Release(partition) => {
                owned.remove(partition);
            }
            Event::Warm(_) | Event::Cancel(_) | Event::Ended(_) => {}
        }
        self.events.push((name, event));
    }

    /// Waits until the first instance has this line among its metrics. It counts what it has written when etcd answers,
    /// and consumers may hear of that earlier.
    pub(crate) async fn until_counted(&self, line: &str) {
        self.wait(line, |world| world.instances[0].metrics().lines().any(|it| it == line)).await;
    }

    /// Waits for something that nobody tells of.
    pub(crate) async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        within(what, async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub(crate) async fn stop(self) {
        for consumer in self.consumers.into_values() {
            consumer.follower.abort();
            consumer.keeper.abort();
        }
        for instance in self.instances {
            within("the end of an instance", instance.stop()).await;
        }
    }
}

async fn connect(address: SocketAddr) -> KafkaAssignerClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    KafkaAssignerClient::new(endpoint.connect().await.unwrap())
}

/// Registers a consumer of the topic `t`.
pub(crate) async fn register(
    address: SocketAddr,
    name: &str,
    session: &str,
) -> Result<tonic::Streaming<proto::AssignmentCommand>, tonic::Status> {
    let request = proto::RegisterRequest {
        consumer_name: name.to_owned(),
        topic: "t".to_owned(),
        protocol_version: 2,
        session: session.to_owned(),
        ..Default::default()
    };
    Ok(connect(address).await.register(request).await?.into_inner())
}

/// Says that a consumer lives for as long as it does; what is not answered is said again.
async fn keep_alive(
    mut client: KafkaAssignerClient<Channel>,
    consumer_name: String,
    session: String,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        let request = proto::KeepAliveRequest {
            consumer_name: consumer_name.clone(),
            session: session.clone(),
            ..Default::default()
        };
        let _ = client.keep_alive(request).await;
    }
}

/// Does what a consumer is told, at once, and tells of it before anybody else can know of it.
struct Follower {
    client: KafkaAssignerClient<Channel>,
    name: String,
    session: String,
    teller: mpsc::UnboundedSender<(String, Event)>,
    gets_warm: bool,
}

impl Follower {
    async fn follow(mut self, mut stream: tonic::Streaming<proto::AssignmentCommand>) {
        loop {
            match stream.message().await {
                Ok(Some(command)) => self.obey(command.command.unwrap()).await,
                Ok(None) => return self.tell(Event::Ended(tonic::Code::Ok)),
                Err(status) => return self.tell(Event::Ended(status.code())),
            }
        }
    }

    fn tell(&self, event: Event) {
        // Nobody listens when the test is over.
        let _ = self.teller.send((self.name.clone(), event));
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Assignment(assignment) => {
                if assignment.is_snapshot {
                    self.tell(Event::Snapshot);
                }
                for place in assignment.unassigned {
                    self.tell(Event::Unassigned(place.partition));
                }
                for place in assignment.assigned {
                    self.tell(Event::Assigned(place.partition));
                }
            }
            Command::Warm(warm) => {
                let place = warm.partition.unwrap();
                self.tell(Event::Warm(place.partition));
                if self.gets_warm {
                    let request = proto::PartitionReadyRequest {
                        consumer_name: self.name.clone(),
                        partition: Some(place),
                        session: self.session.clone(),
                        handoff_id: warm.handoff_id,
                        epoch: warm.epoch,
                        ..Default::default()
                    };
                    say(|| {
                        let (mut client, request) = (self.client.clone(), request.clone());
                        async move { client.partition_ready(request).await }
                    })
                    .await;
                }
            }
            Command::Release(release) => {
                let place = release.partition.unwrap();
                self.tell(Event::Release(place.partition));
                let request = proto::PartitionReleasedRequest {
                    consumer_name: self.name.clone(),
                    partition: Some(place),
                    session: self.session.clone(),
                    handoff_id: release.handoff_id,
                    epoch: release.epoch,
                    ..Default::default()
                };
                say(|| {
                    let (mut client, request) = (self.client.clone(), request.clone());
                    async move { client.partition_released(request).await }
                })
                .await;
            }
            Command::Cancel(cancel) => self.tell(Event::Cancel(cancel.partition.unwrap().partition)),
        }
    }
}

/// Says something until it is heard. A handoff may be given up just before; the stream tells of that.
async fn say<T, Answer>(mut call: impl FnMut() -> Answer)
where
    Answer: Future<Output = Result<T, tonic::Status>>,
{
    while let Err(status) = call().await {
        match status.code() {
            tonic::Code::Unavailable => tokio::time::sleep(Duration::from_millis(100)).await,
            tonic::Code::FailedPrecondition | tonic::Code::Aborted | tonic::Code::NotFound => return,
            _ => panic!("{status:?}"),
        }
    }
}
