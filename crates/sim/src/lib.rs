//! Consumer groups as they live: many consumers, a bad network, gateways that come and go, a rail that delays, drops and
//! is cut, a disk that fails, power that is cut, one seed.
//!
//! [`run`] plays one seed in virtual time, with the production machine `coordination::group::Shard` behind a driver
//! that keeps the broker's contract, and says what happened or which rule was broken. The same seed always gives the
//! same run.

pub mod broker;
pub mod checker;
pub mod consumer;
pub mod consumer_protocol;
pub mod counts;
pub mod disk;
pub mod gateway;
pub mod message;
pub mod plan;
pub mod random;
pub mod trace;
mod world;

pub use world::{Failure, Summary, run};
