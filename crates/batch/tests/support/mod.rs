//! Random records for the property tests.

use batch::{BatchBuilder, Codec, NewRecord, ProducerFields};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A record before it has an offset.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Any codec.
pub(crate) fn codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(&Codec::ALL[..])
}

/// One to forty records, some with large values.
pub(crate) fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let small = vec(any::<u8>(), 0..40);
    let large = (any::<u8>(), 0..100_000_usize).prop_map(|(byte, length)| vec![byte; length]);
    let value = prop_oneof![8 => small.clone(), 1 => vec(any::<u8>(), 0..5000), 1 => large];
    let header = ("[a-zé]{0,6}", option::of(vec(any::<u8>(), 0..10)));
    let draft = (0..4_000_000_000_000_i64, option::of(small), option::of(value), vec(header, 0..4))
        .prop_map(|(timestamp, key, value, headers)| Draft { timestamp, key, value, headers });
    vec(draft, 1..40)
}

/// The batch of these records, with offsets from 0.
pub(crate) fn build(drafts: &[Draft], codec: Codec) -> Bytes {
    let mut builder =
        BatchBuilder::new(0).codec(codec).producer(ProducerFields { id: 7, epoch: 1, base_sequence: 5 });
    for draft in drafts {
        let headers: Vec<_> =
            draft.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref())).collect();
        builder
            .push(&NewRecord {
                timestamp: draft.timestamp,
                key: draft.key.as_deref(),
                value: draft.value.as_deref(),
                headers: &headers,
            })
            .expect("a small record fits");
    }
    builder.finish().expect("a small batch fits")
}
