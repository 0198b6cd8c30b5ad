//! Clients that speak properly and behave badly.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wire::api::{api_versions, create_topics, delete_topics, metadata};
use wire::{Uuid, encode_request};

use crate::support::{self, ANSWER_WITHIN, Connection, fetch_request, one, wait_until};
use crate::victim::{AT_REST, ATTACKERS, Victim, in_parallel, metric, read_to_the_end};

/// How often each attacker comes twice and leaves.
const ROUNDS: usize = 60;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

#[test]
fn clients_that_dribble_their_bytes_hold_up_nobody() {
    let mut victim = Victim::start(5);
    let request =
        encode_request(&api_versions::ApiVersionsRequest::default(), 0, 1, Some("slow")).into_bytes();
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let stream = TcpStream::connect(victim.kohort.bootstrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
            stream
        })
        .collect();
    let mut quick = Connection::open(&victim.kohort.bootstrap());
    for (number, byte) in request.iter().enumerate() {
        for stream in &mut slow {
            stream.write_all(&[*byte]).unwrap();
        }
        let begun = Instant::now();
        quick.produce("victim", 0, one(&format!("between {number}"))).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "a quick client waited for slow ones");
    }
    for stream in &mut slow {
        let mut size = [0; 4];
        stream.read_exact(&mut size).expect("even a slow client is answered");
    }
    victim.is_well(AT_REST);
}

#[test]
fn clients_that_never_read_their_answers_hold_a_bounded_share_together_and_a_batch_each() {
    const CLIENTS: usize = 48;
    const BATCH: usize = 1 << 20;
    /// What the broker lets answers hold that were read from disk, over all clients.
    const SHARED: usize = 64 << 20;
    let mut victim = Victim::start(6);
    let mut client = Connection::open(&victim.kohort.bootstrap());
    let value = "v".repeat(900_000);
    for _ in 0..40 {
        client.produce("victim", 0, one(&value)).unwrap();
    }
    let mut all = fetch_request("victim", 0, 0);
    all.max_bytes = i32::MAX;
    all.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    let fetch = encode_request(&all, 12, 1, Some("deaf")).into_bytes();
    let deaf: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut stream = TcpStream::connect(victim.kohort.bootstrap()).unwrap();
            stream.set_nonblocking(true).unwrap();
            // As many as the broker takes, and a thousand at most.
            for _ in 0..1000 {
                match stream.write(&fetch) {
                    Ok(written) if written == fetch.len() => {}
                    Ok(_) => break,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            stream
        })
        .collect();
    // What the kernel takes in between does not count: at some moment no more bytes leave the broker.
    let mut last = None;
    wait_until("all deaf clients are stuck", || {
        let sent = metric(&victim.kohort, "kohort_sent_bytes_total");
        thread::sleep(Duration::from_millis(200));
        let stuck = last == Some(sent);
        last = Some(sent);
        stuck
    });
    // A batch each, and what was read from the disk beside it.
    victim.is_well(AT_REST + SHARED + CLIENTS * 3 * BATCH);
    drop(deaf);
    victim.is_well(AT_REST + SHARED + CLIENTS * 3 * BATCH);
}

#[test]
fn what_clients_ask_that_leave_at_once_happens_wholly_or_not_at_all() {
    let mut victim = Victim::start(10);
    let address = victim.kohort.bootstrap();
    let accepted = metric(&victim.kohort, "kohort_connections_accepted_total");
    in_parallel(|attacker| {
        for number in 0..ROUNDS {
            let mut client = Connection::open(&address);
            let name = format!("left-{attacker}-{number}");
            let topic = create_topics::CreatableTopic {
                name: name.clone(),
                num_partitions: 2,
                replication_factor: 1,
                ..Default::default()
            };
            let request = create_topics::CreateTopicsRequest {
                topics: vec![topic],
                timeout_ms: 10_000,
                validate_only: false,
            };
            client.send(&request, 7).unwrap();
            if number % 2 == 0 {
                client.send_produce(&name, 1, one("left behind")).unwrap();
            }
            if number % 3 == 0 {
                let topic = delete_topics::DeleteTopicState { name: Some(name), ..Default::default() };
                let request = delete_topics::DeleteTopicsRequest {
                    topics: vec![topic],
                    timeout_ms: 10_000,
                    ..Default::default()
                };
                client.send(&request, 6).unwrap();
            }
            let mut client = Connection::open(&address);
            client.send_produce("victim", 0, one(&format!("{attacker} {number}"))).unwrap();
        }
    });
    // Who is not accepted yet has not left either: what it sent is still to come.
    let all = accepted + (ATTACKERS * ROUNDS * 2) as u64;
    wait_until("all have come and left", || {
        metric(&victim.kohort, "kohort_connections_accepted_total") == all
            && metric(&victim.kohort, "kohort_connections") == 0
    });
    victim.is_well(AT_REST);
    let before = all_there_is(&victim);
    println!("{} partitions were left", before.len());
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    let after = all_there_is(&victim);
    assert!(before == after, "the restart shows something else:\n{before:?}\n{after:?}");
    victim.is_well(AT_REST);
}

/// A partition: its topic by name and id, its number, and the values it holds.
type Seen = (String, Uuid, i32, Vec<String>);

/// All that the broker shows. What clients asked is carried out to the end although they have left, so two looks that
/// follow each other must agree.
fn all_there_is(victim: &Victim) -> Vec<Seen> {
    let mut last = None;
    wait_until("nothing changes any more", || {
        let seen = look(victim);
        let settled = seen.is_some() && seen == last;
        last = seen;
        settled
    });
    last.unwrap()
}

/// `None` when a topic went between being listed and being read.
fn look(victim: &Victim) -> Option<Vec<Seen>> {
    let mut client = Connection::open(&victim.kohort.bootstrap());
    let all = metadata::MetadataRequest { topics: None, ..Default::default() };
    let mut topics = client.ask(&all, 12).topics;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let mut seen = Vec::new();
    for topic in topics {
        let name = topic.name.unwrap();
        for partition in topic.partitions {
            let number = partition.partition_index;
            let values = match client.values(&name, number, 0) {
                Err(UNKNOWN_TOPIC_OR_PARTITION) => return None,
                values => values.unwrap(),
            };
            seen.push((name.clone(), topic.topic_id, number, values));
        }
    }
    Some(seen)
}

#[test]
fn the_admin_listener_takes_nonsense_as_calmly() {
    let mut victim = Victim::start(9);
    let admin = victim.kohort.admin();
    let mut random = StdRng::seed_from_u64(victim.seed);
    // Connections that begin a request and never end it.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&admin).unwrap();
            stream
                .write_all(b"POST /v1/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n{")
                .unwrap();
            stream
        })
        .collect();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&admin).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        let mut bytes = vec![0; random.random_range(1..2000)];
        random.fill(&mut bytes[..]);
        if stream.write_all(&bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
            read_to_the_end(&mut stream).unwrap();
        }
    }
    let mut stream = TcpStream::connect(&admin).unwrap();
    stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
    let head = "POST /v1/snapshot HTTP/1.0\r\nContent-Length: 67108864\r\n\r\n";
    // It is refused before all of it is sent.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; 64 << 20]));
    read_to_the_end(&mut stream).unwrap();
    assert_eq!(support::get(&admin, "/livez").0, 200);
    drop(silent);
    victim.is_well(AT_REST);
}
