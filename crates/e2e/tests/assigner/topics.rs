//! Topics of a broker that come, grow and go.

use e2e::etcd::{Etcd, EtcdCluster, Options};
use e2e::kohort::{self, Kohort};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::world::{LONGER_LEASE, TOPIC, World};

#[test]
fn a_topic_that_grows_is_assigned_and_one_that_goes_is_not() {
    let broker = Kohort::start(kohort::Options::default()).unwrap();
    let node = Etcd::start(&Options { without_fsync: true, ..Options::default() }).unwrap();
    let mut world = World::on(EtcdCluster { nodes: vec![node] });
    for _ in 0..2 {
        world.add_instance(&world.cluster.urls().join(","), &broker.bootstrap(), &LONGER_LEASE);
    }
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().unwrap();
    let options = AdminOptions::new();

    // Consumers may be there before the topic.
    let a = world.worker("a", 0);
    let b = world.worker("b", 1);
    let topic = NewTopic::new(TOPIC, 4, TopicReplication::Fixed(1));
    let made = world.runtime().block_on(admin.create_topics([&topic], &options)).unwrap();
    made.into_iter().for_each(|result| drop(result.unwrap()));
    world.until("the topic is known", || world.state().topics.get(TOPIC) == Some(&4));
    let before = world.rest(&[&a, &b]);

    let grown = NewPartitions::new(TOPIC, 7);
    let made = world.runtime().block_on(admin.create_partitions([&grown], &options)).unwrap();
    made.into_iter().for_each(|result| drop(result.unwrap()));
    world.until("growth is noticed", || world.state().topics.get(TOPIC) == Some(&7));
    let after = world.rest(&[&a, &b]);
    assert_eq!((before.owners.len(), after.owners.len()), (4, 7));
    assert_eq!(after.moved_since(&before), 0);

    let gone = world.runtime().block_on(admin.delete_topics(&[TOPIC], &options)).unwrap();
    gone.into_iter().for_each(|result| drop(result.unwrap()));
    world.until("the topic is gone", || world.state().topics.is_empty());
    // Nobody works on anything any more.
    assert!(world.rest(&[&a, &b]).owners.is_empty());

    // Made anew it is assigned anew, without anybody having to register again.
    let topic = NewTopic::new(TOPIC, 3, TopicReplication::Fixed(1));
    let made = world.runtime().block_on(admin.create_topics([&topic], &options)).unwrap();
    made.into_iter().for_each(|result| drop(result.unwrap()));
    world.until("the topic is known", || world.state().topics.get(TOPIC) == Some(&3));
    assert_eq!(world.rest(&[&a, &b]).owners.len(), 3);
    a.leave();
    b.leave();
    world.rest(&[]);
}
