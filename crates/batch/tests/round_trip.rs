//! What is built is what is read, with every codec and through every reader.

mod support;

use batch::{
    BatchBuilder, BatchError, BatchHeader, Batches, Codec, DecompressionBudget, NewRecord, Record,
    RecordChecks, RecordCursor, RecordRefusal, Records, RefusalReason, TimestampBounds, TimestampType,
    check_batches, check_produced, check_records, patched_head, verify_crc, with_log_append_time,
    with_max_timestamp,
};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use support::{Draft, build, codec, drafts};

fn assert_same(draft: &Draft, record: &Record) {
    assert_eq!(draft.timestamp, record.timestamp);
    assert_eq!(draft.key.as_deref(), record.key.as_deref());
    assert_eq!(draft.value.as_deref(), record.value.as_deref());
    let headers: Vec<_> =
        record.headers.iter().map(|header| (&header.key[..], header.value.as_deref())).collect();
    let expected: Vec<_> =
        draft.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref())).collect();
    assert_eq!(expected, headers);
}

fn read(batch: &Bytes) -> Vec<Record> {
    Records::new(batch).and_then(Iterator::collect).expect("the batch is good")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_was_built_is_read(drafts in drafts(), codec in codec()) {
        let batch = build(&drafts, codec);
        let checked = check_produced(&batch, usize::MAX).unwrap();
        prop_assert_eq!(checked.codec, codec);
        let seen = check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()).unwrap();
        prop_assert_eq!(Some(seen.max_timestamp), drafts.iter().map(|draft| draft.timestamp).max());
        prop_assert_eq!(seen.max_timestamp, checked.header.max_timestamp);

        let records = read(&batch);
        prop_assert_eq!(records.len(), drafts.len());
        for (index, (draft, record)) in drafts.iter().zip(&records).enumerate() {
            prop_assert_eq!(record.offset, index as i64);
            assert_same(draft, record);
        }
    }

    #[test]
    fn the_cursor_and_the_iterator_read_the_same(drafts in drafts(), codec in codec()) {
        let batch = build(&drafts, codec);
        let mut cursor = RecordCursor::new(&batch).unwrap();
        for record in read(&batch) {
            let view = cursor.next_record().unwrap().unwrap();
            prop_assert_eq!(view.offset, record.offset);
            prop_assert_eq!(view.key, record.key.as_deref());
            prop_assert_eq!(view.value, record.value.as_deref());
            prop_assert_eq!(view.headers.count(), record.headers.len());
        }
        prop_assert!(cursor.next_record().is_none());
    }

    #[test]
    fn a_batch_written_anew_keeps_its_place_and_the_chosen_records(
        drafts in drafts(),
        codec in codec(),
        choice: u64,
    ) {
        let batch = build(&drafts, codec);
        let header = BatchHeader::parse(&batch).unwrap();
        let mut builder = BatchBuilder::keeping(&header).unwrap();
        let mut cursor = RecordCursor::new(&batch).unwrap();
        let mut expected = Vec::new();
        for record in read(&batch) {
            let view = cursor.next_record().unwrap().unwrap();
            if choice >> (record.offset % 64) & 1 == 1 {
                builder.keep(&view).unwrap();
                expected.push(record);
            }
        }
        let rewritten = builder.finish().unwrap();
        verify_crc(&rewritten).unwrap();
        let kept = BatchHeader::parse(&rewritten).unwrap();
        prop_assert_eq!(usize::try_from(kept.records_count), Ok(expected.len()));
        let same = BatchHeader {
            crc: header.crc,
            batch_length: header.batch_length,
            records_count: header.records_count,
            ..kept
        };
        prop_assert_eq!(same, header);
        prop_assert_eq!(read(&rewritten), expected);
    }
}

fn three_records() -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for (timestamp, key) in [(1_000, Some(&b"a"[..])), (2_000, None), (3_000, Some(b"b"))] {
        builder.push(&NewRecord { timestamp, key, value: Some(b"v"), headers: &[] }).expect("it fits");
    }
    builder.finish().expect("it fits")
}

#[test]
fn a_record_without_a_key_is_refused_by_its_index_where_keys_are_required() {
    let checked = check_produced(&three_records(), 1000).unwrap();
    let checks = RecordChecks { require_key: true, timestamps: None };
    let seen = check_records(&checked, &checks, &mut DecompressionBudget::default()).unwrap();
    assert_eq!(seen.refused, [RecordRefusal { index: 1, reason: RefusalReason::MissingKey }]);
}

#[test]
fn timestamps_too_far_from_now_are_refused_by_their_index() {
    let checked = check_produced(&three_records(), 1000).unwrap();
    let bounds = TimestampBounds { now_ms: 2_000, before_max_ms: 999, after_max_ms: 999 };
    let seen = check_records(
        &checked,
        &RecordChecks { require_key: false, timestamps: Some(bounds) },
        &mut DecompressionBudget::default(),
    )
    .unwrap();
    let refused =
        |index, timestamp| RecordRefusal { index, reason: RefusalReason::TimestampOutOfRange { timestamp } };
    assert_eq!(seen.refused, [refused(0, 1_000), refused(2, 3_000)]);

    let wide = TimestampBounds { now_ms: 2_000, before_max_ms: 1_000, after_max_ms: 1_000 };
    let seen = check_records(
        &checked,
        &RecordChecks { require_key: false, timestamps: Some(wide) },
        &mut DecompressionBudget::default(),
    )
    .unwrap();
    assert_eq!(seen.refused, []);
}

