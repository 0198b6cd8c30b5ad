//! The catalog at work over a store in memory: restarts, faults and clients that go away.

use std::collections::BTreeMap;

use coordination::error_code::ErrorCode;
use coordination::ids::PartitionKey;
use coordination::op::{self, ConfigChanges, ConfigOperation, ConfigResource, NewTopic, TopicRef};
use coordination::reply::{ConfigSource, Reply};
use rail::Answer;
use store::{Crash, Fault, FaultKind, MemoryDisk, Options};

use super::*;

const ORG: OrgId = OrgId::DEFAULT;

/// Remembers what it was told.
#[derive(Default)]
struct Told {
    topics: Mutex<BTreeMap<TopicId, TopicSpec>>,
    settings: Mutex<Settings>,
    orgs: Mutex<BTreeMap<OrgId, Org>>,
}

impl Follower for Told {
    fn put(&self, spec: TopicSpec) {
        self.topics.lock().insert(spec.id, spec);
    }

    fn remove(&self, topic: TopicId) {
        self.topics.lock().remove(&topic);
    }

    fn put_org(&self, org: &Org) {
        self.orgs.lock().insert(org.id, org.clone());
    }

    fn remove_org(&self, org: OrgId) {
        self.orgs.lock().remove(&org);
    }

    fn reconfigure(&self, settings: &Settings) {
        *self.settings.lock() = settings.clone();
    }
}

struct Stage {
    disk: MemoryDisk,
    told: Arc<Told>,
    admin: Arc<Admin>,
}

impl Stage {
    async fn new() -> Self {
        Self::on(MemoryDisk::new()).await
    }

    async fn on(disk: MemoryDisk) -> Self {
        let options = Options { log_file_bytes: 1 << 20, ..Options::default() };
        let (store, _) =
            LocalStore::open(Arc::new(disk.clone()), "data".as_ref(), options).expect("it opens");
        store.start();
        let told = Arc::new(Told::default());
        let follower: Arc<dyn Follower> = told.clone();
        let admin =
            Admin::recover(Arc::new(store), Settings::default(), follower).expect("records are read back");
        admin.ensure_cluster_id().await.expect("the disk is well");
        Self { disk, told, admin }
    }

    /// The broker after its machine lost power now.
    async fn after_power_loss(&self) -> Self {
        Self::on(self.disk.crash(Crash::LosesAll)).await
    }

