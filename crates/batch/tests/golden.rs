//! Batches that real clients have made, read field by field.
//!
//! Client, version and codec are in the file names; all hold the same three records.

use std::fs;
use std::path::Path;

use batch::{
    Attributes, BatchBuilder, Codec, DecompressionBudget, NewRecord, ProducerFields, Record, RecordChecks,
    RecordHeader, Records, TimestampType, check_produced, check_records,
};
use bytes::Bytes;

const TIME: i64 = 1_700_000_000_000;

fn big_value() -> Vec<u8> {
    (b'a'..=b'z').cycle().take(3000).collect()
}

fn expected() -> Vec<Record> {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let header = |value| RecordHeader { key: bytes("h"), value };
    vec![
        Record {
            offset: 0,
            timestamp: TIME,
            key: Some(bytes("k0")),
            value: Some(bytes("v0")),
            headers: vec![header(Some(bytes("x")))],
        },
        Record {
            offset: 1,
            timestamp: TIME + 5,
            key: None,
            value: Some(big_value().into()),
            headers: vec![],
        },
        Record {
            offset: 2,
            timestamp: TIME + 2,
            key: Some(bytes("k2")),
            value: None,
            headers: vec![header(None), header(Some(bytes("é")))],
        },
    ]
}

#[test]
fn batches_of_real_clients_are_checked_and_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut read = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let checked = check_produced(&Bytes::from(fs::read(&path).unwrap()), 1 << 20).expect(&name);
        assert!(name.ends_with(&format!("-{}", checked.codec)), "{name}");
        assert_eq!(
            checked.header.attributes,
            Attributes::new(checked.codec, TimestampType::CreateTime),
            "{name}"
        );
        assert_eq!(checked.header.base_timestamp, TIME, "{name}");
        assert_eq!(checked.header.max_timestamp, TIME + 5, "{name}");
        assert_eq!(
            (checked.header.producer_id, checked.header.producer_epoch, checked.header.base_sequence),
            (4711, 3, 42),
            "{name}"
        );
        assert_eq!(checked.header.last_sequence(), 44, "{name}");

        let seen = check_records(&checked, &RecordChecks::default(), &mut DecompressionBudget::default())
            .expect(&name);
        assert_eq!(seen.max_timestamp, TIME + 5, "{name}");
        assert_eq!(seen.refused, [], "{name}");
        let records: Vec<_> =
            Records::new(&checked.bytes).unwrap().map(|record| record.expect(&name)).collect();
        assert_eq!(records, expected(), "{name}");
        read += 1;
    }
    assert_eq!(read, 3 * Codec::ALL.len(), "three clients with five codecs each");
}

#[test]
fn an_uncompressed_batch_is_built_byte_for_byte_as_the_java_client_does() {
    let golden = include_bytes!("golden/kafka-clients-4.3.1-none.batch");
    let big = big_value();
    let mut builder = BatchBuilder::new(0).producer(ProducerFields { id: 4711, epoch: 3, base_sequence: 42 });
    let records = [
        NewRecord { timestamp: TIME, key: Some(b"k0"), value: Some(b"v0"), headers: &[(b"h", Some(b"x"))] },
        NewRecord { timestamp: TIME + 5, key: None, value: Some(&big), headers: &[] },
        NewRecord {
            timestamp: TIME + 2,
            key: Some(b"k2"),
            value: None,
            headers: &[(b"h", None), (b"h", Some("é".as_bytes()))],
        },
    ];
    for record in &records {
        builder.push(record).unwrap();
    }
    assert_eq!(builder.finish().unwrap(), &golden[..]);
}
