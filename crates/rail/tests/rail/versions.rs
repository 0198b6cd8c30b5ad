//! Gateways and brokers that are not upgraded at the same time.

use coordination::error_code::ErrorCode;
use coordination::op::Op;
use coordination::reply::Reply;
use rail::format::{Version, since};
use rail::{Hello, LinkState, Rail, TraceContext};

use crate::broker::{Broker, Doors, Script, client, heartbeat, reply_to, within};
use crate::golden::{every_op, ops_of};

/// Which version two ends have agreed on, after every op that there is in it was asked over their link.
async fn speak(broker: &'static [Version], gateway: &'static [Version]) -> Version {
    let script = Script::obliging();
    let broker = Broker::start_as(&script, Doors::default(), broker).await;
    let gateway = broker.dialling(Hello::default(), gateway).await;
    within(gateway.connected()).await;
    let version = broker.acceptor.gateways()[0].version;
    let mut client = client();
    client.trace = Some(TraceContext { trace_id: 1, span_id: 2, is_sampled: true });
    for op in ops_of(version, 3) {
        let reply = within(gateway.call(&client, op.clone()).reply()).await.expect("a reply");
        assert_eq!(reply, reply_to(&op));
    }
    let calls = script.calls(1).await;
    assert_eq!(calls.iter().map(|(_, op)| op.clone()).collect::<Vec<_>>(), ops_of(version, 3));
    assert!(calls[0].0.trace.is_some());
    version
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_common_version_is_spoken() {
    assert_eq!(speak(Version::ALL, Version::ALL).await, Version::Five);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_of_earlier_versions_work_with_a_new_broker() {
    assert_eq!(speak(Version::ALL, &[Version::Four]).await, Version::Four);
    assert_eq!(speak(Version::ALL, &[Version::Three]).await, Version::Three);
    assert_eq!(speak(Version::ALL, &[Version::Two]).await, Version::Two);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_gateway_works_with_brokers_of_earlier_versions() {
    assert_eq!(speak(&[Version::Four], Version::ALL).await, Version::Four);
    assert_eq!(speak(&[Version::Three], Version::ALL).await, Version::Three);
    assert_eq!(speak(&[Version::Two], Version::ALL).await, Version::Two);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_broker_does_not_know_is_refused_and_the_link_stays() {
    let script = Script::obliging();
    let broker = Broker::start_as(&script, Doors::default(), &[Version::Three]).await;
    let gateway = broker.dialling(Hello::default(), Version::ALL).await;
    within(gateway.connected()).await;
    let client = client();
    let mut link = gateway.link();
    link.borrow_and_update();
    let newer: Vec<Op> = every_op(1).into_iter().filter(|op| since(op) > Version::Three).collect();
    assert!(!newer.is_empty());
    for op in newer {
        let reply = within(gateway.call(&client, op).reply()).await.expect("a reply");
        let Reply::DescribeClientQuotas(reply) = reply else { panic!("{reply:?}") };
        assert_eq!(reply.error.map(|refusal| refusal.code), Some(ErrorCode::UnsupportedVersion));
    }
    within(gateway.call(&client, heartbeat(1)).reply()).await.expect("a reply");
    assert_eq!(script.calls_now(), [heartbeat(1)]);
    assert!(!link.has_changed().expect("the gateway is there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_without_a_common_version_are_told_both() {
    let script = Script::obliging();
    let broker = Broker::start_as(&script, Doors::default(), &[Version::Two]).await;
    let gateway = broker.dialling(Hello::default(), &[Version::Three]).await;
    let mut link = gateway.link();
    let refused = within(link.wait_for(|state| matches!(state, LinkState::Refused { .. }))).await;
    let LinkState::Refused { reason } = refused.expect("the gateway is there").clone() else {
        panic!("refused")
    };
    assert_eq!(reason, "the gateway speaks kohort-rail/3, the broker kohort-rail/2");
    assert!(gateway.call(&client(), heartbeat(1)).reply().await.is_ok(), "refused, not sent");
    assert!(script.calls_now().is_empty());
}
