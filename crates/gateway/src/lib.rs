//! Kafka sockets in front, the rail behind.
//!
//! [`Gateway::bind`] takes the addresses, [`Gateway::serve`] answers on them until it is told to stop, and then
//! answers what it has read before it closes. In between, each connection is one task on one thread: it reads all
//! complete frames that are there, hands them to the [`rail::Rail`] in order, and writes all replies that are ready
//! with one call. A gateway holds no topic and no group.
//!
//! For a newcomer: [`Gateway`] accepts, `workers` are the threads, `connection` is the life of one client, `input` and
//! `output` are its two buffers, `relay` tells a thread which answers others have made ready, and `limits` names what
//! one client can make us hold.

mod admission;
mod bind;
mod complaint;
mod connection;
mod gateway;
mod input;
mod limits;
mod metrics;
mod options;
mod outcome;
mod output;
mod relay;
mod scheduling;
mod workers;

pub use bind::BindError;
pub use gateway::{Gateway, ServeError};
pub use metrics::Metrics;
pub use options::{ListenerConfig, Options};
