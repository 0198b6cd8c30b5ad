//! Kafka bytes to ops and replies to Kafka bytes.
//!
//! A gateway drives this crate with these functions. A *frame* is what follows the 4-byte size.
//!
//! ```text
//! decode_request(frame: Bytes) -> Result<Request, DecodeError>
//!     Request { head: Head, client_id: ClientId, body: Body }
//!     Head { api: ApiKey, version: i16, correlation_id: i32, .. }
//!     Body::Op(Op)        goes to the broker; its Reply comes back through `encode_reply`
//!     Body::Local(Local)  needs no state; `answer` answers it
//!     Body::Sasl(Sasl)    a step of a login, for the gateway; `encode_sasl_handshake` or
//!                         `encode_sasl_authenticate` answers it
//! encode_reply(head: &Head, reply: Reply, addresses: &Addresses) -> Frame
//! encode_reply_onto(tail: &mut BytesMut, …) -> Frame   the same behind other answers, without memory of its own
//! answer(head: &Head, request: Local) -> Frame
//! ```
//!
//! On a [`DecodeError`] the connection is closed without an answer, as Kafka does. When
//! [`Head::expects_reply`] says no (Produce with acks=0), the reply is not encoded; if it holds an error,
//! the connection is closed, since that is all such a producer can notice.
//! [`Frame::chunks`] are ready for a vectored write and begin with the size.
//!
//! A client works with messages: [`encode_request`] and [`decode_response`].
//!
//! For a newcomer: [`message`] is the language in which messages are described, [`table`] lists the APIs,
//! and each file in [`api`] holds one of them with its two directions.

mod addresses;
pub mod api;
#[cfg(test)]
pub mod arbitrary;
mod error;
mod exchange;
pub mod field;
mod login;
pub mod message;
#[cfg(test)]
mod oracle;
mod reader;
mod repeated;
mod reply;
mod request;
pub mod table;
mod writer;

pub use addresses::{Addresses, NodeAddress, leader};
pub use error::{DecodeError, Place, Problem, TextTooLong};
pub use exchange::{
    RequestHeader, decode_any_request, decode_any_response, decode_response, encode_any_request,
    encode_any_response, encode_request, encode_whole_request,
};
pub use field::{LONGEST_TEXT, Records, Uuid};
pub use login::{Sasl, encode_sasl_authenticate, encode_sasl_handshake};
pub use message::{Message, RequestMessage};
pub use reader::Reader;
pub use repeated::{KnownHeartbeat, address_reply};
pub use reply::{answer, encode_reply, encode_reply_onto};
pub use request::{Body, ClientId, Head, Local, Request, decode_request};
pub use table::{AnyRequest, AnyResponse, ApiKey};
pub use writer::{Frame, Writer};
