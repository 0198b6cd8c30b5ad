//! Texts and batches without what differs from broker to broker by nature.

use batch::{BatchHeader, HEADER_LEN, RecordCursor};
use bytes::Bytes;

use crate::differences;

/// The first UUID in a text, and where it begins.
pub(crate) fn first_uuid(text: &str) -> Option<(usize, &str)> {
    let fits = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.match_indices('-').find_map(|(dash, _)| {
        let at = dash.checked_sub(8)?;
        let candidate = text.get(at..at + 36)?;
        candidate.bytes().enumerate().all(fits).then_some((at, candidate))
    })
}

/// Kafka makes the topics of its coordinators when it needs them, Kohort when it starts or not at all.
pub(crate) fn is_shared(topic: &str) -> bool {
    !["__consumer_offsets", "__transaction_state", "__share_group_state"].contains(&topic)
}

/// What a broker says to those who may not do something with the cluster, without the request, its connection and
/// their addresses in memory, which Kafka's words are full of.
pub(crate) fn without_requests(text: &str) -> String {
    const BEGIN: &str = "\"Request Request(";
    const END: &str = " permission.\"";
    let mut parts = text.split(BEGIN);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(END) {
            Some((_, rest)) => named = named + "\"Cluster authorization failed.\"" + rest,
            None => named = named + BEGIN + part,
        }
    }
    named
}

/// What a broker says in a SCRAM exchange, without what it drew by lot and what follows from that.
pub(crate) fn without_nonce(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    match text.split_once(",s=") {
        Some((nonce, rest)) if nonce.starts_with("r=") => format!("r=a nonce,s={rest}"),
        _ if text.starts_with("v=") => "v=a signature".to_owned(),
        _ => text.into_owned(),
    }
}

/// A refusal of a timestamp without the bounds, which move with the clock.
pub(crate) fn without_bounds(message: String) -> String {
    match message.split_once(" within [") {
        Some((front, _)) => format!("{front} within bounds"),
        None => message,
    }
}

/// The batches as text, without what differs by nature: producer ids, the broker's time, and so the checksum.
///
/// No two compressors give the same bytes; where the broker has compressed, the records count.
pub(crate) fn shown_batches(mut bytes: &[u8], recompressed: bool) -> Vec<Bytes> {
    let mut shown = Vec::new();
    while let Ok(header) = BatchHeader::parse(bytes)
        && let Some(batch) = bytes.get(..header.size())
    {
        let compressed = recompressed && header.attributes.codec_id() != 0;
        let named = BatchHeader {
            producer_id: header.producer_id.min(0),
            crc: 0,
            max_timestamp: if header.attributes.0 & 8 == 0 { header.max_timestamp } else { 0 },
            batch_length: if compressed { 0 } else { header.batch_length },
            ..header
        };
        let content = if compressed {
            shown_records(batch)
        } else {
            format!("{:08x}", batch::crc_of(batch.get(HEADER_LEN..).unwrap_or_default()))
        };
        shown.push(format!("{named:?} {content}").into());
        bytes = &bytes[batch.len()..];
    }
    if !bytes.is_empty() {
        shown.push(differences::PART_OF_A_BATCH.into());
    }
    shown
}

fn shown_records(batch: &[u8]) -> String {
    let mut text = String::new();
    let mut records = RecordCursor::new(&Bytes::copy_from_slice(batch)).expect("a batch that can be read");
    while let Some(record) = records.next_record() {
        text.push_str(&format!("{:?}", record.expect("a record that can be read")));
    }
    text
}
