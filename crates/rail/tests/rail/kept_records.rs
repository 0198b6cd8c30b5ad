//! Records that cross a lane once and are named from then on.

use bytes::Bytes;
use coordination::ids::TopicId;
use coordination::op::{Op, TopicRef};
use coordination::reply::{self, Reply};
use proptest::prelude::*;
use rail::format::{
    self, FormatError, FromBroker, FromGateway, Head, Hello, Inlet, KeptRecords, LaneClass, SentRecords,
    Version,
};
use rail::{FRAME_MAX, Key, MESSAGE_MAX, Rail, RemoteRail, bind_to_dial};

use crate::broker::{Broker, Doors, Parking, Script, client, reply_to, within};
use crate::golden::{say_to_broker, say_to_gateway};
use crate::hostile_peer::{Peer, said_in};
use crate::lanes::fetch;

pub(crate) const TOPIC: TopicId = TopicId::from_u128(7);

/// What stands before the records of a batch.
const HEADER: usize = 61;

/// A record batch, as far as the rail looks at it: `mark` is in its checksum and in what that is of.
pub(crate) fn batch(base_offset: i64, size: usize, mark: u8) -> Bytes {
    let counted = u32::try_from(size - 12).expect("small").to_be_bytes();
    let mut batch = [&base_offset.to_be_bytes()[..], &counted, &[0, 0, 0, 0, 2]].concat();
    batch.resize(size, mark);
    batch.into()
}

/// A fetch of one partition of a topic.
pub(crate) fn fetched(id: Option<TopicId>, records: &[Bytes]) -> Reply {
    let partition = partition(0, records.to_vec());
    Reply::Fetch(reply::Fetch {
        error: None,
        session_id: 0,
        topics: vec![reply::FetchTopic {
            topic: TopicRef::Name("orders".to_owned()),
            id,
            partitions: vec![partition],
        }],
        throttle: std::time::Duration::ZERO,
    })
}

fn partition(index: i32, records: Vec<Bytes>) -> reply::FetchPartition {
    reply::FetchPartition {
        index,
        error: None,
        high_watermark: 1,
        last_stable_offset: 1,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader_epoch: None,
        records,
        origin: reply::Origin::default(),
    }
}

/// The two ends of a lane.
struct Ends {
    sent: SentRecords,
    kept: KeptRecords,
}

impl Ends {
    fn keeping(bytes: usize) -> Self {
        Self { sent: SentRecords::new(bytes as u64), kept: KeptRecords::new(bytes) }
    }

    /// Sends a reply over the lane. Says how many bytes that takes, and what arrives.
    fn carry(&mut self, reply: Reply) -> (usize, Reply) {
        let message = say_to_gateway(Version::Three, FromBroker::Reply(1, reply), &mut self.sent);
        let read = format::decode_from_broker(Version::Three, &message, &mut self.kept);
        let Ok(FromBroker::Reply(1, reply)) = read else { panic!("{read:?}") };
        (message.len(), reply)
    }

    /// Sends records, and says whether they travelled.
    fn moves(&mut self, id: TopicId, records: &[Bytes]) -> bool {
        let (bytes, arrived) = self.carry(fetched(Some(id), records));
        assert_eq!(whole(&arrived), whole(&fetched(None, records)));
        bytes > records.iter().map(Bytes::len).sum()
    }
}

/// The records of each partition in one piece, and the reply without what does not travel.
fn whole(reply: &Reply) -> (Reply, Vec<Vec<u8>>) {
    let mut reply = reply.clone();
    let Reply::Fetch(fetch) = &mut reply else { panic!("a fetch") };
    let mut records = Vec::new();
    for topic in &mut fetch.topics {
        topic.id = None;
        for partition in &mut topic.partitions {
            records.push(std::mem::take(&mut partition.records).concat());
            partition.origin = reply::Origin::default();
        }
    }
    (reply, records)
}

fn pieces(reply: &Reply) -> Vec<Bytes> {
    let Reply::Fetch(fetch) = reply else { panic!("a fetch") };
    let partitions = fetch.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.flat_map(|partition| partition.records.clone()).collect()
}

