//! What a consumer needs to get its partitions by warm handoff.
//!
//! Describe the consumer, implement [`Handler`], start it, and leave in the end:
//!
//! ```no_run
//! use assigner_client::{Consumer, Handler, HandlerError, Owned, Partition, Warming};
//!
//! struct Counters;
//!
//! impl Handler for Counters {
//!     async fn warm(&self, warming: Warming) -> Result<(), HandlerError> {
//!         // Gather state, report progress, and end early when `warming.ended()` says so.
//!         Ok(())
//!     }
//!     async fn assign(&self, owned: Owned) -> Result<(), HandlerError> {
//!         // Begin to read from the committed offset; check `owned.is_mine()` before every effect.
//!         Ok(())
//!     }
//!     async fn release(&self, partition: Partition) -> Result<(), HandlerError> {
//!         // Stop, flush, commit.
//!         Ok(())
//!     }
//!     async fn cancel(&self, partition: Partition) {}
//!     async fn revoke(&self, partition: Partition) {}
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let consumer = Consumer::builder("counter-0")
//!     .group("counters")
//!     .topic("lines")
//!     .endpoints(["http://assigner-0:50051", "http://assigner-1:50051"])
//!     .build()?;
//! let running = consumer.start(Counters);
//! tokio::signal::ctrl_c().await?;
//! running.deregister().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What the library sees to:
//!
//! - It reconnects, to another instance if need be, and goes on where it was. Within the lease nothing has moved.
//! - It says that it lives, and when that was not answered for two thirds of the lease it stops all work: `revoke` is
//!   called for every partition, and [`Ownership`] says at once that nothing is ours. That holds for a process that was
//!   suspended as well, as long as it asks [`Owned::is_mine`] before each effect that others can see.
//! - Acknowledgements carry handoff and epoch and are repeated until they are answered.
//! - Another process under the same name fences this one: all work stops, the assigner is told so, and [`Running`] ends
//!   with [`RunError::Fenced`]. It does not come back by itself.

mod consumer;
mod handler;
mod ownership;
mod partition;

mod calls;
mod clock;
mod driver;
mod machine;

pub use calls::{REFUSAL, Token};
pub use consumer::{BuildError, Builder, Consumer, RunError, Running, Tls};
pub use handler::{Handler, HandlerError, Owned, Warming};
pub use machine::WarmEnd;
pub use ownership::Ownership;
pub use partition::Partition;

/// The protobuf `kafka_assigner.v1` as it travels.
pub mod proto {
    #![allow(
        missing_docs,
        clippy::all,
        unreachable_pub,
        unused_qualifications,
        reason = "made by the protobuf compiler"
    )]
    tonic::include_proto!("kafka_assigner.v1");
}
