//! Bytes from someone who means harm: every one of them gets an answer, never a panic.

mod support;

use std::io::{self, Read};

use batch::{
    Attributes, BatchBuilder, BatchError, BatchHeader, Codec, DecompressionBudget, HEADER_LEN,
    MAX_DECOMPRESSED, NewRecord, RecordChecks, RecordCursor, RecordFault, Records, TimestampType,
    check_batches, check_produced, check_records, crc_of, with_log_append_time,
};
use bytes::Bytes;
use proptest::prelude::*;
use support::{build, codec, drafts};

/// Does with `bytes` all that can be done with bytes.
fn poke(bytes: &Bytes) {
    let _ = BatchHeader::parse(bytes);
    let _ = with_log_append_time(bytes, 1);
    let _ = check_produced(bytes, 1 << 20);
    for checked in check_batches(bytes).unwrap_or_default() {
        let _ = check_records(
            &checked,
            &RecordChecks { require_key: true, timestamps: None },
            &mut DecompressionBudget::default(),
        );
    }
    if let Ok(records) = Records::new(bytes) {
        records.for_each(drop);
    }
    if let Ok(mut cursor) = RecordCursor::new(bytes) {
        while let Some(Ok(view)) = cursor.next_record() {
            view.headers.for_each(drop);
        }
    }
}

/// Makes the checksum right again, so that a mutation reaches what lies behind that check.
fn reseal(batch: &mut [u8]) {
    let crc = crc_of(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// A batch with this header and these bytes for records.
fn raw(header: BatchHeader, records: &[u8]) -> Bytes {
    let batch_length = i32::try_from(HEADER_LEN - 12 + records.len()).expect("a small batch");
    let mut batch = BatchHeader { batch_length, ..header }.to_bytes().to_vec();
    batch.extend_from_slice(records);
    reseal(&mut batch);
    batch.into()
}

fn header_for(count: i32, codec: Codec) -> BatchHeader {
    let empty = BatchBuilder::new(0).finish().expect("a bare header fits");
    BatchHeader {
        records_count: count,
        last_offset_delta: count - 1,
        attributes: Attributes::new(codec, TimestampType::CreateTime),
        ..BatchHeader::parse(&empty).expect("it was just built")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        poke(&bytes.into());
    }

    #[test]
    fn random_records_behind_a_good_header_get_an_answer(
        records in prop::collection::vec(any::<u8>(), 0..300),
        count in 1..i32::MAX,
        codec in codec(),
    ) {
        poke(&raw(header_for(count, codec), &records));
    }

    #[test]
    fn a_cut_batch_gets_an_answer(drafts in drafts(), codec in codec(), cut: prop::sample::Index) {
        let batch = build(&drafts, codec);
        let cut = batch.slice(..cut.index(batch.len()));
        poke(&cut);
        prop_assert_eq!(check_produced(&cut, usize::MAX).unwrap_err(), BatchError::Empty);
    }

    #[test]
    fn cut_records_are_never_taken_for_whole(drafts in drafts(), codec in codec(), cut: prop::sample::Index) {
        let batch = build(&drafts, codec);
        let header = BatchHeader::parse(&batch).unwrap();
        let records = &batch[HEADER_LEN..];
        let cut = raw(header, &records[..cut.index(records.len())]);
        poke(&cut);
        let checked = check_produced(&cut, usize::MAX).unwrap();
        // Every codec but these two ends with something that carries no record bytes.
        if matches!(codec, Codec::None | Codec::Snappy) {
            prop_assert!(check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()).is_err());
        }
    }

    #[test]
    fn a_changed_byte_is_found_by_the_checksum(
        drafts in drafts(),
        codec in codec(),
        at: prop::sample::Index,
        flip in 1..=u8::MAX,
    ) {
        let mut batch = build(&drafts, codec).to_vec();
        let at = 17 + at.index(batch.len() - 17);
        batch[at] ^= flip;
        let found = matches!(check_produced(&batch.clone().into(), usize::MAX), Err(BatchError::Crc { .. }));
        prop_assert!(found);
        reseal(&mut batch);
        poke(&batch.into());
    }
}

#[test]
fn older_formats_are_told_from_nonsense() {
    let mut batch = BatchBuilder::new(0).finish().unwrap().to_vec();
    for (magic, error) in
        [(0, BatchError::OldMagic(0)), (1, BatchError::OldMagic(1)), (3, BatchError::UnknownMagic(3))]
    {
        batch[16] = magic;
        assert_eq!(check_produced(&batch.clone().into(), 1000).unwrap_err(), error);
    }
    // A message of magic 1 is shorter than a header of ours.
    let mut old = vec![0; 34];
    old[11] = 22;
    old[16] = 1;
    assert_eq!(check_produced(&old.into(), 1000).unwrap_err(), BatchError::OldMagic(1));
}

#[test]
fn what_kafka_refuses_in_a_header_is_refused() {
    let good = header_for(1, Codec::None);
    let record = [14, 0, 0, 0, 1, 1, 0];
    assert!(check_produced(&raw(good, &record), 1000).is_ok());
    let cases = [
        (BatchHeader { base_offset: 1, ..good }, BatchError::BaseOffset(1)),
        (BatchHeader { attributes: Attributes(5), ..good }, BatchError::UnknownCodec(5)),
        (BatchHeader { last_offset_delta: -1, ..good }, BatchError::OffsetRange(-1)),
        (BatchHeader { records_count: 0, ..good }, BatchError::Count(0)),
        (
            BatchHeader { records_count: 2, ..good },
            BatchError::CountAndOffsets { count: 2, last_offset_delta: 0 },
        ),
        (BatchHeader { attributes: Attributes(0x20), ..good }, BatchError::Control),
        (BatchHeader { producer_id: 1, ..good }, BatchError::Sequence(-1)),
    ];
    for (header, error) in cases {
        assert_eq!(check_produced(&raw(header, &record), 1000).unwrap_err(), error);
    }
    let batch = raw(good, &record);
    let too_large = BatchError::TooLarge { size: batch.len(), max: 50 };
    assert_eq!(check_produced(&batch, 50).unwrap_err(), too_large);
    let mut short = batch.to_vec();
    short[11] = 48;
    assert_eq!(check_produced(&short.into(), 1000).unwrap_err(), BatchError::Length(48));
}

#[test]
fn what_is_wrong_with_a_record_is_named() {
    let check = |count, records: &[u8]| {
        let checked = check_produced(&raw(header_for(count, Codec::None), records), 1000).unwrap();
        check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()).map(drop)
    };
    let fault = |index, fault| Err(BatchError::Record { index, fault });
    // Size, attributes, timestamp and offset deltas, null key, null value, no headers.
    let good = [12, 0, 0, 0, 1, 1, 0];
    let second = [12, 0, 0, 2, 1, 1, 0];
    assert_eq!(check(1, &good), Ok(()));
    assert_eq!(check(2, &[good, second].concat()), Ok(()));
    assert_eq!(check(2, &good), fault(1, RecordFault::Truncated));
    assert_eq!(check(1, &[good, good].concat()), Err(BatchError::RecordsRemain));
    assert_eq!(check(2, &[good, good].concat()), fault(1, RecordFault::OffsetDelta));
    assert_eq!(check(1, &[14, 0, 0, 0, 1, 1, 0]), fault(0, RecordFault::Size));
    assert_eq!(check(1, &[1, 0, 0, 0, 1, 1, 0]), fault(0, RecordFault::NegativeLength));
    assert_eq!(check(1, &[12, 0, 0, 0, 1, 1, 1]), fault(0, RecordFault::NegativeLength));
    assert_eq!(check(1, &[14, 0, 0, 0, 1, 1, 2, 1]), fault(0, RecordFault::NegativeLength));
    assert_eq!(check(1, &[12, 0, 0, 0, 40, 1, 0]), fault(0, RecordFault::Truncated));
    assert_eq!(check(1, &[0xff; 20]), fault(0, RecordFault::Varint));
}

