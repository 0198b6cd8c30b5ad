//! Bounds of what a link holds, with the reason for each number.

use std::time::Duration;

/// The largest frame. A heartbeat on the same lane waits behind at most this much.
pub const FRAME_MAX: usize = 1 << 20;

/// The largest message, in however many frames. A Kafka request may have 100 MiB, and a fetch may answer with as much.
pub const MESSAGE_MAX: usize = 128 << 20;

/// What the messages of one lane may hold together that have begun and not ended.
pub const UNFINISHED_MAX: usize = MESSAGE_MAX + (64 << 20);

/// How many messages of one lane may have begun and not ended. A reply is cut only when it is larger than a frame.
pub(crate) const UNFINISHED_COUNT: usize = 1024;

/// How many ops of one lane may be unanswered. A parked one costs a few hundred bytes on each side.
pub(crate) const IN_FLIGHT: usize = 1 << 18;

/// How many clients one lane may speak for: more than a gateway has sockets.
pub(crate) const CARRIERS: usize = 1 << 18;

/// What the announced clients of one lane may hold together. They have a few dozen bytes each; only client ids of
/// hostile length come near it.
pub(crate) const CARRIER_BYTES: usize = 64 << 20;

/// The longest texts of a heartbeat that is remembered for its client. Kafka's clients come to about a hundred bytes.
/// It is part of version 3 of the format: a broker that remembers less than its gateway does ends the lane.
pub(crate) const REMEMBERED_HEARTBEAT: usize = 256;

/// The longest commit that is remembered for its client. With a few partitions they come to less than two hundred bytes.
/// For as many clients as a lane may speak for, the broker so remembers at most some 128 MiB, heartbeats included.
/// It is part of version 5 of the format, as the number of ops that travel together is.
pub(crate) const REMEMBERED_COMMIT: usize = 256;

/// How many ops of one client travel in one message at the most.
pub const TOGETHER: usize = 1 << 10;

/// How much may be queued for a light lane before the rest waits where it is.
pub(crate) const QUEUED_LIGHT: usize = 1 << 20;

/// How much may be queued for a heavy lane. A fetch reply that is larger is queued when there is less.
pub(crate) const QUEUED_HEAVY: usize = 8 << 20;

/// How many streams a gateway may open beside the first.
pub(crate) const LANES: usize = 16;

/// Below this size records move out of what was received with them: a few records that the broker, or a gateway, keeps in
/// memory would else keep a whole datagram.
pub(crate) const KEPT_IN_PLACE: usize = 16 << 10;

/// Records below this size are copied behind their head, which costs less than a piece of their own.
pub(crate) const APART: usize = 1 << 10;

/// How many bytes of records the broker takes a gateway to keep for one lane, whatever it offers. For each record batch of
/// a few kibibytes the broker remembers about three hundred bytes.
pub(crate) const SENT_RECORDS_MAX: usize = 1 << 30;

/// How many of them, whatever their size: so what the broker remembers takes at most some 90 MiB for a lane.
/// It is part of version 3 of the format: a gateway ends a lane over which more are kept.
pub(crate) const KEPT_COUNT: usize = 1 << 18;

/// How long a peer may take from the handshake to its first words, which come with it.
pub(crate) const GREETING: Duration = Duration::from_secs(10);

/// The largest greeting: a few listeners with their names.
pub(crate) const GREETING_MAX: usize = 64 << 10;

/// How many peers may be between the first packet and admission at once.
pub(crate) const NEWCOMERS: usize = 256;

/// How many refused peers are remembered, so that each is logged once.
pub(crate) const REMEMBERED: usize = 4096;