    async fn create(&self, name: &str, partitions: i32) -> Result<TopicId, ErrorCode> {
        match self
            .admin
            .create_topics(ORG, creation(name, partitions))
            .reply()
            .await
            .expect("no link is lost")
        {
            Reply::CreateTopics(mut reply) => match reply.topics.remove(0).result {
                Ok(made) => Ok(made.id),
                Err(refusal) => Err(refusal.code),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn delete(&self, name: &str) -> Option<ErrorCode> {
        let topics = vec![Ok(TopicRef::Name(name.to_owned()))];
        match self
            .admin
            .delete_topics(ORG, op::DeleteTopics { topics })
            .reply()
            .await
            .expect("no link is lost")
        {
            Reply::DeleteTopics(mut reply) => reply.topics.remove(0).error.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    async fn producer_id(&self) -> Result<i64, ErrorCode> {
        let op = op::InitProducerId { transactional_id: None, producer_id: -1, producer_epoch: -1 };
        match self.admin.init_producer_id(&op).reply().await.expect("no link is lost") {
            Reply::InitProducerId(reply) => reply.result.map(|(id, epoch)| {
                assert_eq!(epoch, 0);
                id
            }),
            other => panic!("{other:?}"),
        }
    }

    async fn set(&self, resource_type: i8, name: &str, setting: &str, value: &str) -> Option<ErrorCode> {
        let resource = ConfigResource { resource_type, name: name.to_owned() };
        let change = (setting.to_owned(), Ok(ConfigOperation::Set), Some(value.to_owned()));
        let resources = vec![(resource, ConfigChanges::Incremental(vec![change]))];
        let op = op::AlterConfigs { resources, validate_only: false };
        match self.admin.alter_configs(ORG, op).reply().await.expect("no link is lost") {
            Reply::AlterConfigs(mut reply) => reply.resources.remove(0).1.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    fn catalog(&self) -> Catalog {
        self.admin.look(Clone::clone)
    }

    fn names(&self) -> Vec<String> {
        self.admin.look(|catalog| catalog.topics_of(ORG).map(|topic| topic.name.clone()).collect())
    }
}

fn creation(name: &str, partitions: i32) -> op::CreateTopics {
    let topic = NewTopic {
        name: name.to_owned(),
        num_partitions: partitions,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: vec![("retention.ms".to_owned(), Some("5".to_owned()))],
    };
    op::CreateTopics { topics: vec![topic], validate_only: false }
}

#[tokio::test]
async fn what_was_answered_survives_a_power_loss() {
    let stage = Stage::new().await;
    stage.create("a", 3).await.expect("made");
    stage.create("b", 1).await.expect("made");
    assert_eq!(stage.delete("b").await, None);
    assert_eq!(stage.set(2, "a", "segment.ms", "9").await, None);
    assert_eq!(stage.set(4, "1", "message.max.bytes", "2000").await, None);
    stage.producer_id().await.expect("an id");

    let again = stage.after_power_loss().await;
    assert_eq!(again.catalog(), stage.catalog());
    assert_eq!(again.names(), ["a"]);
    let told = again.told.topics.lock();
    let spec = told.values().next().expect("told of a");
    assert_eq!((spec.partitions, spec.config.segment_ms, spec.config.max_message_bytes), (3, 9, 2000));
    assert_eq!(*again.told.settings.lock(), again.admin.settings());
}

#[tokio::test]
async fn the_cluster_id_is_minted_once() {
    let stage = Stage::new().await;
    let id = stage.admin.look(|catalog| catalog.cluster_id().map(str::to_owned)).expect("an id");
    assert_eq!(id.len(), 22);
    let again = stage.after_power_loss().await;
    let answer = again
        .admin
        .describe_cluster(&op::DescribeCluster { endpoint_type: 1 })
        .reply()
        .await
        .expect("no link is lost");
    assert!(matches!(answer, Reply::DescribeCluster(reply) if reply.result == Ok(id)));
}

#[tokio::test]
async fn the_follower_learns_of_every_change() {
    let stage = Stage::new().await;
    let id = stage.create("a", 1).await.expect("made");
    let told = |look: &dyn Fn(&TopicSpec)| look(stage.told.topics.lock().get(&id).expect("told of a"));
    told(&|spec| assert_eq!((spec.partitions, spec.config.retention_ms), (1, Some(5))));
    let topics = vec![op::MorePartitions { name: "a".to_owned(), count: 4, assignments: None }];
    stage
        .admin
        .create_partitions(ORG, op::CreatePartitions { topics, validate_only: false })
        .reply()
        .await
        .expect("no link is lost");
    told(&|spec| assert_eq!(spec.partitions, 4));
    assert_eq!(stage.set(4, "", "log.segment.bytes", "2000000").await, None);
    told(&|spec| assert_eq!(spec.config.segment_bytes, 2_000_000));
    stage.delete("a").await;
    assert!(stage.told.topics.lock().is_empty());
}

#[tokio::test]
async fn a_topic_that_is_asked_for_is_there_at_once() {
    let stage = Stage::new().await;
    let asked = op::Metadata {
        topics: Some(vec![TopicRef::Name("new".to_owned()), TopicRef::Name("not legal".to_owned())]),
        allow_auto_topic_creation: true,
    };
    let Reply::Metadata(reply) =
        stage.admin.metadata(ORG, asked.clone()).reply().await.expect("no link is lost")
    else {
        panic!()
    };
    let errors: Vec<_> = reply.topics.iter().map(|topic| topic.error).collect();
    assert_eq!(errors, [None, Some(ErrorCode::InvalidTopic)]);
    assert_eq!(stage.names(), ["new"]);
    assert!(matches!(stage.admin.metadata(ORG, asked), Answer::Now(_)));
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_log_and_catalog_in_step() {
    let stage = Stage::new().await;
    let Answer::Later(mut answer) = stage.admin.create_topics(ORG, creation("a", 1)) else { panic!() };
    // Once it has been asked for, it happens.
    let polled = std::future::poll_fn(|context| {
        let _ = answer.as_mut().poll(context);
        std::task::Poll::Ready(())
    });
    polled.await;
    drop(answer);
    stage.create("b", 1).await.expect("made");
    assert_eq!(stage.names(), ["a", "b"]);
    assert_eq!(stage.after_power_loss().await.catalog(), stage.catalog());
}

#[tokio::test]
async fn producer_ids_never_come_twice() {
    let mut stage = Stage::new().await;
    let mut last = -1;
    for _ in 0..3 {
        for _ in 0..1_500 {
            let id = stage.producer_id().await.expect("an id");
            assert!(id > last, "{id} after {last}");
            last = id;
        }
        stage = stage.after_power_loss().await;
    }
}

#[tokio::test]
async fn producers_that_ask_together_get_different_ids() {
    let stage = Arc::new(Stage::new().await);
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let stage = Arc::clone(&stage);
            tokio::spawn(async move { stage.producer_id().await.expect("an id") })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for task in tasks {
        assert!(ids.insert(task.await.expect("no panic")));
    }
}

#[tokio::test]
async fn producers_that_want_what_there_is_not_are_told_at_once() {
    let stage = Stage::new().await;
    for (transactional_id, producer_id, producer_epoch, refusal) in [
        (Some(""), -1, -1, ErrorCode::InvalidRequest),
        (Some("t"), -1, -1, ErrorCode::TransactionalIdAuthorizationFailed),
        (None, 5, -1, ErrorCode::InvalidRequest),
        (None, -1, 5, ErrorCode::InvalidRequest),
    ] {
        let transactional_id = transactional_id.map(str::to_owned);
        let op = op::InitProducerId { transactional_id, producer_id, producer_epoch };
        let Answer::Now(Reply::InitProducerId(reply)) = stage.admin.init_producer_id(&op) else { panic!() };
        assert_eq!(reply.result, Err(refusal));
    }
}

#[tokio::test]
async fn the_nth_fault_changes_nothing_that_was_refused_and_loses_nothing_that_was_not() {
    for kind in [FaultKind::Write, FaultKind::Sync] {
        for nth in 0.. {
            let stage = Stage::new().await;
            stage.create("before", 1).await.expect("made");
            let error = std::io::ErrorKind::StorageFull;
            stage.disk.fail(Fault { kind, nth, error, from_then_on: false });
            let mut made = vec!["before".to_owned()];
            for name in ["one", "two"] {
                match stage.create(name, 1).await {
                    Ok(_) => made.push(name.to_owned()),
                    Err(code) => assert_eq!(code, ErrorCode::KafkaStorageError),
                }
            }
            let hit = stage.disk.faults_hit();
            stage.disk.heal();
            assert_eq!(stage.names(), made);
            stage.create("zulu", 1).await.expect("the disk is well again");
            made.push("zulu".to_owned());
            assert_eq!(stage.after_power_loss().await.names(), made);
            if hit == 0 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn what_a_deleted_topic_left_behind_goes_at_the_next_start() {
    let stage = Stage::new().await;
    let orphan = PartitionKey { topic: TopicId::from_u128(77), partition: 0 };
    let mut builder = batch::BatchBuilder::new(0);
    builder
        .push(&batch::NewRecord { timestamp: 1, value: Some(b"x"), ..Default::default() })
        .expect("it fits");
    let append = store::Append::at(&builder.finish().expect("a batch"), 0, 0).expect("a batch");
    stage.admin.store.partition(orphan).append(append).await.expect("stored");

    let again = stage.after_power_loss().await;
    assert_eq!(again.admin.store.partition(orphan).end_offset(), 0);
}

#[tokio::test]
async fn log_dirs_show_the_partitions_asked_for() {
    let stage = Stage::new().await;
    stage.create("a", 3).await.expect("made");
    stage.create("b", 1).await.expect("made");
    for (asked, shown) in [
        (None, vec![("a", vec![0, 1, 2]), ("b", vec![0])]),
        (Some(vec![("a", vec![2, 0, 9, -1, 2]), ("nope", vec![0]), ("b", vec![])]), vec![("a", vec![0, 2])]),
        (Some(vec![]), vec![]),
    ] {
        let topics =
            asked.map(|asked| asked.into_iter().map(|(name, list)| (name.to_owned(), list)).collect());
        let answer = stage
            .admin
            .describe_log_dirs(ORG, &op::DescribeLogDirs { topics })
            .reply()
            .await
            .expect("no link is lost");
        let Reply::DescribeLogDirs(reply) = answer else { panic!() };
        let dir = reply.result.expect("it can be read");
        let topics: Vec<(&str, Vec<i32>)> = dir
            .topics
            .iter()
            .map(|(name, sizes)| (name.as_str(), sizes.iter().map(|(index, _)| *index).collect()))
            .collect();
        assert_eq!(topics, shown);
    }
}

#[tokio::test]
async fn settings_are_shown_with_where_they_come_from() {
    let stage = Stage::new().await;
    stage.create("a", 1).await.expect("made");
    let resource = ConfigResource { resource_type: 2, name: "a".to_owned() };
    let resources = vec![(resource, Some(vec!["retention.ms".to_owned()]))];
    let op = op::DescribeConfigs { resources, include_synonyms: false, include_documentation: true };
    let Reply::DescribeConfigs(mut reply) =
        stage.admin.describe_configs(ORG, &op).reply().await.expect("no link is lost")
    else {
        panic!()
    };
    let entry = reply.resources.remove(0).1.expect("a has settings").remove(0);
    assert_eq!((entry.value.as_deref(), entry.source), (Some("5"), ConfigSource::Topic));
    assert!(entry.documentation.is_some());
}
