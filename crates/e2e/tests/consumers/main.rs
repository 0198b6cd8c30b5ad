//! What a consumer of librdkafka lives through, one behaviour a test: joining, leaving, committing, subscribing.
//!
//! Few tests need another client; they pass when the machine lacks it, except where `CI=true`.
//! `KOHORT_E2E_BROKER=kafka` lets the consumers live on a real Kafka instead, which tests the tests.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod admin;
mod closing;
mod committing;
mod polling;
mod programs;
mod reader;
mod rebalancing;
mod starting;
mod subscribing;
#[path = "../support/mod.rs"]
mod support;
mod world;
