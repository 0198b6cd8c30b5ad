//! An etcd, and instances that stand on it.

use std::time::Duration;

use assigner::{Assigner, Settings};
use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use coordination::handoff::{Entry, Key, Topic};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const PREFIX: &str = "/kafka-assigner/";

pub(crate) struct World {
    pub(crate) node: e2e::etcd::Etcd,
    pub(crate) etcd: etcd::Etcd,
}

impl World {
    /// An etcd with one topic in the group without a name.
    pub(crate) async fn with_topic(topic: &str, partitions: u32) -> Self {
        let options = e2e::etcd::Options { without_fsync: true, ..Default::default() };
        let node = tokio::task::spawn_blocking(move || e2e::etcd::Etcd::start(&options));
        let node = node.await.unwrap().expect("`cargo xtask setup` has built an etcd");
        let options = etcd::Options { endpoints: vec![node.url()], ..Default::default() };
        let world = Self { etcd: etcd::Etcd::new(options).unwrap(), node };
        world.add_topic(None, topic, partitions).await;
        world
    }

    pub(crate) async fn add_topic(&self, group: Option<&str>, topic: &str, partitions: u32) {
        let group = group.map(|group| group.parse().unwrap());
        let topic = Entry::Topic(topic.parse().unwrap(), Topic::new(partitions));
        let key = topic.key().encode(PREFIX, group.as_ref());
        let put = etcd::Write::Put { key, value: topic.encode().into(), lease: None };
        self.etcd.transact(&[], &[put]).await.unwrap();
    }

    /// The settings of an instance that moves partitions at once. Leases outlast any test in which nobody says that they
    /// live.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            etcd_endpoints: vec![self.node.url()],
            bind_host: "127.0.0.1".to_owned(),
            bind_port: 0,
            consumer_lease_ttl: Duration::from_secs(120),
            rebalance_debounce_interval: Duration::from_millis(20),
            ..Settings::default()
        }
    }

    /// An instance that is ready.
    pub(crate) async fn instance(&self, settings: Settings) -> Assigner {
        let instance = Assigner::start(settings).await.unwrap();
        eventually("the instance is ready", async || instance.is_ready().then_some(())).await;
        instance
    }

    /// Whether a consumer of the group without a name is registered.
    pub(crate) async fn is_registered(&self, name: &str) -> bool {
        let key = Key::Consumer(name.parse().unwrap()).encode(PREFIX, None);
        self.etcd.get(&key).await.unwrap().is_some()
    }
}

/// Settings whose leases are so short that a test can wait for their end.
pub(crate) fn with_short_leases(settings: Settings, seconds: u64) -> Settings {
    let consumer_lease_ttl = Duration::from_secs(seconds);
    Settings { consumer_lease_ttl, consumer_keepalive_interval: consumer_lease_ttl / 6, ..settings }
}

pub(crate) async fn dial(instance: &Assigner) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", instance.address())).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) async fn admin(instance: &Assigner) -> KafkaAssignerAdminClient<Channel> {
    KafkaAssignerAdminClient::new(dial(instance).await)
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Asks again and again until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, asking).await
}