/// How a broker has the batches that it answers with.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// Each in one piece, as read from a log file.
    Single,
    /// The head apart, as they are in memory.
    HeadsApart,
    /// All in one piece, as read from a segment.
    Together,
}

impl Form {
    fn of(self, batches: &[Bytes]) -> Vec<Bytes> {
        match self {
            Self::Single => batches.to_vec(),
            Self::HeadsApart => {
                batches.iter().flat_map(|batch| [batch.slice(..HEADER), batch.slice(HEADER..)]).collect()
            }
            Self::Together => vec![batches.concat().into()],
        }
    }
}

/// A read of a partition: topic, partition, the first batch, how many, how they are cut, and how often they were
/// written anew.
type Read = (u8, i32, i64, i64, Form, u8);

/// Some batches of a partition's log, ten offsets each, as they were written at this time.
fn log_of(topic: u8, partition: i32, written: u8, numbers: std::ops::Range<i64>) -> Vec<Bytes> {
    let mark = topic * 100 + u8::try_from(partition).expect("small") * 10 + written;
    let batch = |number: i64| {
        // Some are smaller than what is kept, some larger than the room.
        let size = HEADER + usize::try_from(number * number).expect("small") * 300;
        let mut batch = batch(number * 10, size, mark).to_vec();
        batch[23..27].copy_from_slice(&9_i32.to_be_bytes());
        Bytes::from(batch)
    };
    numbers.map(batch).collect()
}

/// A fetch whose records the gateway has under these numbers.
fn at_hand(id: TopicId, index: i32, numbers: Vec<u64>) -> Reply {
    let Reply::Fetch(mut fetch) = fetched(Some(id), &[]) else { unreachable!("a fetch") };
    fetch.topics[0].partitions[0] = reply::FetchPartition {
        origin: reply::Origin { at_hand: numbers, ..reply::Origin::default() },
        ..partition(index, Vec::new())
    };
    Reply::Fetch(fetch)
}

