//! The bytes of every op, reply and word between the two ends, in every version.
//!
//! They guard what gateways and brokers of different releases say to each other. When this fails and the change is
//! meant, it needs a new version in the ALPN unless both sides of one version back still understand it.

use std::fmt::{Debug, Write as _};
use std::path::Path;

use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply::{Origin, Reply};
use rail::format::{
    self, Announced, FromBroker, FromGateway, Head, Hello, KeptRecords, LaneClass, Memory, Run, Said,
    SentRecords, Version, Welcome, op_codes, since,
};
use rail::{Roster, TraceContext};

use crate::kept_records::{TOPIC, batch, fetched};
use crate::random::{random, random_variant};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rail/golden.txt");

/// How many values of each kind are kept.
const SAMPLES: u64 = 3;

#[test]
fn what_travels_stays_the_same_byte_for_byte() {
    let now = render();
    let path = Path::new(FILE);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &now).expect("the file can be written");
        return;
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    for (kept, now) in kept.lines().zip(now.lines()) {
        assert_eq!(
            kept, now,
            "the format has changed. If that is meant and the other side of one version back understands it, run: \
             BLESS=1 cargo test -p rail golden"
        );
    }
    assert_eq!(
        kept.lines().count(),
        now.lines().count(),
        "a message came or went; see BLESS in tests/rail/golden.rs"
    );
}

#[test]
fn what_was_written_then_is_read_now() {
    let kept = std::fs::read_to_string(FILE).expect("the file is there");
    assert!(kept.lines().count() > op_codes().len());
    let mut records = KeptRecords::new(KEEPS);
    for line in kept.lines() {
        let [version, who, hex, meaning] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let message = Bytes::from(unhex(hex));
        let version = Version::ALL.iter().copied().find(|known| known.number().to_string() == version);
        let version = version.expect(line);
        let read = match who {
            "gateway" => told(&format::decode_from_gateway(version, &message).expect(line)),
            _ => told(&format::decode_from_broker(version, &message, &mut records).expect(line)),
        };
        assert_eq!(read, meaning);
    }
}

#[test]
fn every_op_has_a_code_of_its_own_and_groups_have_theirs() {
    let mut codes: Vec<u8> = op_codes().iter().map(|op| op.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), op_codes().len());
    let groups = ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"];
    for (code, name) in (0x06..).zip(groups) {
        assert!(op_codes().iter().any(|op| op.code == code && op.name == name), "{name} has {code:#04x}");
    }
}

/// A line for each message: version, who says it, its bytes, and what they mean.
fn render() -> String {
    let mut text = String::new();
    for version in [Version::Two, Version::Three, Version::Four, Version::Five] {
        for seed in 0..SAMPLES {
            for op in ops_of(version, seed) {
                let head = head(seed);
                gateway(&mut text, version, &FromGateway::Request(head, op));
            }
        }
        for said in gateways_words(version) {
            gateway(&mut text, version, &said);
        }
        for seed in 0..SAMPLES {
            for reply in every_reply(seed).into_iter().take(ops_of(version, seed).len()) {
                broker(
                    &mut text,
                    version,
                    &FromBroker::Reply(u32::try_from(seed).expect("few") * 200, reply),
                );
            }
        }
        for said in brokers_words(version) {
            broker(&mut text, version, &said);
        }
    }
    // The first two are kept; the second message names one of them, and the third drives it out.
    let batches = [batch(0, 1030, 1), batch(10, 1040, 2), batch(20, 1050, 3)];
    let mut sent = SentRecords::new(KEEPS as u64);
    for (id, places) in (1..).zip([&[0, 1][..], &[0], &[2, 1]]) {
        let pieces: Vec<Bytes> = places.iter().map(|&place: &usize| batches[place].clone()).collect();
        let reply = FromBroker::Reply(id, fetched(Some(TOPIC), &pieces));
        let message = say_to_gateway(Version::Three, reply, &mut sent);
        let read = FromBroker::Reply(id, fetched(None, &pieces));
        line(&mut text, Version::Three, "broker", &message, &read);
    }
    // The second message of a client, after one heartbeat and one commit.
    let mut memory = Memory::default();
    let [beat, commit, next]: [Op; 3] = [
        Op::Heartbeat(random(1)),
        Op::OffsetCommit(random(2)),
        Op::OffsetCommit(op::OffsetCommit { generation: 5, ..random(2) }),
    ];
    for ops in [&[beat.clone(), commit][..], &[beat.clone(), beat, next]] {
        let (mut out, mut scratch) = (Vec::new(), Vec::new());
        format::together(200, 300, ops, &mut memory, &mut scratch, &mut out).expect("it can be written");
        let message = Bytes::from(out);
        let read = format::decode_from_gateway(Version::Five, &message).expect("it can be read");
        line(&mut text, Version::Five, "gateway", &message, &read);
    }
    text
}

