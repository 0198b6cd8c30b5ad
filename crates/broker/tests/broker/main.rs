//! The broker over a store in memory: every rule as a sentence.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod cleaning;
mod faults;
mod fetch;
mod fetch_sessions;
mod gateways;
mod group_world;
mod groups;
mod idempotence;
mod isolation;
mod limits;
mod offsets;
mod orgs;
mod produce;
mod restart;
mod world;
