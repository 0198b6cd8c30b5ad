//! Gateways and brokers that are not upgraded at the same time.

use rail::format::Version;
use rail::{Hello, LinkState, Rail, TraceContext};

use crate::broker::{Broker, Doors, Script, client, heartbeat, reply_to, within};
use crate::golden::every_op;

async fn speak(broker: &'static [Version], gateway: &'static [Version]) -> (Version, Option<TraceContext>) {
    let script = Script::obliging();
    let broker = Broker::start_as(&script, Doors::default(), broker).await;
    let gateway = broker.dialling(Hello::default(), gateway).await;
    within(gateway.connected()).await;
    let mut client = client();
    client.trace = Some(TraceContext { trace_id: 1, span_id: 2, is_sampled: true });
    for op in every_op(3) {
        let reply = within(gateway.call(&client, op.clone()).reply()).await.expect("a reply");
        assert_eq!(reply, reply_to(&op));
    }
    let calls = script.calls(1).await;
    assert_eq!(calls.iter().map(|(_, op)| op.clone()).collect::<Vec<_>>(), every_op(3));
    (broker.acceptor.gateways()[0].version, calls[0].0.trace)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_common_version_is_spoken() {
    let (version, trace) = speak(Version::ALL, Version::ALL).await;
    assert_eq!((version, trace.is_some()), (Version::Three, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_of_one_version_back_works_with_a_new_broker() {
    let (version, trace) = speak(Version::ALL, &[Version::Two]).await;
    assert_eq!((version, trace.is_some()), (Version::Two, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_gateway_works_with_a_broker_of_one_version_back() {
    let (version, trace) = speak(&[Version::Two], Version::ALL).await;
    assert_eq!((version, trace.is_some()), (Version::Two, true));
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
