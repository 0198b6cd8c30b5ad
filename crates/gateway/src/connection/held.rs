//! What the requests of a connection hold in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;

/// Bytes that the requests of one connection hold, counted among those of all.
pub(super) struct Held {
    pub(super) bytes: usize,
    pub(super) shared: Arc<Shared>,
}

impl Held {
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.shared.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.shared.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}
