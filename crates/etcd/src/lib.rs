//! What we ask of etcd: leases, election, mirrors of a prefix, guarded transactions.
//!
//! [`Etcd`] is the connection to a cluster of any number of members. A member that does not answer, or that is cut off
//! from the others, is left for another one; reads are then asked again there, and a write is only if it is certain
//! that it was never carried out. [`Mirror`] follows a prefix, [`Election`] finds one leader.
//!
//! etcd 3.4.25, 3.5.8 or newer is needed: before that a watch could claim to be current when it was not. Keys that are
//! no UTF-8 are not ours; they are left out wherever keys are read.

mod options;

mod client;
mod keys;
mod lease;

mod mirror;

mod election;

mod error;

mod auth;
mod members;
mod proto;
mod watch;

pub use client::Etcd;
pub use election::{Candidacy, Election, Leadership};
pub use error::EtcdError;
pub use keys::{Guard, KeyValue, Outcome, Snapshot, Write};
pub use lease::LeaseId;
pub use mirror::{KeyChange, Mirror, Update};
pub use options::{Options, Tls};
