//! Consumers and operators that speak gRPC with instances of the assigner on a real etcd.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod consumer;
mod world;

mod access;
mod acknowledgements;
mod admin;
mod leaving;
mod original_contract;
mod sessions;
mod slow_consumer;
