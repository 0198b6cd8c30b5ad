//! Links: ops and replies, who gets in, who is told what, and what is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::op::{self, Op, TopicRef};
use coordination::reply::{self, Reply};
use rail::format::Version;
use rail::{Answer, Hello, LinkState, Lost, Node, Rail, Roster, TraceContext, refuse};

use crate::broker::{Broker, Doors, Parking, Script, client, heard, heartbeat, reply_to, within};
use crate::golden::every_op;

#[tokio::test(flavor = "multi_thread")]
async fn every_op_reaches_the_broker_and_its_reply_the_client() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    for seed in 0..4 {
        for op in every_op(seed) {
            let reply = within(gateway.call(&client, op.clone()).reply()).await.expect("a reply");
            assert_eq!(reply, reply_to(&op));
            assert_eq!(script.calls_now().pop(), Some(op));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_learns_on_whose_behalf_an_op_is() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let mut alice = client();
    alice.calls_itself(Some(Arc::from("app-1")));
    alice.trace = Some(TraceContext { trace_id: 5 << 70, span_id: 9, is_sampled: true });
    let nobody = client();
    within(gateway.call(&alice, heartbeat(1)).reply()).await.expect("a reply");
    within(gateway.call(&nobody, heartbeat(2)).reply()).await.expect("a reply");
    let org = OrgId::from_u128(77);
    alice.belongs_to(org, Arc::from("User:alice"));
    alice.trace = None;
    within(gateway.call(&alice, heartbeat(3)).reply()).await.expect("a reply");

    let calls = script.calls(3).await;
    let [first, second, third] = [0, 1, 2].map(|place| &calls[place].0);
    assert_eq!(first.client_id().map(|id| &**id), Some("app-1"));
    assert_eq!((first.org(), &**first.principal()), (OrgId::DEFAULT, rail::ANONYMOUS));
    assert_eq!((first.host(), &**first.listener()), (alice.host(), "PLAINTEXT"));
    assert_eq!(first.trace, Some(TraceContext { trace_id: 5 << 70, span_id: 9, is_sampled: true }));
    assert_eq!((third.org(), &**third.principal(), third.trace), (org, "User:alice", None));
    assert_eq!(first.number(), third.number(), "it is the same client");
    assert_ne!(first.number(), second.number());
    assert_eq!(second.client_id(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_two_gateways_never_have_the_same_number() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateways = [broker.gateway().await, broker.gateway().await];
    let client = client();
    for gateway in &gateways {
        within(gateway.call(&client, heartbeat(1)).reply()).await.expect("a reply");
    }
    let calls = script.calls(2).await;
    assert_ne!(calls[0].0.number(), calls[1].0.number());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_leaves_at_the_broker_whatever_lanes_it_used() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    for op in every_op(1) {
        within(gateway.call(&client, op).reply()).await.expect("a reply");
    }
    gateway.leave(&client);
    let number = script.calls(1).await[0].0.number();
    assert_eq!(script.left(1).await, [number]);
    within(gateway.call(&client, heartbeat(1)).reply()).await.expect("it may come again");
    drop(gateway);
    assert_eq!(script.left(2).await.len(), 2, "a link takes its clients with it");
}

/// Lets everybody in.
fn granting() -> Arc<Script> {
    Script::new(|_, op| if op == Op::Enter { Reply::Enter(None).into() } else { reply_to(&op).into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn who_came_while_there_was_no_link_takes_a_place_when_there_is_one() {
    let script = granting();
    let broker = Broker::start(&script).await;
    let gateway = broker.dialling(Hello::default(), Version::ALL).await;
    let client = client();
    let entered = within(gateway.call(&client, Op::Enter).reply()).await;
    assert_eq!(entered, Ok(Reply::Enter(None)));
    within(gateway.connected()).await;
    within(gateway.call(&client, heartbeat(1)).reply()).await.expect("a reply");
    assert_eq!(script.calls_now(), [Op::Enter, heartbeat(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_among_an_organisations_connections_is_taken_again_over_a_new_link() {
    let script = granting();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    within(gateway.call(&client, Op::Enter).reply()).await.expect("a place");
    within(gateway.call(&client, every_op(1).remove(1)).reply()).await.expect("a reply on another lane");
    assert_eq!(script.calls_now().iter().filter(|op| **op == Op::Enter).count(), 1);

    let script = granting();
    let mut link = gateway.link();
    link.mark_unchanged();
    let _broker = broker.restart(&script).await;
    let calls = script.calls(1).await;
    assert_eq!(calls[0].1, Op::Enter, "nobody has to ask for something before");
    loop {
        if within(gateway.call(&client, heartbeat(1)).reply()).await == Ok(reply_to(&heartbeat(1))) {
            break;
        }
        within(link.changed()).await.expect("the gateway is there");
    }
    assert_eq!(script.calls_now().iter().filter(|op| **op == Op::Enter).count(), 1);
    gateway.leave(&client);
    script.left(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_not_known_is_refused_before_its_first_op() {
    let script = Script::obliging();
    let doors = Doors { is_closed: true, ..Doors::default() };
    let broker = Broker::start_as(&script, doors, Version::ALL).await;
    let gateway = broker.dialling(Hello::default(), Version::ALL).await;
    let mut link = gateway.link();
    let refused = within(link.wait_for(|state| matches!(state, LinkState::Refused { .. }))).await;
    let LinkState::Refused { reason } = refused.expect("the gateway is there").clone() else {
        panic!("refused")
    };
    assert!(reason.contains("is not on the list"), "{reason}");
    assert_eq!(gateway.call(&client(), heartbeat(1)).reply().await, Ok(no_coordinator()));
    assert!(script.calls_now().is_empty());
    assert!(broker.acceptor.gateways().is_empty());
    assert!(broker.doors.refused.load(Ordering::SeqCst) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_cut_off_loses_its_link() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let id = broker.acceptor.gateways()[0].id;
    let mut link = gateway.link();
    assert!(broker.acceptor.cut(id));
    within(link.wait_for(|state| matches!(state, LinkState::Refused { .. }))).await.expect("it is told");
}

fn no_coordinator() -> Reply {
    Reply::Heartbeat(reply::Heartbeat { error: Some(ErrorCode::NotCoordinator) })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_is_lost_with_the_link_and_what_comes_later_is_refused_until_there_is_another() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let call = |op: Op| (refuse(&op), matches!(op, Op::FindCoordinator(_)), gateway.call(&client, op));
    let owed: Vec<(_, bool, Answer)> = every_op(2).into_iter().map(call).collect();
    script.calls(owed.len()).await;
    let mut link = gateway.link();
    within(broker.acceptor.close()).await;
    for (refusal, changes_nothing, answer) in owed {
        let expected = if changes_nothing { refusal } else { Err(Lost) };
        assert_eq!(within(answer.reply()).await, expected);
    }
    parking.dropped(every_op(2).len()).await;
    within(link.wait_for(|state| *state == LinkState::Dialling)).await.expect("the gateway is there");
    assert_eq!(gateway.call(&client, heartbeat(1)).reply().await, Ok(no_coordinator()));
    for topics in [None, Some(vec![TopicRef::Name("orders".to_owned())])] {
        let metadata = Op::Metadata(op::Metadata { topics, allow_auto_topic_creation: false });
        assert_eq!(gateway.call(&client, metadata).reply().await, Err(Lost));
    }

    let script = Script::obliging();
    let _broker = broker.restart(&script).await;
    within(link.wait_for(|state| matches!(state, LinkState::Up { .. }))).await.expect("the gateway is there");
    assert_eq!(within(gateway.call(&client, heartbeat(1)).reply()).await, Ok(reply_to(&heartbeat(1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_goes_takes_its_parked_ops_and_its_clients_with_it() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let clients = [client(), client(), client()];
    let owed: Vec<_> = clients.iter().map(|client| gateway.call(client, heartbeat(1))).collect();
    script.calls(3).await;
    within(gateway.close()).await;
    for answer in owed {
        assert_eq!(within(answer.reply()).await, Err(Lost));
    }
    parking.dropped(3).await;
    assert_eq!(script.left(3).await.len(), 3);
    let mut left = broker.doors.left.subscribe();
    within(left.wait_for(|&left| left == 1)).await.expect("the doors are there");
    assert!(broker.acceptor.gateways().is_empty());
}

fn listener(host: &str) -> Vec<(String, String, u16)> {
    vec![("PLAINTEXT".to_owned(), host.to_owned(), 9092)]
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_are_told_of_each_other_as_they_come_and_go() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let mut nodes = broker.acceptor.nodes();
    let mut gateways = Vec::new();
    for (host, count) in [("one", 1), ("two", 2)] {
        let hello = Hello { listeners: listener(host), software: "test".to_owned() };
        let gateway = broker.dialling(hello, Version::ALL).await;
        within(gateway.connected()).await;
        assert_eq!(within(nodes.wait_for(|nodes| nodes.len() == count)).await.expect("there").len(), count);
        gateways.push(gateway);
    }
    // One without an address that can be told is nobody that clients are sent to.
    let silent = broker.gateway().await;
    let all = vec![Node { id: 1, listeners: listener("one") }, Node { id: 2, listeners: listener("two") }];
    assert_eq!(told(&gateways[0], 2).await, Roster { me: 1, nodes: all.clone() });
    assert_eq!(told(&gateways[1], 2).await, Roster { me: 2, nodes: all.clone() });
    assert_eq!(told(&silent, 2).await, Roster { me: 3, nodes: all });
    assert_eq!(broker.acceptor.gateways().len(), 3);

    within(gateways.remove(0).close()).await;
    assert_eq!(
        told(&gateways[0], 1).await,
        Roster { me: 2, nodes: vec![Node { id: 2, listeners: listener("two") }] }
    );
    broker.acceptor.set_own(Some(Node { id: 0, listeners: listener("own") }));
    assert_eq!(told(&gateways[0], 2).await.nodes[0].id, 0);
    assert_eq!(broker.acceptor.roster(7).nodes.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roster_that_is_longer_than_what_is_written_at_once_arrives() {
    let broker = Broker::start(&Script::obliging()).await;
    let gateway = broker.gateway().await;
    let long = Node { id: 0, listeners: listener(&"long".repeat(2 << 20)) };
    broker.acceptor.set_own(Some(long.clone()));
    assert!(told(&gateway, 1).await.nodes == [long.clone()], "told to one that is there");
    assert!(told(&*broker.gateway().await, 1).await.nodes == [long], "told to one that comes");
}

/// The roster of a gateway once it has this many nodes. There is no event for it; clients just find it there.
async fn told(gateway: &rail::RemoteRail, count: usize) -> Roster {
    within(async {
        loop {
            match gateway.roster() {
                Some(roster) if roster.nodes.len() == count => return (*roster).clone(),
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_link_is_needed_to_answer_within_one_process() {
    let script = Script::new(|_, _| heard().into());
    assert!(matches!(script.call(&client(), heartbeat(1)), Answer::Now(_)));
}
