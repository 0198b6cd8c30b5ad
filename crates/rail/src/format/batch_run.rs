//! Where record batches begin and end among the pieces of an answer.

use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;

/// Some of the pieces that a partition's records are in: as few as make whole batches.
///
/// A piece mostly has one batch or many. A batch that the broker has received and not written yet is two: its head,
/// which has the offset that the broker gave it, and what the client sent behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchRun {
    /// How many pieces.
    pub(super) pieces: usize,
    /// Their bytes.
    pub(super) length: usize,
    /// The offset of the first batch.
    pub(super) base_offset: i64,
    /// The offset behind the last batch.
    pub(super) next_offset: i64,
    /// A digest of the headers of all batches. A header has the checksum of what follows it, so batches that were
    /// written anew, as by compaction, have another digest.
    pub(super) digest: u64,
}

/// What every record batch begins with.
const HEADER: usize = 61;

/// Where in the header the distance of a batch's last offset from its first is.
const LAST_OFFSET_DELTA: usize = 23;

/// What of the header a batch's length does not count.
const UNCOUNTED: usize = 12;

impl BatchRun {
    /// The run that begins with the first of `pieces`; none if these are not whole batches.
    ///
    /// Where there is none, nobody can say where the next batch begins: what follows may be what a client wrote, and
    /// look like a batch although it is none.
    pub(super) fn first_of(pieces: &[Bytes], hashes: &impl BuildHasher) -> Option<Self> {
        let mut digest = hashes.build_hasher();
        let mut base_offset = None;
        let mut next_offset = 0;
        let mut length = 0;
        // What pieces that follow have of the batch.
        let mut missing = 0;
        for (place, piece) in pieces.iter().enumerate() {
            length += piece.len();
            let mut at = piece.len().min(missing);
            missing -= at;
            while at < piece.len() {
                let header = piece[at..].first_chunk::<HEADER>()?;
                let (offset, rest) = header.split_first_chunk::<8>()?;
                let counted = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
                let size = counted.checked_add(UNCOUNTED).filter(|&size| size >= HEADER)?;
                let offset = i64::from_be_bytes(*offset);
                let last = i32::from_be_bytes(*header[LAST_OFFSET_DELTA..].first_chunk()?);
                base_offset.get_or_insert(offset);
                next_offset = offset.checked_add(i64::from(last))?.checked_add(1)?;
                digest.write(header);
                let here = size.min(piece.len() - at);
                at += here;
                missing = size - here;
            }
            if missing == 0
                && let Some(base_offset) = base_offset
            {
                let (pieces, digest) = (place + 1, digest.finish());
                return Some(Self { pieces, length, base_offset, next_offset, digest });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    fn batch(base_offset: i64, size: usize) -> Vec<u8> {
        let counted = u32::try_from(size - UNCOUNTED).expect("small").to_be_bytes();
        let mut batch = [&base_offset.to_be_bytes()[..], &counted].concat();
        batch.resize(size, 7);
        batch
    }

    #[test]
    fn a_run_ends_behind_the_last_offset_of_its_last_batch() {
        let mut last = batch(9, 200);
        last[LAST_OFFSET_DELTA..LAST_OFFSET_DELTA + 4].copy_from_slice(&3_i32.to_be_bytes());
        let pieces = [Bytes::from([batch(5, 100), last].concat())];
        let run = BatchRun::first_of(&pieces, &RandomState::new()).expect("batches");
        assert_eq!((run.base_offset, run.next_offset), (5, 13));
        let beyond = [Bytes::from(batch(i64::MAX, 100))];
        assert_eq!(BatchRun::first_of(&beyond, &RandomState::new()), None, "no offset is there");
    }

    fn run(pieces: &[&[u8]]) -> Option<(usize, usize, i64)> {
        let pieces: Vec<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
        let run = BatchRun::first_of(&pieces, &RandomState::new())?;
        Some((run.pieces, run.length, run.base_offset))
    }

    #[test]
    fn a_run_is_as_few_pieces_as_make_whole_batches() {
        let (one, two) = (batch(5, 100), batch(9, HEADER));
        assert_eq!(run(&[&one, &two]), Some((1, 100, 5)), "a batch");
        assert_eq!(run(&[&[&one[..], &two].concat(), &one]), Some((1, 161, 5)), "batches in one piece");
        assert_eq!(run(&[&one[..HEADER], &one[HEADER..], &two]), Some((2, 100, 5)), "the head apart");
        assert_eq!(run(&[&[&one[..], &two].concat()[..130], &two[30..]]), None, "a header in two pieces");
        assert_eq!(run(&[&one[..70], &one[70..80], &one[80..]]), Some((3, 100, 5)), "three pieces");
        assert_eq!(run(&[&[], &one]), Some((2, 100, 5)), "a piece of nothing");
    }

    #[test]
    fn what_is_not_whole_batches_is_no_run() {
        let one = batch(5, 100);
        let too_small = [&[0; 11][..], &[48], &[0; 60]].concat();
        let endless = [&[0; 8][..], &[0xff; 4], &[0; 60]].concat();
        let cases: [&[&[u8]]; 7] = [
            &[],
            &[&[]],
            &[b"no batch"],
            &[&one[..99]],
            &[&[&one[..], b"more"].concat()],
            &[&too_small],
            &[&endless],
        ];
        for pieces in cases {
            assert_eq!(run(pieces), None, "{pieces:?}");
        }
    }

    #[test]
    fn every_header_counts_for_the_digest_and_how_it_is_cut_does_not() {
        let hashes = RandomState::new();
        let digest = |pieces: &[&[u8]]| {
            let pieces: Vec<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
            BatchRun::first_of(&pieces, &hashes).expect("batches").digest
        };
        let both = [batch(5, 100), batch(9, 200)].concat();
        assert_eq!(digest(&[&both]), digest(&[&both[..61], &both[61..]]));
        for place in [12, 20, 60, 120, 160] {
            let mut other = both.clone();
            other[place] ^= 1;
            assert_ne!(digest(&[&both]), digest(&[&other]), "byte {place}");
        }
    }
}
