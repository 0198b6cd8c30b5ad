//! Listeners that ask who their clients are: real clients with TLS and SASL, Kafka's own tools, organisations that never
//! meet, and what every API asks for.
//!
//! A client that cannot run on this machine is passed over, except where `CI=true`.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[path = "../support/certificates.rs"]
mod certificates;
mod isolation;
mod logins;
mod permissions;
mod probes;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod world;
