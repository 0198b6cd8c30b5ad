//! How much of anything one instance serves, so that no number of clients brings it down.

use std::time::Duration;

/// Connections at a time. Further ones are closed at once, so that their clients go to another instance.
pub(super) const CONNECTIONS_MAX: usize = 20_000;

/// Registered streams at a time. Each holds a few kilobytes and at most the commands of its channel.
pub(super) const STREAMS_MAX: usize = 20_000;

/// Streams and calls at a time on one connection. Consumers need two; the rest is for proxies.
pub(super) const STREAMS_PER_CONNECTION_MAX: u32 = 1_000;

/// Calls of one connection that are worked on at a time; further ones wait.
pub(super) const CALLS_PER_CONNECTION_MAX: usize = 256;

/// The largest message that is read. A consumer that holds 10,000 partitions with the longest names says so in 3 MiB.
pub(super) const MESSAGE_SIZE_MAX: usize = 4 * 1024 * 1024;

/// The most that the headers of one call may take, the token included.
pub(super) const HEADERS_SIZE_MAX: u32 = 16 * 1024;

/// Groups at a time. Each instance holds all of them, and the leader plans them one after the other.
pub(super) const GROUPS_MAX: usize = 10_000;

/// The longest lease that is granted because of what lies in etcd: a day, in milliseconds.
pub(super) const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// How many plans are made at a time for those who ask what would happen; further ones wait.
pub(super) const PLANS_MAX: usize = 2;

/// How often at most the progress of one handoff is written to etcd, in milliseconds. It is for people to look at and
/// for deadlines of minutes.
pub(super) const PROGRESS_INTERVAL_MS: u64 = 500;

/// Consumers that a plan can be asked to do with or without: more than anybody rolls out at a time, and little enough
/// that the plan takes no time that others would notice.
pub(super) const SUPPOSED_CONSUMERS_MAX: usize = 1_000;

/// How often at least a connection is asked whether its peer is there, however long leases are.
pub(super) const PING_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// How long at most the answer to that may take.
pub(super) const PING_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// How often at most it is asked, and how long it may take at least, however short leases are.
pub(super) const PING_MIN: Duration = Duration::from_secs(1);

/// How long a peer may take to say anything at all, or to finish the handshake of TLS.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long calls may go on after the instance was told to stop.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before the next connection is taken after the machine refused one, for example because there are
/// no file descriptors left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The most characters of a text of a client's that are repeated in an answer.
pub(super) const SHOWN_MAX: usize = 64;
