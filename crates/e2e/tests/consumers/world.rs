//! The broker that the tests share, its topics and what it says of groups.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use batch::Codec;
use e2e::broker::Broker;
use rdkafka::config::ClientConfig;
use wire::api::{
    create_partitions, delete_topics, describe_groups, find_coordinator, metadata, offset_fetch,
};

use crate::reader::{Reader, until};
use crate::support::{Connection, batch_of};

/// How many members the shared broker lets into a group.
pub(crate) const GROUP_MAX: usize = 3;

/// Loading, not yet there, or elsewhere: to be asked again.
const COORDINATOR_COMES: [i16; 3] = [14, 15, 16];

static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());

/// A broker as one test sees it: topics and groups have names of their own.
pub(crate) struct World {
    broker: Arc<Broker>,
    name: &'static str,
    connection: RefCell<Connection>,
}

impl World {
    /// The broker that runs for as long as any test uses it.
    pub(crate) fn enter(name: &'static str) -> Self {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = shared.upgrade().unwrap_or_else(|| {
            let broker = start(&[("auto.create.topics.enable", "true")]);
            *shared = Arc::downgrade(&broker);
            broker
        });
        drop(shared);
        Self::of(broker, name)
    }

    /// A broker that makes no topic by itself, for this test alone.
    pub(crate) fn without_auto_creation(name: &'static str) -> Self {
        Self::of(start(&[("auto.create.topics.enable", "false")]), name)
    }

    fn of(broker: Arc<Broker>, name: &'static str) -> Self {
        let connection = RefCell::new(Connection::open(&broker.bootstrap()));
        let world = Self { broker, name, connection };
        // Kafka makes its offsets topic when a coordinator is first asked for.
        until("there is a coordinator", &[], || {
            let request =
                find_coordinator::FindCoordinatorRequest { key: world.named("any"), ..Default::default() };
            world.connection.borrow_mut().ask(&request, 2).error_code == 0
        });
        world
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.broker.bootstrap()
    }

    /// A name that no other test uses.
    pub(crate) fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// A consumer's settings, with everything short but its session, which no test waits for unless it sets its own.
    pub(crate) fn settings(&self, group: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set("group.id", self.named(group));
        config.set("session.timeout.ms", "45000").set("heartbeat.interval.ms", "300");
        config.set("max.poll.interval.ms", "60000").set("topic.metadata.refresh.interval.ms", "300");
        config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        config.set("partition.assignment.strategy", "range").set("fetch.wait.max.ms", "50");
        config.set("reconnect.backoff.ms", "20").set("reconnect.backoff.max.ms", "200");
        config
    }

    /// A consumer of the group with the usual settings.
    pub(crate) fn reader(&self, group: &str) -> Reader {
        Reader::new(&self.settings(group))
    }

    /// Makes a topic and waits until it is there; gives its name.
    pub(crate) fn create(&self, topic: &str, partitions: i32) -> String {
        let topic = self.named(topic);
        self.connection.borrow_mut().create_topic(&topic, partitions);
        self.wait_for_partitions(&topic, partitions);
        topic
    }

    /// Gives a topic more partitions.
    pub(crate) fn grow(&self, topic: &str, partitions: i32) {
        let more = create_partitions::CreatePartitionsTopic {
            name: topic.to_owned(),
            count: partitions,
            assignments: None,
        };
        let request = create_partitions::CreatePartitionsRequest {
            topics: vec![more],
            timeout_ms: 10_000,
            validate_only: false,
        };
        let answer = self.connection.borrow_mut().ask(&request, 3);
        assert_eq!(answer.results[0].error_code, 0, "{:?}", answer.results[0].error_message);
        self.wait_for_partitions(topic, partitions);
    }

    fn wait_for_partitions(&self, topic: &str, partitions: i32) {
        until("the topic is there", &[], || {
            let known = self.topics().into_iter().find(|it| it.name.as_deref() == Some(topic));
            let led = known.map_or(0, |it| it.partitions.iter().filter(|it| it.error_code == 0).count());
            i32::try_from(led).unwrap() == partitions
        });
    }

    /// Deletes a topic and waits until it is gone.
    pub(crate) fn delete(&self, topic: &str) {
        let request = delete_topics::DeleteTopicsRequest {
            topic_names: vec![topic.to_owned()],
            timeout_ms: 10_000,
            ..Default::default()
        };
        let answer = self.connection.borrow_mut().ask(&request, 5);
        assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
        until("the topic is gone", &[], || !self.exists(topic));
    }

    /// Whether there is such a topic; asking makes none.
    pub(crate) fn exists(&self, topic: &str) -> bool {
        self.topics().iter().any(|it| it.name.as_deref() == Some(topic))
    }

    fn topics(&self) -> Vec<metadata::MetadataResponseTopic> {
        let request = metadata::MetadataRequest {
            topics: None,
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        self.connection.borrow_mut().ask(&request, 9).topics
    }

    /// Appends `count` records, the first of which has the value `from` and so on.
    pub(crate) fn produce(&self, topic: &str, partition: i32, from: usize, count: usize) {
        let values: Vec<String> = (from..from + count).map(|value| value.to_string()).collect();
        let batch = batch_of(&values, Codec::None);
        // Kafka may tell of a partition before it leads it.
        until("the records are taken", &[], || {
            self.connection.borrow_mut().produce(topic, partition, batch.clone()).is_ok()
        });
    }

    /// What the broker says of a group.
    pub(crate) fn group(&self, group: &str) -> describe_groups::DescribedGroup {
        let request = describe_groups::DescribeGroupsRequest {
            groups: vec![self.named(group)],
            include_authorized_operations: false,
        };
        let mut found = None;
        until("the group can be described", &[], || {
            let group = self.connection.borrow_mut().ask(&request, 5).groups.remove(0);
            assert!(group.error_code == 0 || COORDINATOR_COMES.contains(&group.error_code), "{group:?}");
            found = (group.error_code == 0).then_some(group);
            found.is_some()
        });
        found.unwrap()
    }

    /// The ids of the group's members.
    pub(crate) fn members(&self, group: &str) -> BTreeSet<String> {
        self.group(group).members.into_iter().map(|member| member.member_id).collect()
    }

    /// Offset and metadata that the group has committed for each of the partitions, `None` where it has not.
    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<Option<(i64, String)>> {
        let asked = offset_fetch::OffsetFetchRequestTopic {
            name: topic.to_owned(),
            partition_indexes: (0..partitions).collect(),
        };
        let request = offset_fetch::OffsetFetchRequest {
            group_id: self.named(group),
            topics: Some(vec![asked]),
            ..Default::default()
        };
        let mut found = Vec::new();
        until("the offsets can be asked for", &[], || {
            let answer = self.connection.borrow_mut().ask(&request, 5);
            let error = answer.error_code;
            assert!(error == 0 || COORDINATOR_COMES.contains(&error), "{answer:?}");
            found = answer.topics.into_iter().flat_map(|topic| topic.partitions).collect();
            error == 0
        });
        found.sort_by_key(|it| it.partition_index);
        found
            .into_iter()
            .map(|it| {
                (it.committed_offset >= 0).then(|| (it.committed_offset, it.metadata.unwrap_or_default()))
            })
            .collect()
    }

    /// The offsets that the group has committed, -1 where it has not.
    pub(crate) fn offsets(&self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let committed = self.committed(group, topic, partitions);
        committed.into_iter().map(|it| it.map_or(-1, |(offset, _)| offset)).collect()
    }
}

fn start(settings: &[(&str, &str)]) -> Arc<Broker> {
    let group_max = GROUP_MAX.to_string();
    let always = [
        // What is tested here is not how long the first of a group waits for others.
        ("group.initial.rebalance.delay.ms", "100"),
        ("group.min.session.timeout.ms", "1000"),
        ("group.max.size", &group_max),
        // The records' timestamps lie in the past.
        ("log.retention.ms", "-1"),
    ];
    Arc::new(Broker::start(&[&always[..], settings].concat()).unwrap())
}
