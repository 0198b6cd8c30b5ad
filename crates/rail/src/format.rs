//! What travels over a link, byte by byte. Pure: no socket, no clock.
//!
//! A lane is a stream of frames: a length (`u32`, little endian, at most [`FRAME_MAX`](crate::FRAME_MAX)) and that many bytes. A
//! frame is a message, or a part of one that is larger. A message is a code and what belongs to it:
//!
//! ```text
//! op       code 0x01..  request id  carrier  trace context  op as postcard  lengths of records | records
//! reply    code of op   request id  reply as postcard  lengths of records | records
//! part     0xFE         part id     bytes (more follow)
//! part     0xFF         part id     bytes (the last; all of them together are a message)
//! ```
//!
//! Numbers are varints as in postcard. Heartbeats and commits have shorter forms, too: see `together.rs`. Records
//! travel behind the bar as they are: they are slices of what the client sent, or of the broker's memory, and become
//! slices of what was received. From version 3 on, records of a fetch that have crossed the lane before, and that
//! the gateway keeps, are named among the lengths and do not travel again.

mod batch_run;
mod codes;
mod control;
mod fetched;
mod inlet;
mod kept_records;
mod message;
mod outbox;
mod put;
mod records;
mod together;
pub(crate) mod version;

pub use codes::{OpCode, op_codes, since};
pub use control::{Announced, Hello, Welcome};
pub use inlet::Inlet;
pub use kept_records::{AtHand, KeptRecords, SentRecords};
pub use message::{FromBroker, FromGateway, Head, LaneClass};
pub use outbox::{Order, Outbox};
pub use together::{Memory, Run, Said, is_gathered};
pub use version::Version;

pub use message::{
    again, announce, cancel, decode_from_broker, decode_from_gateway, gone, greet, lane, leave, replies,
    reply, request, roster, together, welcome,
};

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A frame of a size that none has.
    #[error("a frame of {0} bytes, where 1 to 1048576 are allowed")]
    FrameSize(usize),
    /// A message in parts that grows too large.
    #[error("a message of more than {0} bytes")]
    TooLarge(usize),
    /// Too many messages have begun and not ended.
    #[error("too many messages in parts at once")]
    TooManyParts,
    /// A message ends before all of it was told.
    #[error("the message {0} ends too early")]
    Short(&'static str),
    /// A message does not end where it should.
    #[error("the message {0} has {1} bytes too many")]
    Trailing(&'static str, usize),
    /// Postcard cannot read it.
    #[error("the message {name} cannot be read: {error}")]
    Body {
        /// Which message.
        name: &'static str,
        /// What postcard says.
        error: postcard::Error,
    },
    /// Postcard cannot write it.
    #[error("the message {name} cannot be written: {error}")]
    Unwritable {
        /// Which message.
        name: &'static str,
        /// What postcard says.
        error: postcard::Error,
    },
    /// A code that no message has in this version.
    #[error("no message has the code {0:#04x}")]
    Code(u8),
    /// A number beyond its bound.
    #[error("{0} {1} is out of bounds")]
    Bound(&'static str, u64),
}
