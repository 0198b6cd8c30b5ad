//! Brokers that are told to end, and brokers that are ended.

use std::thread;
use std::time::{Duration, Instant};

use e2e::kohort::{Kohort, Options};
use rustix::process::{Pid, Signal, kill_process};

use crate::load::{Load, numbered};
use crate::metrics;
use crate::support::{Connection, get, one, wait_until};

#[test]
fn a_signal_lets_what_is_in_flight_finish_and_ends_with_zero() {
    const SENT: usize = 300;
    let mut broker = Kohort::start(Options::default()).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    let value = |number: usize| format!("{number} {}", "s".repeat(20_000));
    let mut sender = client.twin();
    let sending = thread::spawn(move || {
        for number in 0..SENT {
            // The broker may close before it has read all.
            if sender.send_produce("t", 0, one(&value(number))).is_err() {
                return;
            }
        }
    });
    assert_eq!(client.produced().unwrap(), Ok(0));
    let mut answered = 1;
    let status = thread::scope(|scope| {
        let stopping = scope.spawn(|| broker.stop().unwrap());
        while let Ok(outcome) = client.produced() {
            assert_eq!(outcome, Ok(i64::try_from(answered).unwrap()), "an answer during the drain");
            answered += 1;
        }
        stopping.join().unwrap()
    });
    sending.join().unwrap();
    assert_eq!(status.code(), Some(0), "{}", broker.output());
    println!("{answered} of {SENT} answered");
    assert!(broker.output().contains("draining"), "{}", broker.output());
    assert!(!broker.output().contains("panicked"), "{}", broker.output());

    broker.restart().unwrap();
    assert!(!broker.output().contains("cut an unfinished write"), "{}", broker.output());
    let stored = Connection::open(&broker.bootstrap()).values("t", 0, 0).unwrap();
    let expected: Vec<String> = (0..answered).map(value).collect();
    assert!(stored == expected, "{} stored, {answered} answered", stored.len());
}

#[test]
fn a_second_signal_ends_a_drain_that_takes_too_long() {
    let mut broker = Kohort::start(Options::default()).unwrap();
    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    client.produce("t", 0, one(&"x".repeat(900_000))).unwrap();
    // A client that is owed more than the sockets hold and reads none of it holds the drain up.
    let sent = || metrics(&broker)["kohort_sent_bytes_total"];
    for _ in 0..100 {
        client.send_fetch("t", 0, 0).unwrap();
    }
    let mut last = 0.0;
    wait_until("the client is owed what it does not read", || {
        let before = std::mem::replace(&mut last, sent());
        thread::sleep(Duration::from_millis(100));
        before > 900_000.0 && last - before < 1.0
    });

    signal(&broker, Signal::TERM);
    wait_until("the broker says that it drains", || get(&broker.admin(), "/readyz").0 == 503);
    assert_eq!(get(&broker.admin(), "/readyz"), (503, "draining\n".to_owned()));
    assert_eq!(get(&broker.admin(), "/livez").0, 200);
    let asked_again = Instant::now();
    let status = broker.stop().unwrap();
    assert_eq!(status.code(), Some(143), "{}", broker.output());
    assert!(asked_again.elapsed() < Duration::from_secs(3), "{:?}", asked_again.elapsed());
}

#[test]
fn no_flush_mode_loses_what_was_acknowledged_when_the_process_is_killed() {
    for flush in ["always", "interval", "os"] {
        let options = Options::default()
            .set("kohort.flush", flush)
            .set("kohort.log.file.bytes", "1048576")
            .set("kohort.settle.interval.ms", "50");
        let mut broker = Kohort::start(options).unwrap();
        Connection::open(&broker.bootstrap()).create_topic("t", 2);
        for partition in 0..2 {
            let load = Load::start(&broker.bootstrap(), partition);
            wait_until("enough is acknowledged", || load.acknowledged() > 300);
            broker.kill().unwrap();
            let acknowledged = load.finish();
            broker.restart().unwrap();
            let stored = Connection::open(&broker.bootstrap()).values("t", partition, 0).unwrap();
            println!("{flush}: {acknowledged} acknowledged, {} stored", stored.len());
            // The last one may have been written without its answer having arrived.
            assert!((acknowledged..=acknowledged + 1).contains(&stored.len()), "{flush}");
            assert_eq!(stored, (0..stored.len()).map(numbered).collect::<Vec<_>>(), "{flush}");
        }
        let said = broker.output();
        assert!(!said.contains("panicked") && !said.contains("ERROR"), "{said}");
    }
}

fn signal(broker: &Kohort, signal: Signal) {
    let pid = i32::try_from(broker.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}