#[test]
fn a_timestamp_so_old_that_64_bits_cannot_count_its_age_is_refused() {
    let mut builder = BatchBuilder::new(0);
    builder.push(&NewRecord { timestamp: i64::MIN, ..NewRecord::default() }).expect("it fits");
    let checked = check_produced(&builder.finish().expect("it fits"), 1000).unwrap();
    let bounds = TimestampBounds { now_ms: 2_000, before_max_ms: i64::MAX, after_max_ms: 1_000 };
    let checks = RecordChecks { require_key: false, timestamps: Some(bounds) };
    let seen = check_records(&checked, &checks, &mut DecompressionBudget::default()).unwrap();
    assert_eq!(seen.refused_count, 1);
}

#[test]
fn the_append_time_is_every_records_time() {
    let batch = with_log_append_time(&three_records(), 99).unwrap();
    verify_crc(&batch).unwrap();
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!((header.timestamp_type(), header.max_timestamp), (TimestampType::LogAppendTime, 99));
    assert!(read(&batch).iter().all(|record| record.timestamp == 99));

    // A producer that claims the broker has set the time is refused for each record.
    let checked = check_produced(&batch, 1000).unwrap();
    let seen =
        check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()).unwrap();
    assert_eq!(seen.refused.len(), 3);
    assert_eq!(seen.refused[0].reason, RefusalReason::LogAppendTimeFromProducer);
}

#[test]
fn a_header_that_is_wrong_about_time_is_put_right_and_a_right_one_left_alone() {
    let batch = three_records();
    let right = check_produced(&batch, 1000).unwrap();
    let seen = check_records(&right, &RecordChecks::default(), &mut DecompressionBudget::default()).unwrap();
    let kept = right.with_timestamps(&seen, TimestampType::CreateTime, 99).unwrap();
    assert_eq!(kept.bytes.as_ptr(), batch.as_ptr());

    let wrong = with_max_timestamp(&batch, TimestampType::CreateTime, 1).unwrap();
    let wrong = check_produced(&wrong, 1000).unwrap();
    let seen = check_records(&wrong, &RecordChecks::default(), &mut DecompressionBudget::default()).unwrap();
    let mended = wrong.clone().with_timestamps(&seen, TimestampType::CreateTime, 99).unwrap();
    assert_eq!((mended.header.max_timestamp, &mended.bytes), (3_000, &batch));
    let appended = wrong.with_timestamps(&seen, TimestampType::LogAppendTime, 99).unwrap();
    assert_eq!(appended.bytes, with_log_append_time(&batch, 99).unwrap());
}

#[test]
fn the_patched_head_moves_a_batch_without_touching_its_checksum() {
    let batch = three_records();
    let header = BatchHeader::parse(&batch).unwrap();
    let mut moved = BytesMut::from(&batch[..]);
    moved[..batch::PATCHED_HEAD_LEN].copy_from_slice(&patched_head(&header, 1_000_000, 17));
    verify_crc(&moved).unwrap();
    let moved = BatchHeader::parse(&moved).unwrap();
    assert_eq!((moved.base_offset, moved.partition_leader_epoch), (1_000_000, 17));
    assert_eq!(moved.last_offset(), 1_000_002);
}

#[test]
fn batches_in_a_row_are_split_and_an_unfinished_one_is_left() {
    let batch = three_records();
    let row: Bytes = [&batch[..], &batch[..], &batch[..batch.len() - 1]].concat().into();
    let mut batches = Batches::new(&row);
    assert_eq!(batches.by_ref().filter_map(Result::ok).count(), 2);
    assert_eq!(batches.remaining().len(), batch.len() - 1);
    assert_eq!(check_batches(&row).unwrap().len(), 2);
    assert_eq!(check_produced(&row, 1000).unwrap_err(), BatchError::MoreThanOne);
}

#[test]
fn an_emptied_compressed_batch_is_a_bare_header_that_reads_as_empty() {
    let batch = build(&[Draft { timestamp: 1, key: None, value: None, headers: vec![] }], Codec::Zstd);
    let header = BatchHeader::parse(&batch).unwrap();
    let emptied = BatchBuilder::keeping(&header).unwrap().finish().unwrap();
    assert_eq!(emptied.len(), batch::HEADER_LEN);
    assert_eq!(read(&emptied), []);
}

#[test]
fn sequences_go_on_from_zero_after_the_largest() {
    let header = BatchHeader {
        base_sequence: i32::MAX - 1,
        last_offset_delta: 2,
        ..BatchHeader::parse(&three_records()).unwrap()
    };
    assert_eq!(header.last_sequence(), 0);
    assert_eq!(BatchHeader { base_sequence: -1, ..header }.last_sequence(), -1);
}
