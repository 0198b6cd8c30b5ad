//! Heartbeats and commits that clients send together.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use coordination::error_code::ErrorCode;
use coordination::op::{OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, Op, TopicRef};
use coordination::reply::{self, Reply};
use rail::format::Version;
use rail::{Answer, Durable, Gated, Hello, Lost, Progress, Rail, Run, TOGETHER_MAX};

use crate::broker::{Broker, Parking, Script, client, heard, heartbeat, within};

fn commit(offset: i64) -> Op {
    let partition =
        OffsetCommitPartition { index: 0, offset, leader_epoch: -1, metadata: Some(offset.to_string()) };
    let topic = OffsetCommitTopic { topic: TopicRef::Name("orders".to_owned()), partitions: vec![partition] };
    Op::OffsetCommit(OffsetCommit {
        group: "readers".to_owned(),
        generation: 3,
        member_id: "member-1".to_owned(),
        instance_id: None,
        retention_ms: None,
        knows_missing_groups: true,
        topics: vec![topic],
    })
}

fn committed() -> Reply {
    let topic = TopicRef::Name("orders".to_owned());
    let topics = vec![reply::OffsetCommitTopic { topic, partitions: vec![(0, None)] }];
    Reply::OffsetCommit(reply::OffsetCommit { topics })
}

fn run(reply: Reply, count: u32) -> Run {
    Run { reply, count }
}

/// Answers heartbeats and commits.
fn attentive() -> Arc<Script> {
    Script::new(|_, op| match op {
        Op::Heartbeat(_) => heard().into(),
        _ => committed().into(),
    })
}

/// Answers heartbeats, and commits when the test says so.
fn parking_commits() -> (Arc<Script>, Parking) {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, op| match op {
        Op::Heartbeat(_) => heard().into(),
        _ => parked.park(),
    });
    (script, parking)
}

fn refused() -> Reply {
    Reply::Heartbeat(reply::Heartbeat { error: Some(ErrorCode::NotCoordinator) })
}