/// How much is kept of the records of a lane.
const KEEPS: usize = 3000;

/// What a message means; without what does not travel.
fn told(said: &impl Debug) -> String {
    let unsaid = format!(", origin: {:?}", Origin::default());
    format!("{said:?}").replace(", id: None, partitions", ", partitions").replace(&unsaid, "")
}

fn line(text: &mut String, version: Version, who: &str, message: &[u8], meaning: &impl Debug) {
    let hex: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{} {who} {hex} {}", version.number(), told(meaning)).expect("a string takes all");
}

fn gateway(text: &mut String, version: Version, said: &FromGateway) {
    let message = say_to_broker(version, said.clone());
    line(text, version, "gateway", &message, said);
}

fn broker(text: &mut String, version: Version, said: &FromBroker) {
    let message = say_to_gateway(version, said.clone(), &mut SentRecords::default());
    line(text, version, "broker", &message, said);
}

/// A value of each op.
pub(crate) fn every_op(seed: u64) -> Vec<Op> {
    (0..op_codes().len()).map(|variant| random_variant(variant, seed)).collect()
}

/// A value of each op that there is in a version. Those of later versions are the last ones.
pub(crate) fn ops_of(version: Version, seed: u64) -> Vec<Op> {
    every_op(seed).into_iter().filter(|op| since(op) <= version).collect()
}

/// A value of each reply.
pub(crate) fn every_reply(seed: u64) -> Vec<Reply> {
    (0..op_codes().len()).map(|variant| random_variant(variant, seed)).collect()
}

fn head(seed: u64) -> Head {
    let trace = TraceContext { trace_id: 0x0102 << 100 | 7, span_id: 0x0a0b_0c0d, is_sampled: seed == 1 };
    let number = u32::try_from(seed).expect("few");
    Head { id: number * 200, carrier: number, trace: (seed > 0).then_some(trace) }
}

/// What a gateway says beside ops.
pub(crate) fn gateways_words(version: Version) -> Vec<FromGateway> {
    let since_three = [FromGateway::KeepingLane(128 << 20), FromGateway::Again(200, 300)];
    let since_three = since_three.into_iter().filter(|_| version >= Version::Three);
    let words = [
        FromGateway::Announce(0, random(1)),
        FromGateway::Announce(300, random(2)),
        FromGateway::Leave(300),
        FromGateway::Cancel(200),
        FromGateway::Hello(Hello {
            listeners: vec![("PLAINTEXT".to_owned(), "gateway.example".to_owned(), 9092)],
            software: "kohort/0.1.0".to_owned(),
        }),
        FromGateway::Lane(LaneClass::Light),
        FromGateway::Lane(LaneClass::Produce),
        FromGateway::Lane(LaneClass::Fetch),
        FromGateway::Lane(LaneClass::Bulk),
    ];
    let together = vec![
        Said::HeartbeatAgain(300),
        Said::Heartbeat(random(4)),
        Said::Commit(Bytes::from_static(b"a commit")),
        Said::CommitLike { front: 3, back: 200, middle: Bytes::from_static(b"but") },
        Said::HeartbeatAgain(1),
    ];
    let since_five = [FromGateway::Together(200, 300, together)];
    let since_five = since_five.into_iter().filter(|_| version >= Version::Five);
    words.into_iter().chain(since_three).chain(since_five).collect()
}

