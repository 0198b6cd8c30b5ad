//! Record batches that are not what they say.

use batch::{BatchBuilder, Codec, NewRecord, ProducerFields};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{self, Connection, batch_of, wait_until};
use crate::victim::{AT_REST, ATTACKERS, Victim, in_parallel};

#[test]
fn a_few_bytes_that_inflate_to_very_many_are_checked_without_holding_them() {
    let mut victim = Victim::start(7);
    let bombs: Vec<(String, Bytes)> = bombs();
    let outcomes: Vec<_> = in_parallel(|attacker| {
        let mut client = Connection::open(&victim.kohort.bootstrap());
        let bombs = bombs.iter().skip(attacker % 2);
        bombs.map(|(name, bomb)| (name, client.try_produce("victim", 0, bomb.clone()))).collect::<Vec<_>>()
    });
    for (name, outcome) in outcomes.into_iter().flatten() {
        // Kept or refused: either way it is an answer.
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {outcome:?}");
    }
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn batches_with_a_right_checksum_over_wrong_contents_harm_neither_readers_nor_the_cleaner() {
    let mut victim = Victim::start(8);
    let address = victim.kohort.bootstrap();
    let compacted = [
        ["topic", "create", "compacted", "-b", &address, "--config"],
        [
            "cleanup.policy=compact",
            "--config",
            "segment.ms=100",
            "--config",
            "min.cleanable.dirty.ratio=0.01",
            "--config",
        ],
    ]
    .concat();
    let made = support::kohort(&[&compacted[..], &["max.compaction.lag.ms=100"]].concat());
    assert!(made.success(), "{made:?}");
    let seed = victim.seed;
    let kept: usize = in_parallel(|attacker| {
        let mut random = StdRng::seed_from_u64(seed ^ attacker as u64);
        let mut client = Connection::open(&address);
        let mut kept = 0;
        for number in 0..250_u8 {
            let codec =
                [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd][usize::from(number % 5)];
            let batch = lying_batch(codec, &mut random);
            for topic in ["victim", "compacted"] {
                kept += usize::from(client.produce(topic, 0, batch.clone()).is_ok());
            }
        }
        kept
    })
    .into_iter()
    .sum();
    println!("{kept} of {} batches were kept", ATTACKERS * 500);
    let read = |address: &str| Connection::open(address).values("victim", 0, 0).unwrap();
    let before = read(&address);
    wait_until("the cleaner has been there", || {
        let mut client = Connection::open(&address);
        let last = client.produce("compacted", 0, keyed("again")).unwrap();
        let left = client.values("compacted", 0, 0).unwrap().len();
        i64::try_from(left).unwrap() < last / 2
    });
    victim.is_well(AT_REST);
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    assert!(read(&address) == before, "what was kept stays as it was");
    victim.is_well(AT_REST);
}

/// Batches below the usual limit of a megabyte that are far more when inflated.
fn bombs() -> Vec<(String, Bytes)> {
    let mut bombs = Vec::new();
    let large = vec![0; 120 << 20];
    for (codec, records, name) in [
        (Codec::Zstd, 2, "zstd, two records"),
        (Codec::Zstd, 3, "zstd, beyond what is inflated at all"),
        (Codec::Gzip, 1, "gzip, one record"),
        (Codec::Lz4, 1, "lz4, one record"),
    ] {
        let bomb = batch_of(&vec![&large[..]; records], codec);
        bombs.push((format!("{name}: {} bytes", bomb.len()), bomb));
    }
    let many: Vec<&[u8]> = vec![&[]; 2_000_000];
    let bomb = batch_of(&many, Codec::Zstd);
    bombs.push((format!("zstd, two million empty records: {} bytes", bomb.len()), bomb));
    bombs.retain(|(name, bomb)| {
        if bomb.len() > 8 << 20 {
            println!("left out, too large to send: {name}");
        }
        bomb.len() <= 8 << 20
    });
    bombs
}

/// A batch with some bytes changed behind its checksum, which is then made to fit.
fn lying_batch(codec: Codec, random: &mut StdRng) -> Bytes {
    const CHECKSUM: std::ops::Range<usize> = 17..21;
    let mut bytes = keyed_batch(codec, random.random_bool(0.3)).to_vec();
    for _ in 0..random.random_range(0..4) {
        // The fixed fields in front are where most lies are possible.
        let end = if random.random_bool(0.5) { batch::HEADER_LEN } else { bytes.len() };
        let at = random.random_range(CHECKSUM.end..end);
        bytes[at] = match random.random_range(0..4) {
            0 => 0xff,
            1 => 0x7f,
            2 => bytes[at].wrapping_add(1),
            _ => random.random(),
        };
    }
    let checksum = batch::crc_of(&bytes[CHECKSUM.end..]);
    bytes[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    bytes.into()
}

fn keyed_batch(codec: Codec, has_producer: bool) -> Bytes {
    let mut builder = BatchBuilder::new(0).codec(codec);
    if has_producer {
        builder = builder.producer(ProducerFields { id: 7, epoch: 0, base_sequence: 0 });
    }
    for number in 0..8_u8 {
        let key = [b'k', number % 3];
        let headers: &[(&[u8], Option<&[u8]>)] = &[(b"header", Some(b"value")), (b"none", None)];
        let value = [b'v'; 30];
        let record =
            NewRecord { timestamp: 1_700_000_000_000, key: Some(&key), value: Some(&value), headers };
        builder.push(&record).unwrap();
    }
    builder.finish().unwrap()
}

/// One record with a key, as a compacted topic wants it.
fn keyed(key: &str) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    let record = NewRecord { key: Some(key.as_bytes()), value: Some(b"v"), ..NewRecord::default() };
    builder.push(&record).unwrap();
    builder.finish().unwrap()
}
