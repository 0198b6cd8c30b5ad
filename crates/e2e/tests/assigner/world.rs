//! An etcd, instances of the assigner on it, and waiting for the group to be at rest.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use assigner_client::{Builder, Consumer};
use bytes::Bytes;
use coordination::handoff::{Entry, Topic};
use e2e::assigner::Assigner;
use e2e::etcd::{Etcd, EtcdCluster, Options};
use e2e::relay::Relay;
use etcd::{LeaseId, Write};
use tokio::runtime::Runtime;

use crate::journal::{Journal, Life};
use crate::state::State;
use crate::worker::Worker;

/// How long anything may take on a busy machine before it counts as never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const PREFIX: &str = "/kafka-assigner/";
pub(crate) const TOPIC: &str = "orders";

/// How long a consumer of which nothing is heard keeps its partitions.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// Leases that even a busy machine keeps, for tests in which nothing may move.
pub(crate) const LONGER_LEASE: [(&str, &str); 2] =
    [("consumer_lease_ttl_secs", "9"), ("leader_lease_ttl_secs", "8")];

/// Short leases, so that a test can wait for their end.
const SETTINGS: [(&str, &str); 11] = [
    ("consumer_lease_ttl_secs", "3"),
    ("consumer_keepalive_interval_secs", "0.5"),
    ("leader_lease_ttl_secs", "2"),
    ("leader_keepalive_interval_secs", "0.5"),
    ("election_retry_interval_secs", "0.5"),
    ("rebalance_debounce_interval_secs", "0.1"),
    ("reconcile_interval_secs", "0.5"),
    ("handoff_timeout_secs", "60"),
    ("handoff_retry_interval_secs", "0.5"),
    ("topic_refresh_interval_secs", "0.5"),
    ("etcd_prefix", PREFIX),
];

pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) assigners: Vec<Assigner>,
    /// Between each instance and etcd, if there is only one node.
    pub(crate) relays: Vec<Relay>,
    pub(crate) cluster: EtcdCluster,
    etcd: etcd::Etcd,
    runtime: Runtime,
}

impl World {
    /// So many instances on one node, and the topic with so many partitions.
    pub(crate) fn start(instances: usize, partitions: u32) -> Self {
        Self::start_with(instances, partitions, &[])
    }

    pub(crate) fn start_with(instances: usize, partitions: u32, settings: &[(&str, &str)]) -> Self {
        let node = Etcd::start(&Options { without_fsync: true, ..Options::default() }).unwrap();
        let mut world = Self::on(EtcdCluster { nodes: vec![node] });
        world.put_topic(TOPIC, partitions);
        for _ in 0..instances {
            let relay = Relay::start(world.cluster.nodes[0].address()).unwrap();
            world.add_instance(&format!("http://{}", relay.address()), "", settings);
            world.relays.push(relay);
        }
        world
    }

    /// So many instances on three nodes.
    pub(crate) fn start_on_three(instances: usize, partitions: u32) -> Self {
        let options = Options { without_fsync: true, ..Options::default() };
        let mut world = Self::on(EtcdCluster::start(&options).unwrap());
        world.put_topic(TOPIC, partitions);
        for _ in 0..instances {
            world.add_instance(&world.cluster.urls().join(","), "", &[]);
        }
        world
    }

    /// No instances yet.
    pub(crate) fn on(cluster: EtcdCluster) -> Self {
        let options = etcd::Options { endpoints: cluster.urls(), ..etcd::Options::default() };
        Self::reached_by(cluster, options)
    }

    pub(crate) fn reached_by(cluster: EtcdCluster, options: etcd::Options) -> Self {
        let runtime = Runtime::new().unwrap();
        let etcd = {
            let _entered = runtime.enter();
            etcd::Etcd::new(options).unwrap()
        };
        let (assigners, relays) = (Vec::new(), Vec::new());
        Self { journal: Journal::new(), assigners, relays, cluster, etcd, runtime }
    }

    /// Adds an instance that reaches etcd here. Settings go before those that all have.
    pub(crate) fn add_instance(&mut self, etcd: &str, kafka: &str, settings: &[(&str, &str)]) {
        let name = format!("instance-{}", self.assigners.len());
        let mut all = vec![("assigner_name", name.as_str())];
        all.extend(SETTINGS.iter().filter(|(name, _)| !settings.iter().any(|(own, _)| own == name)));
        all.extend(settings);
        self.assigners.push(Assigner::start(etcd, kafka, &all).unwrap());
    }

    pub(crate) fn put_topic(&self, topic: &str, partitions: u32) {
        let topic = Entry::Topic(topic.parse().unwrap(), Topic::new(partitions));
        self.put(&topic.key().encode(PREFIX, None), topic.encode().into());
    }

    pub(crate) fn put(&self, key: &str, value: Bytes) {
        let put = Write::Put { key: key.to_owned(), value, lease: None };
        self.patiently(async || self.etcd.transact(&[], std::slice::from_ref(&put)).await);
    }

