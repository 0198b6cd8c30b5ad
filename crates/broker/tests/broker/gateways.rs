use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use coordination::error_code::ErrorCode;
use coordination::op::{self, Op};
use coordination::reply::{self, Reply};
use rail::{Acceptor, BrokerAddress, Carrier, Hello, Key, Rail, RemoteRail};
use store::{Fault, FaultKind};

use crate::group_world::{commit_op, committed, soon};
use crate::world::{World, fetch, keyed, records};

fn hello() -> Hello {
    Hello {
        listeners: vec![("PLAINTEXT".to_owned(), "gateway.example".to_owned(), 9092)],
        software: "test".to_owned(),
    }
}

async fn accept(world: &World) -> (Arc<Acceptor>, BrokerAddress) {
    let key = Key::generate();
    let endpoint = rail::bind(&key, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let address = rail::local_address(&endpoint).unwrap().to_string();
    let broker: Arc<dyn Rail> = Arc::clone(&world.broker) as _;
    let acceptor = Acceptor::listen(endpoint, broker, world.broker.gatekeeper());
    world.broker.attend(Arc::clone(&acceptor));
    (acceptor, BrokerAddress { id: key.id(), address })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_elsewhere_serves_until_it_is_denied() {
    let world = World::with_groups().await;
    let (acceptor, address) = accept(&world).await;
    let key = Key::generate();
    let id = key.id().to_string();
    let allowed = world.broker.allow_gateway(&id).await.unwrap();
    let endpoint = rail::bind_to_dial(&key, &address).await.unwrap();
    let gateway = RemoteRail::connect(endpoint, address, hello(), 1 << 20);
    soon(gateway.connected()).await;

    let live = world.broker.live_gateways();
    assert_eq!(
        live.iter().map(|live| (live.id, live.node)).collect::<Vec<_>>(),
        [(key.id(), allowed.node_id)]
    );
    let roster = world.broker.roster().unwrap();
    assert_eq!(roster.me, world.broker.admin().settings().node_id());
    assert_eq!(roster.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [allowed.node_id]);

    let org = world.org("acme").await;
    let mut client = Carrier::new(Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into());
    client.belongs_to(org, "User:alice".into());
    let entered = soon(gateway.call(&client, Op::Enter).reply()).await.unwrap();
    assert_eq!(entered, Reply::Enter(None));
    assert_eq!(world.broker.usage(org).connections, 1);
    let acme = world.seen_by(org, "User:alice");
    acme.create("orders", 1, &[]).await;
    let commit = Op::OffsetCommit(commit_op("billing", "", -1, 5));
    assert_eq!(committed(soon(gateway.call(&client, commit).reply()).await.unwrap()), None);
    assert_eq!(acme.offset("billing").await, Ok(5), "it came under the client's organisation");
    assert_eq!(world.offset("billing").await, Ok(-1));

    world.broker.deny_gateway(&id).await.unwrap();
    soon(async {
        while !world.broker.live_gateways().is_empty() || world.broker.usage(org).connections > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gateway.close().await;
    acceptor.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_come_over_the_link_once_and_only_to_those_whose_they_are() {
    let world = World::new().await;
    let (acceptor, address) = accept(&world).await;
    let gateway = connect(&world, address).await;

    // The same name, offset and size in two organisations.
    let mut clients = Vec::new();
    for name in ["acme", "zenith"] {
        let org = world.org(name).await;
        let there = world.seen_by(org, "User:alice");
        there.create("orders", 1, &[]).await;
        there.produce("orders", 0, keyed(&[(Some(name), Some(&name[..4].repeat(500)))])).await.unwrap();
        // Clients with even numbers share a lane.
        let client = || Carrier::new(Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into());
        for _ in 0..2 {
            let mut client = std::iter::repeat_with(client).find(|client| client.number() % 2 == 0).unwrap();
            client.belongs_to(org, "User:alice".into());
            clients.push((name, client));
        }
    }
    let mut seen = Vec::new();
    for (name, client) in &clients {
        let reply = soon(gateway.call(client, Op::Fetch(fetch("orders", &[(0, 0)]))).reply()).await.unwrap();
        let Reply::Fetch(reply) = reply else { panic!("a fetch") };
        let chunks = reply.topics[0].partitions[0].records.clone();
        let read = records(&chunks);
        assert_eq!(read[0].key.as_deref(), Some(name.as_bytes()));
        assert_eq!(read[0].value.as_deref(), Some(name[..4].repeat(500).as_bytes()));
        seen.push(chunks);
    }
    let places: Vec<_> = seen.iter().map(|chunks| chunks[0].as_ptr()).collect();
    assert_eq!(
        (places[0], places[2]),
        (places[1], places[3]),
        "the second client of each is given what is there"
    );
    assert_ne!(places[0], places[2]);
    gateway.close().await;
    acceptor.close().await;
}

/// From now on every read of a file fails, until the disk is healed.
fn forbid_reading(world: &World) {
    world.disk.fail(Fault { kind: FaultKind::Read, nth: 0, error: io::ErrorKind::Other, from_then_on: true });
}

/// A gateway that is let in and has come.
async fn connect(world: &World, address: BrokerAddress) -> Arc<RemoteRail> {
    let key = Key::generate();
    world.broker.allow_gateway(&key.id().to_string()).await.unwrap();
    let endpoint = rail::bind_to_dial(&key, &address).await.unwrap();
    let gateway = RemoteRail::connect(endpoint, address, hello(), 1 << 20);
    soon(gateway.connected()).await;
    gateway
}

/// What a client is answered of each partition of one topic.
async fn answered<const N: usize>(
    gateway: &Arc<RemoteRail>,
    client: &Carrier,
    asked: op::Fetch,
) -> [reply::FetchPartition; N] {
    let reply = soon(gateway.call(client, Op::Fetch(asked)).reply()).await.unwrap();
    let Reply::Fetch(mut reply) = reply else { panic!("a fetch") };
    std::mem::take(&mut reply.topics[0].partitions).try_into().expect("as many as were asked for")
}

/// What a client gets of a partition through a gateway, in one piece, or the error.
async fn fetched(
    gateway: &Arc<RemoteRail>,
    client: &Carrier,
    fetch: op::Fetch,
) -> Result<Vec<u8>, ErrorCode> {
    let reply = soon(gateway.call(client, Op::Fetch(fetch)).reply()).await.unwrap();
    let Reply::Fetch(reply) = reply else { panic!("a fetch") };
    let partition = &reply.topics[0].partitions[0];
    partition.error.map_or_else(|| Ok(partition.records.concat()), Err)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_has_of_a_log_is_not_read_again_until_the_log_is_written_anew() {
    let world = World::new().await;
    world.create("state", 1, &[("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")]).await;
    let long = "x".repeat(2000);
    for value in ["first", &long] {
        world
            .produce("state", 0, keyed(&[(Some("a"), Some(&long)), (Some("b"), Some(value))]))
            .await
            .unwrap();
    }
    world.settle().await;
    // What was produced is in the memory of the one that took it.
    let world = world.restart().await;
    let (acceptor, address) = accept(&world).await;
    let gateway = connect(&world, address).await;
    let client = Carrier::new(Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into());

    let before = fetched(&gateway, &client, fetch("state", &[(0, 0)])).await.unwrap();
    assert_eq!(before, world.read("state", 0, 0).await.records.concat());
    forbid_reading(&world);
    assert_eq!(fetched(&gateway, &client, fetch("state", &[(0, 0)])).await, Ok(before.clone()));
    let within = fetched(&gateway, &client, fetch("state", &[(0, 1)])).await;
    assert_eq!(within, Err(ErrorCode::KafkaStorageError), "nobody knows where in it a client begins");
    let mut little = fetch("state", &[(0, 0)]);
    little.topics[0].partitions[0].max_bytes = 3000;
    let less = fetched(&gateway, &client, little).await;
    assert_eq!(less, Err(ErrorCode::KafkaStorageError), "it is more than the client takes");
    world.disk.heal();

    // In a session it is news as what was read is, also where nothing else has changed.
    let mut session = fetch("state", &[(0, 0)]);
    session.session_epoch = 0;
    let reply = soon(gateway.call(&client, Op::Fetch(session)).reply()).await.unwrap();
    let Reply::Fetch(reply) = reply else { panic!("a fetch") };
    assert_eq!(reply.topics[0].partitions[0].records.concat(), before);
    let mut again = fetch("state", &[]);
    (again.session_id, again.session_epoch) = (reply.session_id, 1);
    again.topics.clear();
    forbid_reading(&world);
    assert_eq!(fetched(&gateway, &client, again).await, Ok(before.clone()));
    world.disk.heal();

    world.topic("state").partitions[0].log().roll();
    world.produce("state", 0, keyed(&[(Some("c"), Some("9"))])).await.unwrap();
    world.settle().await;
    world.broker.clean().await;
    let after = fetched(&gateway, &client, fetch("state", &[(0, 0)])).await.unwrap();
    assert!(after.len() < before.len(), "what was compacted is gone");
    assert_eq!(after, world.read("state", 0, 0).await.records.concat());
    gateway.close().await;
    acceptor.close().await;
}

/// A broker whose files have records of about 2,000 bytes at offset 0 and at offset 1 of both partitions of `orders`, and
/// whose memory has none.
async fn with_orders_on_disk() -> World {
    let world = World::new().await;
    world.create("orders", 2, &[]).await;
    for partition in [0, 1] {
        for fill in ["x", "y"] {
            let records = keyed(&[(None, Some(&fill.repeat(2000)))]);
            world.produce("orders", partition, records).await.unwrap();
        }
    }
    world.settle().await;
    world.restart().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_has_of_records_that_were_deleted_is_not_given_out() {
    let world = with_orders_on_disk().await;
    let (acceptor, address) = accept(&world).await;
    let gateway = connect(&world, address).await;
    let client = Carrier::new(Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into());
    let all = fetched(&gateway, &client, fetch("orders", &[(0, 0)])).await.unwrap();
    let topics = vec![op::DeleteRecordsTopic { name: "orders".into(), partitions: vec![(0, 1)] }];
    let _ = world.call(Op::DeleteRecords(op::DeleteRecords { topics })).reply().await.unwrap();
    let gone = fetched(&gateway, &client, fetch("orders", &[(0, 0)])).await;
    assert_eq!(gone, Err(ErrorCode::OffsetOutOfRange));
    let rest = fetched(&gateway, &client, fetch("orders", &[(0, 1)])).await.unwrap();
    assert!(!rest.is_empty() && rest.len() < all.len() && all.ends_with(&rest), "the first record is gone");
    gateway.close().await;
    acceptor.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_for_which_no_bytes_are_left_sends_nobody_to_the_disk() {
    let world = with_orders_on_disk().await;
    let (acceptor, address) = accept(&world).await;
    let gateway = connect(&world, address).await;
    let client = Carrier::new(Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into());
    let first = fetched(&gateway, &client, fetch("orders", &[(0, 0)])).await.unwrap();
    forbid_reading(&world);
    let both = |offset, max_bytes: usize| {
        let max_bytes = i32::try_from(max_bytes).unwrap();
        let asked = op::Fetch { max_bytes, ..fetch("orders", &[(0, 0), (1, offset)]) };
        answered(&gateway, &client, asked)
    };
    let [at_hand, out_of_bytes] = both(0, first.len()).await;
    assert_eq!((at_hand.error, at_hand.records.concat()), (None, first.clone()));
    assert_eq!(
        (out_of_bytes.error, out_of_bytes.has_records(), out_of_bytes.high_watermark),
        (None, false, 2)
    );
    let [_, out_of_range] = both(99, first.len()).await;
    assert_eq!(out_of_range.error, Some(ErrorCode::OffsetOutOfRange));
    // With bytes left the second partition is read, and the first with it.
    let failed = both(0, 2 * first.len()).await;
    assert_eq!(failed.map(|partition| partition.error), [Some(ErrorCode::KafkaStorageError); 2]);
    world.disk.heal();
    let read = both(0, 2 * first.len()).await;
    let second = world.read("orders", 1, 0).await.records.concat();
    assert_eq!(read.map(|partition| partition.records.concat()), [first, second]);
    gateway.close().await;
    acceptor.close().await;
}

#[tokio::test]
async fn only_gateways_that_were_allowed_come_in_each_under_its_own_node_id() {
    let world = World::new().await;
    let keeper = world.broker.gatekeeper();
    let key = Key::generate();
    let refused = keeper.admit(key.id(), &hello()).unwrap_err();
    assert!(refused.0.contains("kohort broker allow"), "{}", refused.0);
    let allowed = world.broker.allow_gateway(&key.id().to_string()).await.unwrap();
    assert_eq!(keeper.admit(key.id(), &hello()).unwrap(), allowed.node_id);
    assert_ne!(allowed.node_id, world.broker.admin().settings().node_id());
    world.broker.deny_gateway(&key.id().to_string()).await.unwrap();
    assert!(keeper.admit(key.id(), &hello()).is_err());
    assert!(world.broker.live_gateways().is_empty());
    assert_eq!(world.broker.roster(), None, "who is alone has no list");
}
