//! Requests that are encoded once and patched each time they leave.

use wire::{RequestMessage, encode_request};

/// What the load calls itself.
pub(crate) const CLIENT_ID: &str = "kohort-bench";

/// Where the correlation id stands in a request: behind the size, the API's key and its version.
const CORRELATION: std::ops::Range<usize> = 8..12;

/// Stands in a template for a value that is put in later; no real offset is as large.
pub(crate) const PLACEHOLDER: i64 = 0x4b6f_686f_7274_2121;

/// A request in its bytes, with the places that change.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where [`PLACEHOLDER`] stood.
    places: Vec<usize>,
}

impl Template {
    /// Encodes the request and finds its placeholders.
    pub(crate) fn new<R: RequestMessage>(request: &R, version: i16) -> Self {
        let bytes = encode_request(request, version, 0, Some(CLIENT_ID)).into_bytes().to_vec();
        let wanted = PLACEHOLDER.to_be_bytes();
        let places = bytes.windows(8).enumerate().filter(|(_, window)| *window == wanted);
        let places = places.map(|(place, _)| place).collect();
        Self { bytes, places }
    }

    /// How many bytes it takes, its size in front included.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts the request into an outbox, with `value` wherever the placeholder stood.
    #[inline]
    pub(crate) fn put(&self, correlation_id: i32, value: i64, outbox: &mut Vec<u8>) {
        let start = outbox.len();
        outbox.extend_from_slice(&self.bytes);
        let request = &mut outbox[start..];
        request[CORRELATION].copy_from_slice(&correlation_id.to_be_bytes());
        for &place in &self.places {
            request[place..place + 8].copy_from_slice(&value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::api::offset_commit::{
        OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };

    use super::*;

    #[test]
    fn a_patched_request_is_the_request_that_would_have_been_encoded() {
        let commit = |offset: i64| OffsetCommitRequest {
            group_id: "g".to_owned(),
            topics: vec![OffsetCommitRequestTopic {
                name: "t".to_owned(),
                partitions: (0..3)
                    .map(|partition_index| OffsetCommitRequestPartition {
                        partition_index,
                        committed_offset: offset,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        for version in [2, 9] {
            let mut patched = b"before".to_vec();
            Template::new(&commit(PLACEHOLDER), version).put(7, 1234, &mut patched);
            let encoded = encode_request(&commit(1234), version, 7, Some(CLIENT_ID)).into_bytes();
            assert_eq!(&patched[6..], &encoded[..]);
        }
    }
}
