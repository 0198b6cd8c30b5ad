//! Lanes: order, parked ops, and large messages that do not delay small ones.

use bytes::Bytes;
use coordination::op::{self, Heartbeat, Op, TopicRef};
use rail::format::Version;
use rail::{Answer, FRAME_MAX, Rail, TraceContext};

use crate::broker::{Broker, Parking, Script, client, heard, heartbeat, reply_to, within};
use crate::kept_records::fetched;

fn produce(size: usize) -> Op {
    let partitions = vec![op::ProducePartition { index: 0, records: Some(Bytes::from(vec![7; size])) }];
    let topics = vec![op::ProduceTopic { topic: TopicRef::Name("orders".to_owned()), partitions }];
    Op::Produce(op::Produce { transactional_id: None, acks: -1, zstd: true, topics })
}

pub(crate) fn fetch() -> Op {
    Op::Fetch(op::Fetch {
        max_wait: std::time::Duration::from_secs(500),
        min_bytes: 1,
        max_bytes: i32::MAX,
        read_committed: false,
        session_id: 0,
        session_epoch: -1,
        by_id: false,
        topics: Vec::new(),
        forgotten: Vec::new(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_of_a_client_take_effect_in_order_whatever_their_size() {
    // Thousands of heartbeats are called in one turn of the broker's lane, and the link ends if that takes seconds.
    let script = Script::new(|_, op| match op {
        Op::Heartbeat(_) => heard().into(),
        op => reply_to(&op).into(),
    });
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let sizes = [10, 3 * FRAME_MAX, 20, FRAME_MAX, 30, 0, 100_000, 40];
    let answers: Vec<_> = sizes.iter().map(|&size| gateway.call(&client, produce(size))).collect();
    for answer in answers {
        within(answer.reply()).await.expect("a reply");
    }
    assert_eq!(script.calls_now(), sizes.map(produce));

    let answers: Vec<_> = (0..5000).map(|generation| gateway.call(&client, heartbeat(generation))).collect();
    for answer in answers {
        within(answer.reply()).await.expect("a reply");
    }
    assert!(script.calls_now()[sizes.len()..].iter().cloned().eq((0..5000).map(heartbeat)));
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_that_are_said_again_arrive_as_they_were_said() {
    for versions in [Version::ALL, &[Version::Two]] {
        let script = Script::obliging();
        let broker = Broker::start(&script).await;
        let gateway = broker.dialling(rail::Hello::default(), versions).await;
        within(gateway.connected()).await;
        let long = |generation| match heartbeat(generation) {
            Op::Heartbeat(short) => {
                Op::Heartbeat(Heartbeat { group: "g".repeat(5000), ..Heartbeat::clone(&short) }.into())
            }
            other => other,
        };
        let mut clients = [client(), client()];
        let mut said = Vec::new();
        for round in 0..12 {
            for carrier in &mut clients {
                match round {
                    4 => carrier.calls_itself(Some("another".into())),
                    6 => carrier.trace = Some(TraceContext { trace_id: 1, span_id: 2, is_sampled: true }),
                    8 => carrier.trace = None,
                    _ => {}
                }
                let op = if round % 5 == 3 { long(round / 7) } else { heartbeat(round / 7) };
                within(gateway.call(carrier, op.clone()).reply()).await.expect("a reply");
                said.push((carrier.client_id().cloned(), carrier.trace, op));
            }
        }
        // Another client gets the place of one that has left, and nothing of what that one said.
        gateway.leave(&clients[0]);
        let is_on_its_lane = |next: &rail::Carrier| next.number() % 2 == clients[0].number() % 2;
        let next = std::iter::repeat_with(client).find(is_on_its_lane).expect("one of two");
        for _ in 0..2 {
            within(gateway.call(&next, heartbeat(1)).reply()).await.expect("a reply");
            said.push((None, None, heartbeat(1)));
        }
        let heard = script.calls(said.len()).await;
        let heard = heard.into_iter().map(|(carrier, op)| (carrier.client_id().cloned(), carrier.trace, op));
        assert_eq!(heard.collect::<Vec<_>>(), said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_back_in_the_order_in_which_they_are_there() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let mut answers: Vec<_> = (0..3).map(|generation| gateway.call(&client, heartbeat(generation))).collect();
    script.calls(3).await;
    for place in [2, 0, 1] {
        parking.answer(place, heard());
        let answer = std::mem::replace(&mut answers[place], Answer::Now(heard()));
        assert_eq!(within(answer.reply()).await, Ok(heard()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_op_holds_nobody_up_and_is_dropped_when_its_client_gives_up() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, op| match op {
        Op::JoinGroup(_) => parked.park(),
        op => reply_to(&op).into(),
    });
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let joins: Vec<_> =
        (0..1000).map(|_| gateway.call(&client, crate::random::random_variant(16, 4))).collect();
    let Op::JoinGroup(_) = &script.calls(1000).await[0].1 else { panic!("a join") };
    within(gateway.call(&client, heartbeat(1)).reply()).await.expect("a reply");
    drop(joins);
    parking.dropped(1000).await;
    // Their ids are free again, and mean other ops now.
    for generation in 0..2000 {
        let reply = within(gateway.call(&client, heartbeat(generation)).reply()).await;
        assert_eq!(reply, Ok(reply_to(&heartbeat(generation))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_op_that_is_given_up_while_its_reply_is_on_its_way_confuses_nobody() {
    let script = Script::obliging();
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    for round in 0..200 {
        let answers: Vec<_> =
            (0..20).map(|generation| gateway.call(&client, heartbeat(generation))).collect();
        for (place, answer) in answers.into_iter().enumerate() {
            if (place + round) % 3 > 0 {
                assert_eq!(within(answer.reply()).await, Ok(reply_to(&heartbeat(1))));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_fetch_does_not_delay_a_heartbeat() {
    const SIZE: usize = 100 << 20;
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, op| match op {
        Op::Fetch(_) => parked.park(),
        _ => heard().into(),
    });
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let (reader, member) = (client(), client());
    let mut fetching = gateway.call(&reader, fetch());
    script.calls(1).await;
    let batches: Vec<Bytes> = (0..100).map(|number| Bytes::from(vec![number; SIZE / 100])).collect();
    parking.answer(0, fetched(None, &batches));
    // The fetch has been taken for its way back; heartbeats go to and fro while it travels.
    parking.dropped(1).await;
    let mut overtaken = 0;
    let reply = within(async {
        loop {
            tokio::select! {
                biased;
                reply = std::future::poll_fn(|context| fetching.poll(context)) => break reply,
                beat = gateway.call(&member, heartbeat(1)).reply() => {
                    assert_eq!(beat, Ok(heard()));
                    overtaken += 1;
                }
            }
        }
    })
    .await;
    assert_eq!(reply, Ok(fetched(None, &batches)));
    assert!(overtaken >= 3, "{overtaken} heartbeats came and went meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_reply_overtakes_a_large_one_on_the_same_lane() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let client = client();
    let [mut large, mut small] = [fetch(), fetch()].map(|op| gateway.call(&client, op));
    script.calls(2).await;
    let batches = vec![Bytes::from(vec![1; 60 << 20])];
    parking.answer(0, fetched(None, &batches));
    parking.dropped(1).await;
    parking.answer(1, fetched(None, &[]));
    let first = within(async {
        tokio::select! {
            biased;
            reply = std::future::poll_fn(|context| large.poll(context)) => reply,
            reply = std::future::poll_fn(|context| small.poll(context)) => reply,
        }
    })
    .await;
    assert!(first == Ok(fetched(None, &[])), "the small one came first");
    assert!(within(large.reply()).await == Ok(fetched(None, &batches)));
}