/// What the broker says beside replies.
pub(crate) fn brokers_words(version: Version) -> Vec<FromBroker> {
    let roster: Roster = random(3);
    let together = vec![
        Run { reply: Reply::Heartbeat(random(1)), count: 300 },
        Run { reply: Reply::OffsetCommit(random(2)), count: 1 },
        Run { reply: Reply::OffsetCommit(random(3)), count: 2 },
    ];
    let words = [
        FromBroker::Gone(200),
        FromBroker::Welcome(Welcome { software: "kohort/0.1.0".to_owned(), roster: roster.clone() }),
        FromBroker::Roster(roster),
    ];
    let since_five = [FromBroker::Together(200, together)];
    words.into_iter().chain(since_five.into_iter().filter(|_| version >= Version::Five)).collect()
}

/// The message of a gateway, records and all.
pub(crate) fn say_to_broker(version: Version, said: FromGateway) -> Bytes {
    let (mut out, mut records) = (Vec::new(), Vec::new());
    match said {
        FromGateway::Request(head, mut op) => {
            format::request(head, &mut op, &mut out, &mut records).expect("it can be written");
        }
        FromGateway::Announce(place, announced) => announce(place, &announced, &mut out),
        FromGateway::Again(id, place) => format::again(id, place, &mut out),
        FromGateway::Together(id, place, said) => out = said_together(id, place, &said),
        FromGateway::Leave(place) => format::leave(place, &mut out),
        FromGateway::Cancel(id) => format::cancel(id, &mut out),
        FromGateway::Hello(hello) => format::greet(&hello, &mut out).expect("it can be written"),
        FromGateway::Lane(class) => format::lane(version, class, 0, &mut out),
        FromGateway::KeepingLane(bytes) => format::lane(version, LaneClass::Fetch, bytes, &mut out),
    }
    whole(out, &records)
}

/// What [`format::together`] makes of ops, piece by piece: a hostile gateway may say what no ops are said by.
fn said_together(id: u32, place: u32, said: &[Said]) -> Vec<u8> {
    let mut out = vec![0xf9];
    number(id, &mut out);
    number(place, &mut out);
    number(said.iter().map(Said::count).sum(), &mut out);
    let bytes = |bytes: &Bytes, out: &mut Vec<u8>| {
        number(u32::try_from(bytes.len()).expect("short"), out);
        out.extend_from_slice(bytes);
    };
    for said in said {
        match said {
            Said::Heartbeat(heartbeat) => {
                out.push(0x08);
                out.extend(postcard::to_stdvec(heartbeat).expect("it can be written"));
            }
            Said::HeartbeatAgain(count) => {
                out.push(0x00);
                number(*count, &mut out);
            }
            Said::Commit(body) => {
                out.push(0x0a);
                bytes(body, &mut out);
            }
            Said::CommitLike { front, back, middle } => {
                out.push(0x01);
                number(*front, &mut out);
                number(*back, &mut out);
                bytes(middle, &mut out);
            }
        }
    }
    out
}

/// Seven bits to the byte.
fn number(number: u32, out: &mut Vec<u8>) {
    out.extend(postcard::to_stdvec(&number).expect("it can be written"));
}

fn announce(place: u32, announced: &Announced, out: &mut Vec<u8>) {
    format::announce(place, announced, out).expect("it can be written");
}

/// The message of the broker, records and all.
pub(crate) fn say_to_gateway(version: Version, said: FromBroker, sent: &mut SentRecords) -> Bytes {
    let (mut out, mut records) = (Vec::new(), Vec::new());
    match said {
        FromBroker::Reply(id, mut reply) => {
            format::reply(version, id, &mut reply, sent, &mut out, &mut records).expect("it can be written");
        }
        FromBroker::Together(id, runs) => format::replies(id, &runs, &mut out).expect("it can be written"),
        FromBroker::Gone(id) => format::gone(id, &mut out),
        FromBroker::Welcome(welcome) => format::welcome(&welcome, &mut out).expect("it can be written"),
        FromBroker::Roster(roster) => format::roster(&roster, &mut out).expect("it can be written"),
    }
    whole(out, &records)
}

fn whole(mut head: Vec<u8>, records: &[Bytes]) -> Bytes {
    for piece in records {
        head.extend_from_slice(piece);
    }
    head.into()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}
