//! Clients are told to dial an address that works for them.

use gateway::{Gateway, ListenerConfig, Options};
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::metadata::MetadataRequest;

use crate::script::{Client, Running, listener};

/// The address of the only node, as Metadata and DescribeCluster tell it.
async fn told(client: &mut Client) -> (String, i32) {
    let metadata = client.ask(&MetadataRequest::default(), 9).await;
    let [node] = &metadata.brokers[..] else { panic!("one node: {metadata:?}") };
    let cluster = client.ask(&DescribeClusterRequest { endpoint_type: 1, ..Default::default() }, 1).await;
    let [same] = &cluster.brokers[..] else { panic!("one node: {cluster:?}") };
    assert_eq!((&node.host, node.port), (&same.host, same.port));
    (node.host.clone(), node.port)
}

#[tokio::test]
async fn clients_are_told_the_address_that_they_dialled() {
    let gateway = Running::start_on(vec![listener("0.0.0.0:0"), listener("127.0.0.1:0")], Options::default());
    let port = gateway.addrs[0].port();
    for host in ["127.0.0.1", "127.0.0.2"] {
        let mut client = Client::connect(format!("{host}:{port}").parse().expect("an address")).await;
        assert_eq!(told(&mut client).await, (host.to_owned(), i32::from(port)));
    }
    let mut client = Client::connect(gateway.addrs[1]).await;
    assert_eq!(told(&mut client).await, ("127.0.0.1".to_owned(), i32::from(gateway.addrs[1].port())));
}

#[tokio::test]
async fn clients_over_ipv6_are_told_an_ipv6_address_and_others_are_not() {
    match Gateway::bind(vec![listener("[::1]:0")], Options::default()) {
        Ok(_) => {}
        // Nothing to see on a machine without IPv6.
        Err(error) => return assert!(error.address_is_missing(), "{error}"),
    }
    let gateway = Running::start_on(vec![listener("[::]:0")], Options::default());
    let port = gateway.addrs[0].port();
    let mut client = Client::connect(format!("[::1]:{port}").parse().expect("an address")).await;
    assert_eq!(told(&mut client).await, ("::1".to_owned(), i32::from(port)));
    let mut client = Client::connect(format!("127.0.0.1:{port}").parse().expect("an address")).await;
    assert_eq!(told(&mut client).await, ("127.0.0.1".to_owned(), i32::from(port)));
}

#[tokio::test]
async fn an_advertised_address_wins() {
    let advertised = Some(("kohort.example".to_owned(), 19092));
    let gateway =
        Running::start_on(vec![ListenerConfig { advertised, ..listener("127.0.0.1:0") }], Options::default());
    let mut client = gateway.connect().await;
    assert_eq!(told(&mut client).await, ("kohort.example".to_owned(), 19092));
}

#[tokio::test]
async fn an_address_in_use_is_refused_with_what_to_do() {
    let gateway = Running::start(Options::default());
    let taken = gateway.addrs[0];
    let error =
        Gateway::bind(vec![listener(&taken.to_string())], Options::default()).expect_err("it is taken");
    let message = error.to_string();
    assert!(message.contains(&taken.to_string()) && message.contains("in use"), "{message}");
    assert!(!error.address_is_missing());

    let error = Gateway::bind(vec![listener("192.0.2.1:0")], Options::default()).expect_err("nobody has it");
    assert!(error.address_is_missing(), "{error}");
}
