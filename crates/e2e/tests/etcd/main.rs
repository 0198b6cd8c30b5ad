//! Our etcd crate against a real etcd, one node and three.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod cluster;
mod elections;
mod keys;
mod mirrors;
mod security;
mod world;