fn read() -> impl Strategy<Value = Read> {
    let form = prop_oneof![Just(Form::Single), Just(Form::HeadsApart), Just(Form::Together)];
    (0..2_u8, 0..2_i32, 0..8_i64, 0..4_i64, form, prop_oneof![9 => Just(0_u8), 1 => Just(1_u8)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_arrives_is_what_was_fetched_whatever_is_kept(
        room in prop_oneof![Just(0_usize), 1000..30_000_usize],
        fetches in prop::collection::vec(prop::collection::vec(read(), 0..4), 1..40),
    ) {
        let mut ends = Ends::keeping(room);
        for reads in fetches {
            let topic = |(topic, index, first, count, form, written): Read| {
                let batches = log_of(topic, index, written, first..first + count);
                let partitions = vec![reply::FetchPartition {
                    origin: reply::Origin { files: u64::from(written), ..reply::Origin::default() },
                    ..partition(index, form.of(&batches))
                }];
                let id = Some(TopicId::from_u128(u128::from(topic)));
                reply::FetchTopic { topic: TopicRef::Name("same name".to_owned()), id, partitions }
            };
            let last = reads.last().copied();
            let topics = reads.into_iter().map(topic).collect();
            let throttle = std::time::Duration::ZERO;
            let reply = Reply::Fetch(reply::Fetch { error: None, session_id: 3, topics, throttle });
            let (_, arrived) = ends.carry(reply.clone());
            prop_assert!(whole(&arrived) == whole(&reply));
            prop_assert!(ends.kept.bytes() <= room);

            // What the gateway has of a log is what is in the log.
            let Some((topic, index, first, _, _, written)) = last else { continue };
            let id = TopicId::from_u128(u128::from(topic));
            let found = ends.sent.at_hand(id, index, u64::from(written), first * 10, room);
            let batches = log_of(topic, index, written, first..found.next_offset / 10);
            let (bytes, arrived) = ends.carry(at_hand(id, index, found.numbers));
            prop_assert_eq!(&whole(&arrived).1, &[batches.concat()]);
            prop_assert_eq!(found.bytes, batches.concat().len());
            prop_assert!(bytes < 100, "nothing travels");
        }
    }
}

#[test]
fn records_that_are_kept_are_named_however_the_broker_has_them() {
    let mut ends = Ends::keeping(1 << 20);
    let batches = [batch(0, 40_000, 1), batch(9, 30_000, 2)];
    assert!(ends.moves(TOPIC, &Form::HeadsApart.of(&batches)));
    assert!(!ends.moves(TOPIC, &Form::HeadsApart.of(&batches)));
    assert!(!ends.moves(TOPIC, &Form::Single.of(&batches)), "read from the disk meanwhile");
    assert!(!ends.moves(TOPIC, &batches[1..]));
    assert!(ends.moves(TOPIC, &Form::Together.of(&batches)), "one piece of two is another piece");
    assert!(!ends.moves(TOPIC, &Form::Together.of(&batches)));
    let twice = [batches[0].clone(), batches[0].clone()];
    assert!(!ends.moves(TOPIC, &twice));

    let (_, first) = ends.carry(fetched(Some(TOPIC), &batches));
    let (_, second) = ends.carry(fetched(Some(TOPIC), &batches));
    for (first, second) in pieces(&first).iter().zip(pieces(&second)) {
        assert_eq!(first.as_ptr(), second.as_ptr(), "the same memory");
    }
}

#[test]
fn what_is_forgotten_before_it_is_named_is_left_out_with_all_that_follows() {
    let mut ends = Ends::keeping(10_000);
    let batches: Vec<Bytes> = (0..4).map(|number| batch(number, 3000, 1)).collect();
    for piece in &batches {
        assert!(ends.moves(TOPIC, std::slice::from_ref(piece)));
    }
    let (_, arrived) = ends.carry(at_hand(TOPIC, 0, vec![3, 1, 4]));
    assert_eq!(pieces(&arrived), [batches[2].clone()]);
    let (_, arrived) = ends.carry(at_hand(TOPIC, 0, vec![2, 3, 4]));
    assert_eq!(pieces(&arrived), batches[1..]);
}

#[test]
fn a_batch_that_was_written_anew_is_sent_anew() {
    let mut ends = Ends::keeping(1 << 20);
    assert!(ends.moves(TOPIC, &[batch(5, 3000, 1)]));
    assert!(ends.moves(TOPIC, &[batch(5, 3000, 2)]));
    assert!(!ends.moves(TOPIC, &[batch(5, 3000, 2)]));
    let piece = |mark| Bytes::from([batch(5, 3000, 1), batch(6, 3000, mark)].concat());
    assert!(ends.moves(TOPIC, &[piece(1)]));
    assert!(ends.moves(TOPIC, &[piece(2)]), "not the first batch of the piece");
}

#[test]
fn records_of_another_topic_are_never_named() {
    let mut ends = Ends::keeping(1 << 20);
    let same = [batch(5, 3000, 1)];
    assert!(ends.moves(TOPIC, &same));
    assert!(ends.moves(TopicId::from_u128(8), &same));
    let (bytes, arrived) = ends.carry(fetched(None, &same));
    assert!(bytes > 3000, "and not those of nobody knows which topic");
    assert_eq!(arrived, fetched(None, &same));
}

#[test]
fn both_ends_forget_the_same_records() {
    let mut ends = Ends::keeping(10_000);
    let batches: Vec<Bytes> = (0..6).map(|number| batch(number, 3000, 1)).collect();
    for piece in &batches {
        assert!(ends.moves(TOPIC, std::slice::from_ref(piece)));
    }
    assert_eq!(ends.kept.bytes(), 9000);
    assert!(!ends.moves(TOPIC, &batches[3..]));
    assert!(ends.moves(TOPIC, &batches[2..3]), "it was driven out");
    assert!(ends.moves(TOPIC, &batches[3..4]), "and drove out the next");
    assert!(!ends.moves(TOPIC, &[batches[5].clone(), batches[2].clone(), batches[3].clone()]));
    // Named in the message that drives it out.
    let (_, arrived) = ends.carry(fetched(Some(TOPIC), &[batches[0].clone(), batches[5].clone()]));
    assert_eq!(pieces(&arrived), [batches[0].clone(), batches[5].clone()]);
    assert!(ends.moves(TOPIC, &batches[5..]));
}

#[test]
fn what_is_kept_of_a_message_does_not_keep_the_rest_of_it() {
    let mut ends = Ends::keeping(1 << 20);
    let small = batch(0, 500, 1);
    let records: Vec<Bytes> =
        std::iter::once(batch(1000, 2000, 2)).chain(std::iter::repeat_n(small, 100)).collect();
    let message =
        say_to_gateway(Version::Three, FromBroker::Reply(1, fetched(Some(TOPIC), &records)), &mut ends.sent);
    let range = message.as_ptr_range();
    let read = format::decode_from_broker(Version::Three, &message, &mut ends.kept);
    let Ok(FromBroker::Reply(1, reply)) = read else { panic!("{read:?}") };
    let pieces = pieces(&reply);
    assert!(!range.contains(&pieces[0].as_ptr()), "kept, and moved out");
    assert!(range.contains(&pieces[1].as_ptr()), "not kept, and where it came");
}

/// A fetch of one partition, about whose records this is told.
fn told(of_records: &[u64], records: &[u8]) -> Bytes {
    let reply = FromBroker::Reply(1, fetched(None, &[]));
    let message = say_to_gateway(Version::Three, reply, &mut SentRecords::default());
    let (head, end) = message.split_at(message.len() - 2);
    assert_eq!(end, [3, 0], "no records, and nothing is forgotten");
    let mut message = head.to_vec();
    for &number in of_records {
        let mut number = number;
        while number >= 0x80 {
            message.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
            number >>= 7;
        }
        message.push(u8::try_from(number).expect("seven bits"));
    }
    [&message[..], records].concat().into()
}

/// A case, what is told of the records, the records, and how many bytes are kept then.
type Case = (&'static str, Vec<u64>, &'static [u8], Result<usize, FormatError>);

#[test]
fn a_broker_that_names_what_is_not_kept_or_keeps_too_much_is_an_error() {
    const END: u64 = 3;
    let here = |length: u64| length << 2;
    let kept = |length: u64| length << 2 | 1;
    let again = |back: u64| back << 2 | 2;
    let size = || FormatError::Bound("the size of kept records", 5);
    let cases: [Case; 14] = [
        ("as it should be", vec![here(2), kept(2), kept(2), again(1), END, 1], b"abcdef", Ok(2)),
        ("all is kept", vec![kept(4), END, 0], b"abcd", Ok(4)),
        ("all is forgotten", vec![kept(4), END, 1], b"abcd", Ok(0)),
        ("nothing is kept", vec![again(0), END, 0], b"", Err(place(0))),
        ("more than is kept", vec![kept(1), again(1), END, 0], b"a", Err(place(1))),
        ("far more", vec![kept(1), again(u64::MAX >> 2), END, 0], b"a", Err(place(u64::MAX >> 2))),
        ("before it is kept", vec![again(0), kept(1), END, 0], b"a", Err(place(0))),
        ("forgotten and not kept", vec![END, 1], b"", Err(forgotten(1))),
        ("forgotten without end", vec![kept(1), END, u64::MAX], b"a", Err(forgotten(u64::MAX))),
        ("more than offered", vec![kept(5), END, 0], b"abcde", Err(size())),
        ("more than offered in two", vec![kept(2), kept(3), END, 0], b"abcde", Err(size())),
        ("kept and not there", vec![kept(2), END, 0], b"a", Err(FormatError::Short("Fetch"))),
        ("there and not told", vec![kept(2), END, 0], b"abc", Err(FormatError::Trailing("Fetch", 1))),
        (
            "told in no way there is",
            vec![7, END, 0],
            b"a",
            Err(FormatError::Bound("what is told of records", 7)),
        ),
    ];
    for (case, numbers, records, expected) in cases {
        let mut memory = KeptRecords::new(4);
        let read = format::decode_from_broker(Version::Three, &told(&numbers, records), &mut memory);
        assert_eq!(read.map(|_| memory.bytes()), expected, "{case}");
    }
    let mut none = KeptRecords::new(0);
    assert!(format::decode_from_broker(Version::Three, &told(&[kept(0), END, 0], b""), &mut none).is_err());
}

fn place(back: u64) -> FormatError {
    FormatError::Bound("the place of kept records", back)
}

fn forgotten(count: u64) -> FormatError {
    FormatError::Bound("the number of forgotten records", count)
}

#[test]
fn naming_does_not_make_an_answer_larger_than_one_that_is_sent() {
    let mut memory = KeptRecords::new(FRAME_MAX);
    let records = vec![0; FRAME_MAX];
    let mut numbers = vec![(FRAME_MAX as u64) << 2 | 1];
    numbers.extend(std::iter::repeat_n(2, MESSAGE_MAX / FRAME_MAX));
    numbers.extend([3, 0]);
    let read = format::decode_from_broker(Version::Three, &told(&numbers, &records), &mut memory);
    assert_eq!(read, Err(FormatError::TooLarge(MESSAGE_MAX)));

    let piece = batch(0, FRAME_MAX, 1);
    let all = vec![piece; MESSAGE_MAX / FRAME_MAX + 1];
    let (mut out, mut records) = (Vec::new(), Vec::new());
    let mut sent = SentRecords::new(1 << 30);
    let mut reply = fetched(Some(TOPIC), &all);
    let written = format::reply(Version::Three, 1, &mut reply, &mut sent, &mut out, &mut records);
    assert_eq!(written, Err(FormatError::TooLarge(MESSAGE_MAX)));
    assert!(records.is_empty());
}

#[test]
fn only_a_lane_for_fetches_of_version_3_keeps_records() {
    let lane = |version, class| {
        let mut out = Vec::new();
        format::lane(version, class, 300, &mut out);
        format::decode_from_gateway(version, &out.into())
    };
    assert_eq!(lane(Version::Three, LaneClass::Fetch), Ok(FromGateway::KeepingLane(300)));
    assert_eq!(lane(Version::Two, LaneClass::Fetch), Ok(FromGateway::Lane(LaneClass::Fetch)));
    for class in [LaneClass::Light, LaneClass::Produce, LaneClass::Bulk] {
        assert_eq!(lane(Version::Three, class), Err(FormatError::Bound("the size of kept records", 300)));
    }
}

/// A gateway that keeps records.
async fn keeping(broker: &Broker, bytes: usize) -> std::sync::Arc<RemoteRail> {
    let endpoint = bind_to_dial(&Key::generate(), &broker.address).await.expect("a socket");
    let gateway = RemoteRail::connect(endpoint, broker.address.clone(), Hello::default(), bytes);
    within(gateway.connected()).await;
    gateway
}

/// A broker that answers every fetch with these records.
fn serving(records: Vec<Bytes>) -> std::sync::Arc<Script> {
    Script::new(move |_, op| match op {
        Op::Fetch(_) => fetched(Some(TOPIC), &records).into(),
        op => reply_to(&op).into(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_link_the_second_fetch_gets_what_came_with_the_first() {
    let batches = [batch(0, 3 << 20, 1), batch(9, 200_000, 2), batch(12, 90, 3)];
    let script = serving(Form::HeadsApart.of(&batches));
    let broker = Broker::start(&script).await;
    let gateway = keeping(&broker, 64 << 20).await;
    // Clients of one gateway that share a lane.
    let clients: Vec<_> = (0..4).map(|_| client()).collect();
    let mut first: Option<Vec<Bytes>> = None;
    for client in clients.iter().filter(|client| client.number() % 2 == 0) {
        for _ in 0..2 {
            let reply = within(gateway.call(client, fetch()).reply()).await.expect("a reply");
            let pieces = pieces(&reply);
            assert_eq!(pieces, batches);
            let first = first.get_or_insert(pieces.clone());
            assert!((0..2).all(|place| pieces[place].as_ptr() == first[place].as_ptr()), "the same memory");
        }
    }

    // What was kept over a link that ended means nothing over the next.
    let broker = broker.restart(&serving(vec![batches[1].clone()])).await;
    within(async {
        // Until the gateway has noticed, its ops are lost; until it is back, they are refused.
        while !matches!(gateway.call(&clients[0], fetch()).reply().await, Ok(reply) if !pieces(&reply).is_empty()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for client in &clients {
        let reply = within(gateway.call(client, fetch()).reply()).await.expect("a reply");
        assert_eq!(pieces(&reply), batches[1..2]);
    }
    drop(broker);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_fetch_of_the_same_records_moves_few_bytes() {
    let batches = [batch(0, 300_000, 1), batch(9, 200_000, 2)];
    let broker = Broker::start(&serving(Form::HeadsApart.of(&batches))).await;
    let peer = Peer::admitted_as(&broker, Version::Three).await;
    let said = |said| said_in(Version::Three, said);
    let announce = said(FromGateway::Announce(0, crate::random::random(1)));
    let opening = [said(FromGateway::KeepingLane(1 << 20)), announce].concat();
    let (mut send, mut receive) = peer.stream(&opening).await;
    let mut kept = KeptRecords::new(1 << 20);
    let mut inlet = Inlet::default();
    let mut moved = Vec::new();
    for id in 0..3 {
        let request = said(FromGateway::Request(Head { id, carrier: 0, trace: None }, fetch()));
        within(send.write_all(&request)).await.expect("written");
        let mut bytes = 0;
        let message = loop {
            if let Some(message) = inlet.next_message().expect("the format is kept") {
                break message;
            }
            let chunk = within(receive.read_chunk(1 << 20)).await.expect("the link is there").expect("more");
            bytes += chunk.len();
            inlet.feed(chunk);
        };
        let read = format::decode_from_broker(Version::Three, &message, &mut kept);
        let Ok(FromBroker::Reply(_, reply)) = read else { panic!("{read:?}") };
        assert_eq!(pieces(&reply), batches);
        moved.push(bytes);
    }
    assert!(moved[0] > 500_000 && moved[1] < 100 && moved[2] < 100, "{moved:?}");
    assert_eq!(kept.bytes(), 500_000);

    // Whoever offers twice has begun anew, and would be told of what it does not have.
    within(send.write_all(&said(FromGateway::KeepingLane(1 << 20)))).await.expect("written");
    assert!(peer.cut_off().await.contains("does not belong"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_reply_that_names_what_is_in_a_large_one_waits_for_it() {
    let parking = Parking::default();
    let parked = parking.clone();
    let script = Script::new(move |_, _| parked.park());
    let broker = Broker::start(&script).await;
    let gateway = keeping(&broker, 256 << 20).await;
    let client = client();
    let [large, small] = [fetch(), fetch()].map(|op| gateway.call(&client, op));
    script.calls(2).await;
    let batches: Vec<Bytes> = (0..20).map(|number| batch(number, 3 << 20, 1)).collect();
    parking.answer(0, fetched(Some(TOPIC), &batches));
    parking.dropped(1).await;
    parking.answer(1, fetched(Some(TOPIC), &batches[18..]));
    let reply = within(small.reply()).await.expect("a reply");
    assert_eq!(pieces(&reply), batches[18..]);
    let reply = within(large.reply()).await.expect("a reply");
    assert!(pieces(&reply) == batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_link_of_version_2_everything_is_sent() {
    let batches = [batch(0, 300_000, 1)];
    let script = serving(batches.to_vec());
    let older = Broker::start_as(&script, Doors::default(), &[Version::Two]).await;
    let newer = Broker::start(&script).await;
    let gateway = newer.dialling(Hello::default(), &[Version::Two]).await;
    within(gateway.connected()).await;
    for gateway in [keeping(&older, 1 << 20).await, gateway] {
        let client = client();
        let mut replies = Vec::new();
        for _ in 0..2 {
            let reply = within(gateway.call(&client, fetch()).reply()).await.expect("a reply");
            assert_eq!(reply, fetched(None, &batches));
            replies.push(reply);
        }
        assert_ne!(pieces(&replies[0])[0].as_ptr(), pieces(&replies[1])[0].as_ptr());
    }
    // Nor does it say how much a gateway keeps.
    let said = say_to_broker(Version::Two, FromGateway::KeepingLane(1 << 20));
    assert_eq!(said, say_to_broker(Version::Two, FromGateway::Lane(LaneClass::Fetch)));
}
