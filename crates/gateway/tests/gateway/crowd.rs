//! Many clients at once, answered at random moments: the rules of order hold for each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use coordination::op::Op;
use coordination::reply::Reply;
use gateway::{Gateway, Options};
use rail::{Answer, Carrier, Rail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::fetch::FetchRequest;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use crate::script::{Client, listener, mark_of, reply_to, soon};

const CLIENTS: i32 = 8;
const REQUESTS: i32 = 2_000;

/// What a client has been seen doing.
#[derive(Default)]
struct Seen {
    last_mark: i64,
    produces: usize,
    others: usize,
}

/// Answers at once or after a random number of turns, and checks that calls come as they may.
struct CheckingRail {
    random: Mutex<StdRng>,
    seen: Arc<Mutex<HashMap<Arc<str>, Seen>>>,
}

impl Rail for CheckingRail {
    fn call(&self, carrier: &Carrier, op: Op) -> Answer {
        if matches!(op, Op::Enter) {
            return Reply::Enter(None).into();
        }
        let client = carrier.client_id().cloned().expect("every request here has one");
        let is_produce = matches!(op, Op::Produce(_));
        let mut all = self.seen.lock().expect("no panic");
        let seen = all.entry(Arc::clone(&client)).or_default();
        assert_eq!(seen.others, 0, "nothing starts behind an op that is parked");
        assert!(is_produce || seen.produces == 0, "only Produce overlaps with Produce");
        if !matches!(op, Op::DescribeCluster(_)) {
            assert!(mark_of(&op) > seen.last_mark, "calls come in the client's order");
            seen.last_mark = mark_of(&op);
        }

        let turns = self.random.lock().expect("no panic").random_range(0..6);
        let reply = reply_to(&op);
        if turns == 0 {
            return Answer::Now(reply);
        }
        *(if is_produce { &mut seen.produces } else { &mut seen.others }) += 1;
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            // The client may be gone.
            let _ = sender.send(reply);
        });
        let seen = Arc::clone(&self.seen);
        Answer::Later(Box::pin(async move {
            let reply = receiver.await.expect("it is sent");
            let mut all = seen.lock().expect("no panic");
            let seen = all.get_mut(&client).expect("it was seen");
            *(if is_produce { &mut seen.produces } else { &mut seen.others }) -= 1;
            reply
        }))
    }

    fn leave(&self, _carrier: &Carrier) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_client_is_answered_in_its_order() {
    let gateway = Gateway::bind(vec![listener("127.0.0.1:0")], Options::default()).expect("a free port");
    let addr = gateway.local_addrs()[0];
    let rail = CheckingRail { random: Mutex::new(StdRng::seed_from_u64(1)), seen: Arc::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(gateway.serve(Arc::new(rail), async {
        let _ = stopped.await;
    }));

    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(play(addr, number))).collect();
    for client in clients {
        soon(client).await.expect("no panic");
    }
    stop.send(()).expect("the gateway runs");
    assert_eq!(soon(serving).await.expect("no panic").expect("sockets stay"), 0);
}

/// Sends all requests in pieces of any size, and sees the answers come in order.
async fn play(addr: std::net::SocketAddr, number: i32) {
    let mut random = StdRng::seed_from_u64(number.unsigned_abs().into());
    let name = format!("client-{number}");
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    for id in 1..=REQUESTS {
        let frame = match random.random_range(0..10) {
            0 => wire::encode_request(
                &FetchRequest {
                    min_bytes: id,
                    max_bytes: random.random_range(0..20_000),
                    ..Default::default()
                },
                12,
                id,
                Some(&name),
            ),
            1 => wire::encode_request(
                &DescribeClusterRequest { endpoint_type: 1, ..Default::default() },
                1,
                id,
                Some(&name),
            ),
            kind => {
                let acks = if kind == 2 { 0 } else { -1 };
                let records = Some(vec![1; random.random_range(0..3_000)].into());
                let partition_data = vec![PartitionProduceData { index: id, records }];
                let topic = TopicProduceData { name: "t".into(), partition_data, ..Default::default() };
                let request = ProduceRequest { acks, topic_data: vec![topic], ..Default::default() };
                let frame = wire::encode_request(&request, 9, id, Some(&name));
                if acks == 0 {
                    stream.extend_from_slice(&frame.into_bytes());
                    continue;
                }
                frame
            }
        };
        expected.push(id);
        stream.extend_from_slice(&frame.into_bytes());
    }

    let Client { stream: socket } = Client::connect(addr).await;
    let (replies, mut requests) = socket.into_split();
    let sending = tokio::spawn(async move {
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(random.random_range(1..=rest.len().min(30_000)));
            requests.write_all(piece).await.expect("the gateway reads");
            rest = behind;
        }
        requests
    });
    let mut replies = tokio::io::BufReader::new(replies);
    for id in expected {
        assert_eq!(crate::script::receive_id(&mut replies).await, id, "{name}");
    }
    drop(sending.await);
}
