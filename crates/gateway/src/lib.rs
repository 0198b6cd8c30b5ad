//! Kafka sockets in front, the rail behind.
//!
//! [`Gateway::bind`] takes the addresses, [`Gateway::serve`] answers on them until it is told to stop, and then
//! answers what it has read before it closes. In between, each connection is one task on one thread: it reads all
//! complete frames that are there, hands them to the [`rail::Rail`] in order, and writes all replies that are ready
//! with one call. A gateway holds no topic and no group.
//!
//! For a newcomer: [`Gateway`] accepts, `workers` are the threads, `arrival` is where a client begins (with TLS, if the
//! listener speaks it), `connection` is its life, `input` and `output` are its two buffers, `relay` tells a thread which
//! answers others have made ready, and `limits` names what one client can make us hold. What a client must show before
//! it is let in is in `guard`, `authentication` and `login`; an `entrance` is what all clients of a listener share.

mod admission;
mod arrival;
mod authentication;
mod bind;
mod complaint;
mod connection;
mod ending;
mod entrance;
mod gateway;
mod guard;
mod input;
mod limits;
mod login;
mod metrics;
mod options;
mod outcome;
mod output;
mod pauses;
mod penalty;
mod relay;
mod security;
mod signpost;
mod stream;
mod tls;
mod watched;
mod workers;

pub use bind::BindError;
pub use gateway::{Gateway, ServeError};
pub use metrics::Metrics;
pub use options::{ListenerConfig, Options};
pub use security::{ClientAuth, Mechanism, OAuth, Sasl, Security, Tls};
