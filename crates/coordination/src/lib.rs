//! What Kohort decides, without ever acting: ids, ops, replies, records and the machines behind them.
//!
//! Nothing here waits, reads a clock, draws a random number or touches a file or socket; time and ids are
//! handed in, and what the world should do is handed out. So everything can be tested by scripts and replayed.
//!
//! A request enters as an [`op::Op`] and leaves as a [`reply::Reply`]. The catalog of topics and the table of
//! producers are machines: they are asked, they answer with records, and only records change them. The groups of a
//! [`group::Shard`] are machines in time as well: requests wait in them, and deadlines come.

pub mod access;
pub mod catalog;
pub mod client_quotas;
pub mod error_code;
pub mod group;
pub mod handoff;
pub mod ids;
pub mod limits;
pub mod op;
pub mod producer;
pub mod record;
pub mod reply;
pub mod settings;
