//! The crate `kafka-protocol` reads what is built here, and what it builds is read here.

mod support;

use batch::{Codec, DecompressionBudget, RecordChecks, Records, check_produced, check_records};
use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record as TheirRecord, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType as TheirTimestampType,
};
use proptest::prelude::*;
use support::{Draft, build, codec, drafts};

fn theirs(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

/// Their headers are a map, so of several with one key it keeps the last, in the place of the first.
fn as_map(draft: &Draft) -> IndexMap<StrBytes, Option<Bytes>> {
    draft
        .headers
        .iter()
        .map(|(key, value)| (StrBytes::from_string(key.clone()), value.clone().map(Bytes::from)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_we_build_they_read(drafts in drafts(), codec in codec()) {
        let mut batch = build(&drafts, codec);
        let set = RecordBatchDecoder::decode(&mut batch).unwrap();
        prop_assert_eq!(set.compression, theirs(codec));
        prop_assert_eq!(set.records.len(), drafts.len());
        for (index, (draft, record)) in drafts.iter().zip(&set.records).enumerate() {
            prop_assert_eq!(record.offset, index as i64);
            prop_assert_eq!(i64::from(record.sequence), 5 + record.offset);
            prop_assert_eq!((record.producer_id, record.producer_epoch), (7, 1));
            prop_assert_eq!(record.timestamp, draft.timestamp);
            prop_assert_eq!(record.key.as_deref(), draft.key.as_deref());
            prop_assert_eq!(record.value.as_deref(), draft.value.as_deref());
            prop_assert_eq!(&record.headers, &as_map(draft));
        }
    }

    #[test]
    fn what_they_build_we_read(drafts in drafts(), codec in codec()) {
        let records: Vec<_> = drafts.iter().zip(0_i32..).map(|(draft, index)| TheirRecord {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 0,
            producer_id: 7,
            producer_epoch: 1,
            timestamp_type: TheirTimestampType::Creation,
            offset: i64::from(index),
            sequence: 5 + index,
            timestamp: draft.timestamp,
            key: draft.key.clone().map(Bytes::from),
            value: draft.value.clone().map(Bytes::from),
            headers: as_map(draft),
        }).collect();
        let mut batch = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: theirs(codec) };
        RecordBatchEncoder::encode(&mut batch, &records, &options).unwrap();

        let checked = check_produced(&batch.freeze(), usize::MAX).unwrap();
        prop_assert_eq!(checked.codec, codec);
        check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default()).unwrap();
        let read: Vec<_> = Records::new(&checked.bytes).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), records.len());
        for (theirs, ours) in records.iter().zip(&read) {
            prop_assert_eq!(theirs.offset, ours.offset);
            prop_assert_eq!(theirs.timestamp, ours.timestamp);
            prop_assert_eq!(&theirs.key, &ours.key);
            prop_assert_eq!(&theirs.value, &ours.value);
            let headers: Vec<_> =
                theirs.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_ref())).collect();
            let read_headers: Vec<_> =
                ours.headers.iter().map(|header| (&header.key[..], header.value.as_ref())).collect();
            prop_assert_eq!(headers, read_headers);
        }
    }
}
