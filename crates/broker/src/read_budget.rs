//! Bounds the memory that answers hold on their way from the disk to clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// How many bytes read from disk may wait for their clients, over all of them. Recent batches do not count: they
/// are in memory anyway.
pub(crate) const READ_BYTES_MAX: usize = 64 << 20;

/// Below this average size the pieces of an answer are put together: each piece is counted on its own, and the
/// codec would copy them anyway.
const SMALL_PIECE: usize = 4 << 10;

/// What clients that read slowly, or not at all, may hold together.
///
/// When it is used up a fetch still gets one batch, so that every client gets on: the bound is this and one batch
/// for each connection.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    held: AtomicUsize,
    most: usize,
}

impl ReadBudget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    /// Takes up to `wanted` bytes out of the budget, before they are read.
    pub(crate) fn reserve(self: &Arc<Self>, wanted: usize) -> Reserved {
        let take = |held: usize| wanted.min(self.most.saturating_sub(held));
        let before =
            self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held + take(held)));
        let bytes = take(before.unwrap_or_else(|held| held));
        Reserved { budget: Arc::clone(self), bytes }
    }
}

/// A part of the budget; what of it was not used goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Arc<ReadBudget>,
    bytes: usize,
}

impl Reserved {
    /// How many bytes may be read.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts what was read until its last holder lets go of it.
    pub(crate) fn hold(self, mut pieces: Vec<Bytes>) -> Vec<Bytes> {
        let total: usize = pieces.iter().map(Bytes::len).sum();
        if pieces.len() > 1 && total / pieces.len() < SMALL_PIECE {
            pieces = vec![pieces.concat().into()];
        }
        let hold = |bytes: Bytes| {
            self.budget.held.fetch_add(bytes.len(), Ordering::Relaxed);
            Bytes::from_owner(Held { budget: Arc::clone(&self.budget), bytes })
        };
        pieces.into_iter().map(hold).collect()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes that count while anybody has them.
struct Held {
    budget: Arc<ReadBudget>,
    bytes: Bytes,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(budget: &ReadBudget) -> usize {
        budget.held.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_read_counts_until_the_last_holder_lets_go() {
        let budget = ReadBudget::new(100_000);
        let reserved = budget.reserve(60_000);
        assert_eq!((reserved.bytes(), held(&budget)), (60_000, 60_000));
        let pieces = reserved.hold(vec![Bytes::from(vec![1; 50_000])]);
        assert_eq!(held(&budget), 50_000);
        let part = pieces[0].slice(..10);
        drop(pieces);
        assert_eq!(held(&budget), 50_000);
        drop(part);
        assert_eq!(held(&budget), 0);
    }

    #[test]
    fn nothing_is_left_when_slow_clients_hold_it_all() {
        let budget = ReadBudget::new(100_000);
        let first = budget.reserve(usize::MAX);
        assert_eq!(first.bytes(), 100_000);
        assert_eq!(budget.reserve(1).bytes(), 0);
        drop(first);
        assert_eq!(budget.reserve(1).bytes(), 1);
        assert_eq!(held(&budget), 0);
    }

    #[test]
    fn many_small_pieces_are_put_together_and_one_batch_may_go_beyond_the_budget() {
        let budget = ReadBudget::new(10);
        let reserved = budget.reserve(1000);
        let pieces = reserved.hold(vec![Bytes::from_static(b"abcdefgh"), Bytes::from_static(b"ijklmnop")]);
        assert_eq!(pieces, [Bytes::from_static(b"abcdefghijklmnop")]);
        assert_eq!(held(&budget), 16);
        drop(pieces);
        assert_eq!(held(&budget), 0);
    }
}
