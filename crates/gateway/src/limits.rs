//! The bounds of what one connection can make the gateway hold, each with the reason for its number.

use std::time::Duration;

/// The room that a quiet connection is given for the next read: a page, which holds dozens of small requests.
pub(crate) const READ_MIN: usize = 4 << 10;

/// The room that a busy connection is given for one read. Beyond this, fewer system calls are no longer worth
/// the memory.
pub(crate) const READ_MAX: usize = 64 << 10;

/// From this size on, records stay in the memory they were read into; smaller ones are copied out of it. So what
/// the broker keeps holds at most four times its own size.
pub(crate) const KEPT_IN_PLACE: usize = READ_MAX / 4;

/// How much room a frame gets for each byte of it that has arrived. Its announced length is only a claim;
/// with this factor a frame of 1 MiB is moved once while it is still 64 KiB, and a claim alone gets nothing. Up to
/// twice as much where that spares a move.
pub(crate) const GROWTH: usize = 16;

/// How far a connection is read while its next request may not start yet. Enough to notice that the client
/// has gone and to start at once when it may; the rest waits in the client.
pub(crate) const READ_AHEAD: usize = 64 << 10;

/// How many requests of one connection may wait for the disk together: Produce, OffsetCommit and the heartbeats
/// between them. Clients with idempotence have five on the way; those without have up to hundreds.
pub(crate) const OVERLAPPING: usize = 1_000;

/// Up to this size a heartbeat or a commit travels to another process together with others. A larger one gains nothing by
/// company, and would make it wait.
pub(crate) const GATHERED: usize = 4 << 10;

/// For how many ops that travel together room is made at once.
pub(crate) const GATHERED_RESERVE: usize = 64;

/// How many bytes those requests may hold. Enough to keep a disk busy with writes of several MiB; what comes after
/// waits in the socket.
pub(crate) const OVERLAPPING_BYTES: usize = 16 << 20;

/// How many bytes the requests of all connections may hold before their requests no longer overlap. Twice
/// what the store writes at once: while one group is written, the next is there already. Beyond it every
/// connection has one request on the way, so that memory does not grow by the above for each producer.
pub(crate) const IN_FLIGHT_BYTES: usize = 64 << 20;

/// No further request is started while more unsent output than this waits, so a client that does not read
/// holds this much and the one answer that passed it.
pub(crate) const OUTPUT: usize = 256 << 10;

/// Below this size bytes are copied together instead of being an entry of a vectored write.
pub(crate) const OUTPUT_COPY: usize = 4 << 10;

/// The entries of one vectored write.
pub(crate) const OUTPUT_SLICES: usize = 64;

/// How long a connection that we have ended waits for the client to close its side. Closing at once while
/// the client still sends would make the kernel reset the connection and could lose the last answers.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// How often a connection that drains looks whether all that it still waits for is parked.
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(250);

/// How long to wait before accepting again when the process is out of file descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often the same complaint is logged.
pub(crate) const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// How many answers of one thread's connections may be read from the disk at a time: more than a disk is faster with,
/// and few enough that their stacks do not count.
pub(crate) const BLOCKING_THREADS: usize = 64;

/// On machines of up to so many processors each thread of connections keeps to one. On larger ones the scheduler finds an idle
/// processor by itself while there is one, and a thread that is kept elsewhere could not go there.
pub(crate) const PINNED_PROCESSORS: usize = 4;

/// How long a thread that has ended waits for reads of the disk that nobody waits for any more.
pub(crate) const LET_GO: Duration = Duration::from_millis(100);

/// How often files are looked at that may have changed: soon enough for whoever renews a certificate and then checks,
/// and no work that shows.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How many connections of one address may be on their way to show who they are. A machine full of clients that all
/// start at once has hundreds; who guesses passwords has no more than these, each waiting for its answer.
pub(crate) const UNKNOWN_PER_IP: usize = 256;

/// How many addresses that have failed are remembered: a few hundred KiB at most.
pub(crate) const PENALTIES: usize = 4096;

/// The longest that an address waits which keeps failing. Longer would only hold connections open here.
pub(crate) const PENALTY_MAX: Duration = Duration::from_secs(5);

/// How often the delay is doubled at most; enough for any delay to reach the above.
pub(crate) const PENALTY_DOUBLINGS: u32 = 16;

/// After this long without a failure an address has failed never.
pub(crate) const PENALTY_FORGOTTEN: Duration = Duration::from_secs(60);

/// How many passwords are hashed at a time, by all threads together. Each takes milliseconds of a processor, which
/// those who are connected already need more.
pub(crate) const HASHING: usize = 2;

/// How often a client may show again who it is, as in Kafka.
pub(crate) const REAUTH_INTERVAL: Duration = Duration::from_secs(1);

/// How many bytes TLS holds encrypted before it takes no more to encrypt: as many as go out with one call.
pub(crate) const TLS_OUTPUT: usize = 256 << 10;
