//! The broker over a store in memory: every rule as a sentence.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cleaning;
mod faults;
mod fetch;
mod fetch_sessions;
mod group_world;
mod groups;
mod idempotence;
mod offsets;
mod produce;
mod restart;
mod world;