    /// Asks etcd again until it answers: a leader of it may just have been killed.
    fn patiently<T>(&self, ask: impl AsyncFn() -> Result<T, etcd::EtcdError>) -> T {
        let started = Instant::now();
        loop {
            match self.runtime.block_on(ask()) {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_transient() && started.elapsed() < PATIENCE, "{error}"),
            }
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn revision(&self) -> u64 {
        self.patiently(async || self.etcd.revision().await)
    }

    /// The lease of a consumer's key, which is another one after each time it registers.
    pub(crate) fn lease(&self, consumer: &str) -> Option<LeaseId> {
        let key = format!("{PREFIX}consumers/{consumer}");
        Some(self.patiently(async || self.etcd.get(&key).await)?.lease)
    }

    /// What lies in etcd now.
    pub(crate) fn state(&self) -> State {
        State::read(&self.patiently(async || self.etcd.read(PREFIX).await))
    }

    /// A consumer that turns to this instance first, and then to those after it.
    pub(crate) fn consumer(&self, name: &str, home: usize) -> Builder {
        let count = self.assigners.len();
        let urls = (0..count).map(|it| self.assigners[(home + it) % count].url());
        Consumer::builder(name).topic(TOPIC).endpoints(urls)
    }

    pub(crate) fn worker(&self, name: &str, home: usize) -> Worker {
        Worker::start(&self.journal, name, self.consumer(name, home))
    }

    /// The same, for someone who reaches each instance over a relay of its own.
    pub(crate) fn worker_behind_relays(&self, name: &str, home: usize) -> (Worker, Vec<Relay>) {
        let count = self.assigners.len();
        let address = |it: usize| {
            let url = self.assigners[(home + it) % count].url();
            url.strip_prefix("http://").unwrap().parse().unwrap()
        };
        let relays: Vec<Relay> = (0..count).map(|it| Relay::start(address(it)).unwrap()).collect();
        let urls = relays.iter().map(|relay| format!("http://{}", relay.address()));
        let description = Consumer::builder(name).topic(TOPIC).endpoints(urls);
        (Worker::start(&self.journal, name, description), relays)
    }

    /// Which instance leads, if one of these does.
    pub(crate) fn leader_among(&self, instances: &[usize]) -> Option<usize> {
        let leader = self.state().leader?;
        instances.iter().copied().find(|it| leader.contains(&format!("\"instance-{it}\"")))
    }

    /// What an instance counts under this name.
    pub(crate) fn metric(&self, instance: usize, name: &str) -> u64 {
        let address = self.assigners[instance].http();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    }

    /// Waits until one of these leads.
    pub(crate) fn wait_for_leader(&self, instances: &[usize]) -> usize {
        let mut leader = None;
        self.until(&format!("one of {instances:?} leads"), || {
            leader = self.leader_among(instances);
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Waits until it is so.
    pub(crate) fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        if !becomes_so(is_so) {
            panic!("waited {PATIENCE:?} in vain: {what}\n{}", self.story());
        }
    }

    /// Waits until all partitions are with these consumers, evenly, and nothing moves: etcd says so, and each works on
    /// just what it owns. Then tells whether all that happened was right.
    pub(crate) fn rest(&self, workers: &[&Worker]) -> State {
        let lives: Vec<_> = workers.iter().map(|worker| &worker.life).collect();
        self.rest_of(&lives)
    }

    pub(crate) fn rest_of(&self, lives: &[&Life]) -> State {
        let names: Vec<&str> = lives.iter().map(|life| life.name.as_str()).collect();
        let started = Instant::now();
        let state = loop {
            let state = self.state();
            let unrest = state.unrest(&names).or_else(|| self.mismatch(&state, lives));
            let Some(unrest) = unrest else { break state };
            if started.elapsed() > PATIENCE {
                panic!("no rest after {PATIENCE:?}: {unrest}\n{}", self.story());
            }
            thread::sleep(Duration::from_millis(10));
        };
        self.journal.check();
        state
    }

    /// Who of these does not work on just what it owns.
    fn mismatch(&self, state: &State, lives: &[&Life]) -> Option<String> {
        let mut working = self.journal.all_working();
        let mut owned: BTreeMap<&str, BTreeMap<u32, u64>> = BTreeMap::new();
        for ((_, partition), owner) in &state.owners {
            owned.entry(&owner.name).or_default().insert(*partition, owner.epoch);
        }
        lives.iter().find_map(|life| {
            let owned = owned.remove(life.name.as_str()).unwrap_or_default();
            let working = working.remove(*life).unwrap_or_default();
            (working != owned).then(|| format!("{life:?} works on {working:?}, and owns {owned:?}"))
        })
    }

    /// What may explain a failure.
    pub(crate) fn story(&self) -> String {
        let mut story = self.journal.story();
        for (index, assigner) in self.assigners.iter().enumerate() {
            let said = assigner.output();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            story.push_str(&format!("--- instance-{index}:\n{last}\n"));
        }
        story
    }
}

/// Waits until it is so, and says whether it ever was.
pub(crate) fn becomes_so(mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}
