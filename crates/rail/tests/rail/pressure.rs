//! Ends that are slow: what is held is bounded, and all goes on when they are not slow any more.

use std::sync::Arc;

use bytes::Bytes;
use coordination::op::{self, Op, TopicRef};
use parking_lot::{Condvar, Mutex};
use rail::Rail;

use crate::broker::{Broker, Script, client, heartbeat, reply_to, within};

const BATCH: usize = 1 << 20;

fn produce(number: u8) -> Op {
    let partitions = vec![op::ProducePartition { index: 0, records: Some(Bytes::from(vec![number; BATCH])) }];
    let topics = vec![op::ProduceTopic { topic: TopicRef::Name("orders".to_owned()), partitions }];
    Op::Produce(op::Produce { transactional_id: None, acks: -1, zstd: true, topics })
}

/// A gate that calls wait at.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        // Everything else of this thread goes on elsewhere.
        tokio::task::block_in_place(|| {
            let mut is_open = self.is_open.lock();
            while !*is_open {
                self.opened.wait(&mut is_open);
            }
        });
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_broker_is_waited_for_in_order_and_does_not_hold_up_heartbeats() {
    let gate = Arc::new(Gate::default());
    let at_gate = Arc::clone(&gate);
    let script = Script::new(move |_, op| {
        if matches!(op, Op::Produce(_)) {
            at_gate.pass();
        }
        reply_to(&op).into()
    });
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let (producer, member) = (client(), client());
    // Far more than windows and queues hold: the rest waits where it is, and no call blocks.
    let answers: Vec<_> = (0..100).map(|number| gateway.call(&producer, produce(number))).collect();
    for generation in 0..10 {
        let beat = within(gateway.call(&member, heartbeat(generation)).reply()).await;
        assert_eq!(beat, Ok(reply_to(&heartbeat(1))));
    }
    gate.open();
    for answer in answers {
        within(answer.reply()).await.expect("a reply");
    }
    let produced: Vec<Op> =
        script.calls_now().into_iter().filter(|op| matches!(op, Op::Produce(_))).collect();
    assert!(produced.iter().cloned().eq((0..100).map(produce)), "in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_for_room_and_is_given_up_is_never_sent() {
    let gate = Arc::new(Gate::default());
    let at_gate = Arc::clone(&gate);
    let script = Script::new(move |_, op| {
        if matches!(op, Op::Produce(_)) {
            at_gate.pass();
        }
        reply_to(&op).into()
    });
    let broker = Broker::start(&script).await;
    let gateway = broker.gateway().await;
    let producer = client();
    let mut answers: Vec<_> = (0..100).map(|number| gateway.call(&producer, produce(number))).collect();
    let last = answers.pop().expect("a hundred");
    drop(answers.split_off(90));
    gate.open();
    for answer in answers {
        within(answer.reply()).await.expect("a reply");
    }
    within(last.reply()).await.expect("a reply");
    assert_eq!(script.calls_now().len(), 91, "nine were given up before they left");
}