#[test]
fn a_small_batch_that_unpacks_without_end_is_stopped() {
    // One record whose value has more bytes than may be unpacked, and they are there: zeros.
    let length = MAX_DECOMPRESSED + 100;
    let mut front = varint(length + 20);
    front.extend_from_slice(&[0, 0, 0, 1]);
    front.extend_from_slice(&varint(length));
    let mut packed = Vec::new();
    zstd::stream::copy_encode(front.as_slice().chain(io::repeat(0)).take(length), &mut packed, 1).unwrap();
    assert!(packed.len() < 100_000);

    let batch = raw(header_for(1, Codec::Zstd), &packed);
    let checked = check_produced(&batch, 1 << 20).unwrap();
    let too_large = |limit| BatchError::TooLargeDecompressed { limit };
    assert_eq!(
        check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()),
        Err(too_large(MAX_DECOMPRESSED))
    );
    let limited = RecordCursor::with_limit(&batch, 1 << 20).unwrap();
    assert_eq!(Records::from(limited).next(), Some(Err(too_large(1 << 20))));
}

fn varint(number: u64) -> Vec<u8> {
    let mut left = number << 1;
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    bytes.push(left.to_le_bytes()[0]);
    bytes
}

#[test]
fn a_record_that_does_not_fit_leaves_the_builder_as_it_was() {
    let batch = build(&[], Codec::None);
    let header = BatchHeader::parse(&batch).unwrap();
    let mut builder = BatchBuilder::keeping(&header).unwrap();
    let record = NewRecord { timestamp: 1, key: None, value: None, headers: &[] };
    assert_eq!(builder.push(&record), Err(BatchError::DoesNotFit("the record's offset")));
    assert!(builder.is_empty());
}

#[test]
fn all_batches_of_a_request_share_what_they_may_unpack_to() {
    let value = [0; 1000];
    let packed = |codec| {
        let mut builder = BatchBuilder::new(0).codec(codec);
        builder.push(&NewRecord { timestamp: 1, key: None, value: Some(&value), headers: &[] }).unwrap();
        check_produced(&builder.finish().unwrap(), 10_000).unwrap()
    };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut budget = DecompressionBudget::new(2500);
        let mut check = || check_records(&packed(codec), &RecordChecks::default(), &mut budget).map(drop);
        assert_eq!((check(), check()), (Ok(()), Ok(())));
        let left = budget.left();
        assert!((400..500).contains(&left), "{codec:?}: {left}");
        let mut check =
            |codec| check_records(&packed(codec), &RecordChecks::default(), &mut budget).map(drop);
        assert_eq!(check(codec), Err(BatchError::TooLargeDecompressed { limit: left }));
        assert_eq!(
            check(codec),
            Err(BatchError::TooLargeDecompressed { limit: 0 }),
            "what failed is paid for"
        );
        assert_eq!(check(Codec::None), Ok(()), "what is not compressed costs nothing");
    }
}