async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_over_together_takes_effect_in_order_and_is_answered_in_order() {
    let script = attentive();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let (one, other) = (client(), client());
    let ops = [heartbeat(1), commit(1), commit(2), heartbeat(1), commit(i64::MAX), commit(-1), heartbeat(2)];
    let mut heard_of = 0;
    for round in 0..20 {
        for client in [&one, &other] {
            let asked = gateway.call_together(client, ops.to_vec()).expect("there is a link");
            let runs = within(asked).await.expect("replies");
            let expected =
                [run(heard(), 1), run(committed(), 2), run(heard(), 1), run(committed(), 2), run(heard(), 1)];
            assert_eq!(runs, expected, "round {round}");
            heard_of += ops.len();
        }
    }
    let calls = script.calls(heard_of).await;
    for (place, (carrier, op)) in calls.iter().enumerate() {
        assert_eq!(*op, ops[place % ops.len()], "call {place}");
        assert!(carrier.trace.is_none());
    }
    // Alone again, as they were.
    for op in &ops {
        within(gateway.call(&one, op.clone()).reply()).await.expect("a reply");
    }
    assert_eq!(script.calls_now()[heard_of..], ops);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_heartbeat_is_heard_once_and_answered_as_often_as_it_was_said() {
    let script = attentive();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let asked = gateway.call_together(&client, vec![heartbeat(1); TOGETHER_MAX]).expect("there is a link");
    let most = u32::try_from(TOGETHER_MAX).expect("few");
    assert_eq!(within(asked).await, Ok(vec![run(heard(), most)]));
    assert_eq!(script.calls_now(), [heartbeat(1), heartbeat(1)], "told whole, and then as repeated");
    assert!(gateway.gathers(&heartbeat(1)) && gateway.gathers(&commit(1)) && !gateway.gathers(&Op::Enter));
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_come_when_the_last_of_them_is_there() {
    let (script, parking) = parking_commits();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let ops = vec![commit(1), heartbeat(1), commit(2)];
    let mut asked = gateway.call_together(&client, ops).expect("there is a link");
    script.calls(3).await;
    parking.answer(1, committed());
    // Others are not held up.
    assert_eq!(within(gateway.call(&client, heartbeat(1)).reply()).await, Ok(heard()));
    assert!(is_pending(&mut asked).await);
    parking.answer(0, committed());
    let expected = vec![run(committed(), 1), run(heard(), 1), run(committed(), 1)];
    assert_eq!(within(asked).await, Ok(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_one_shard_are_told_when_they_are_durable_or_refused() {
    for is_durable in [true, false] {
        let progress = Arc::new(Progress::default());
        let shard = Arc::clone(&progress);
        let script = Script::new(move |_, op| {
            let Op::OffsetCommit(op) = op else { return heard().into() };
            let flush = u64::from(op.topics[0].partitions[0].offset > 10) + 1;
            let until = Durable::new(Arc::clone(&shard), flush);
            Answer::Gated(Gated::new(until, committed(), |_| refused()))
        });
        let broker = Broker::start(&script).await;
        let gateway = broker.gateway().await;
        let client = client();
        let ops = vec![commit(1), commit(2), commit(11)];
        let mut asked = gateway.call_together(&client, ops).expect("there is a link");
        script.calls(3).await;
        progress.advance(1).wake();
        assert_eq!(within(gateway.call(&client, heartbeat(1)).reply()).await, Ok(heard()));
        assert!(is_pending(&mut asked).await, "the last of them is not durable");
        let woken = if is_durable { progress.advance(2) } else { progress.fail() };
        woken.wake();
        let reply = if is_durable { committed() } else { refused() };
        assert_eq!(within(asked).await, Ok(vec![run(reply, 3)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_is_forgotten_and_the_name_is_used_again() {
    let (script, parking) = parking_commits();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    for round in 1..=50 {
        let asked = gateway.call_together(&client, vec![commit(1), commit(2)]).expect("there is a link");
        script.calls(2 * round).await;
        drop(asked);
        parking.dropped(2 * round).await;
    }
    let asked = gateway.call_together(&client, vec![heartbeat(1), heartbeat(2)]).expect("there is a link");
    assert_eq!(within(asked).await, Ok(vec![run(heard(), 2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_remembered_of_another_client_or_of_another_link() {
    let script = attentive();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let ops = vec![heartbeat(7), commit(7)];
    let mut said = 0;
    let mut one = client();
    for round in 0..6 {
        match round {
            2 => one.calls_itself(Some("another".into())),
            4 => {
                gateway.leave(&one);
                let number = one.number();
                one = std::iter::repeat_with(client)
                    .find(|next| next.number() % 2 == number % 2)
                    .expect("one of two");
            }
            _ => {}
        }
        let asked = gateway.call_together(&one, ops.clone()).expect("there is a link");
        within(asked).await.expect("replies");
        said += ops.len();
        let calls = script.calls(said).await;
        assert_eq!(calls[said - 2..].iter().map(|(_, op)| op.clone()).collect::<Vec<_>>(), ops);
        assert_eq!(calls[said - 1].0.client_id(), one.client_id());
    }
    let again = attentive();
    let mut link = gateway.link();
    link.borrow_and_update();
    let _broker = broker.restart(&again).await;
    within(link.wait_for(|state| !matches!(state, rail::LinkState::Up { .. }))).await.expect("it is there");
    within(gateway.connected()).await;
    let asked = gateway.call_together(&one, ops.clone()).expect("there is a link");
    within(asked).await.expect("replies");
    assert_eq!(again.calls_now(), ops);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_link_or_to_an_older_broker_they_are_given_back() {
    let script = attentive();
    let broker = Broker::start_as(&script, crate::broker::Doors::default(), &[Version::Four]).await;
    let gateway = broker.dialling(Hello::default(), Version::ALL).await;
    within(gateway.connected()).await;
    let ops = vec![heartbeat(1), commit(1)];
    assert_eq!(gateway.call_together(&client(), ops.clone()).expect_err("an older broker"), ops);
    within(gateway.close()).await;
    assert_eq!(gateway.call_together(&client(), ops.clone()).expect_err("no link"), ops);
    assert!(script.calls_now().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_lost_with_the_link() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let asked = gateway.call_together(&client(), vec![commit(1), commit(2)]).expect("there is a link");
    script.calls(2).await;
    within(broker.acceptor.close()).await;
    assert_eq!(within(asked).await, Err(Lost));
}
