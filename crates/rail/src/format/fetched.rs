//! The records of a fetch, behind its head.
//!
//! In version 2 each partition has the number of its pieces and the length of each. From version 3 on it has a number
//! for each, whose lowest two bits say what the rest of it means, and the number [`END`] behind the last:
//!
//! ```text
//! length << 2       so many bytes
//! length << 2 | 1   so many bytes, which are kept
//! back << 2 | 2     what was kept so many before the newest; nothing follows behind the head
//! ```
//!
//! Behind the last partition stands how many of the oldest that are kept are forgotten now.

use bytes::Bytes;
use coordination::reply::{Fetch, FetchPartition, Origin};

use super::kept_records::{KeptRecords, Saying, SentRecords};
use super::put::{put_number, take_number};
use super::records::Records;
use super::{FormatError, Version};
use crate::limits::{KEPT_IN_PLACE, MESSAGE_MAX};

const NAME: &str = "Fetch";

const HERE: u64 = 0;
const KEPT: u64 = 1;
const AGAIN: u64 = 2;
const END: u64 = 3;

/// Moves the records out of `fetch` to `records`, and appends to `lengths` what a reader has to know of them.
pub(super) fn put_records(
    version: Version,
    fetch: &mut Fetch,
    sent: &mut SentRecords,
    lengths: &mut Vec<u8>,
    records: &mut Vec<Bytes>,
) -> Result<(), FormatError> {
    if version < Version::Three {
        for partition in partitions(fetch) {
            put_number(partition.records.len() as u64, lengths);
            for piece in partition.records.drain(..) {
                put_number(piece.len() as u64, lengths);
                records.push(piece);
            }
        }
        return Ok(());
    }
    let mut total = 0;
    for topic in &mut fetch.topics {
        let known = topic.id.filter(|_| sent.is_on());
        for partition in &mut topic.partitions {
            let Origin { files, at_hand, .. } = std::mem::take(&mut partition.origin);
            for number in at_hand {
                let Some((back, length)) = sent.back(number) else {
                    // The client asks again for what is missing, and it is read then. Nothing may follow a gap.
                    partition.records.clear();
                    break;
                };
                put_number(back << 2 | AGAIN, lengths);
                total += length;
            }
            let mut pieces = std::mem::take(&mut partition.records).into_iter();
            total += pieces.as_slice().iter().map(Bytes::len).sum::<usize>();
            while let Some(topic) = known
                && let Some(run) = sent.first_run(pieces.as_slice())
            {
                let of_the_run = pieces.by_ref().take(run.pieces);
                match sent.say(topic, partition.index, files, &run) {
                    Saying::Here => {
                        put_number((run.length as u64) << 2 | HERE, lengths);
                        records.extend(of_the_run);
                    }
                    Saying::Kept => {
                        put_number((run.length as u64) << 2 | KEPT, lengths);
                        records.extend(of_the_run);
                    }
                    Saying::Again(back) => {
                        put_number(back << 2 | AGAIN, lengths);
                        of_the_run.for_each(drop);
                    }
                }
            }
            for piece in pieces {
                put_number((piece.len() as u64) << 2 | HERE, lengths);
                records.push(piece);
            }
            put_number(END, lengths);
        }
    }
    put_number(sent.forget(), lengths);
    // What is named counts like what is sent: the reader has to answer with all of it.
    if total > MESSAGE_MAX { Err(FormatError::TooLarge(MESSAGE_MAX)) } else { Ok(()) }
}

/// Gives `fetch` its records. `rest` is what follows the head in `message`.
pub(super) fn take_records(
    version: Version,
    fetch: &mut Fetch,
    kept: &mut KeptRecords,
    message: &Bytes,
    rest: &[u8],
) -> Result<(), FormatError> {
    let mut lengths = rest;
    let mut ends = rest;
    if version < Version::Three {
        for _ in partitions(fetch) {
            for _ in 0..take_number(NAME, &mut ends)? {
                take_number(NAME, &mut ends)?;
            }
        }
        let mut records = Records::behind(message, ends);
        for partition in partitions(fetch) {
            for _ in 0..take_number(NAME, &mut lengths)? {
                let length = take_number(NAME, &mut lengths)?;
                partition.records.push(records.next(NAME, length)?);
            }
        }
        return records.end(NAME);
    }
    let mut kept_here: u64 = 0;
    for _ in partitions(fetch) {
        while let Some(piece) = Piece::take(&mut ends)? {
            if let Piece::Kept(length) = piece {
                kept_here = kept_here.saturating_add(length);
            }
        }
    }
    let forgotten = take_number(NAME, &mut ends)?;
    // A slice keeps all that was received with it.
    let moves_out = message.len() < KEPT_IN_PLACE || kept_here < message.len() as u64 / 2;
    let mut records = Records::behind(message, ends);
    let mut total = 0;
    for partition in partitions(fetch) {
        while let Some(piece) = Piece::take(&mut lengths)? {
            let piece = match piece {
                Piece::Here(length) => records.next(NAME, length)?,
                Piece::Kept(length) => {
                    let piece = records.next(NAME, length)?;
                    let piece = if moves_out { Bytes::copy_from_slice(&piece) } else { piece };
                    kept.keep(piece.clone())?;
                    piece
                }
                Piece::Again(back) => kept.again(back)?,
            };
            total += piece.len();
            if total > MESSAGE_MAX {
                return Err(FormatError::TooLarge(MESSAGE_MAX));
            }
            partition.records.push(piece);
        }
    }
    records.end(NAME)?;
    kept.forget(forgotten)
}

/// What is told of one piece.
enum Piece {
    Here(u64),
    Kept(u64),
    Again(u64),
}

impl Piece {
    /// Reads what is told of the next piece of a partition, if there is one.
    fn take(bytes: &mut &[u8]) -> Result<Option<Self>, FormatError> {
        let number = take_number(NAME, bytes)?;
        match (number & 3, number >> 2) {
            (HERE, length) => Ok(Some(Self::Here(length))),
            (KEPT, length) => Ok(Some(Self::Kept(length))),
            (AGAIN, back) => Ok(Some(Self::Again(back))),
            (_, 0) => Ok(None),
            _ => Err(FormatError::Bound("what is told of records", number)),
        }
    }
}

fn partitions(fetch: &mut Fetch) -> impl Iterator<Item = &mut FetchPartition> {
    fetch.topics.iter_mut().flat_map(|topic| &mut topic.partitions)
}
