//! Peers that send nonsense, lies and too much, against a real Kohort: it lives, stays small and serves the others.
//!
//! `KOHORT_HOSTILE_SEED` repeats the bytes of a run.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod batches;
mod clients;
mod frames;
mod group_floods;
mod group_lists;
mod group_sizes;
mod groups;
#[path = "../support/mod.rs"]
mod support;
mod victim;
