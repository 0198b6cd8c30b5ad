//! What carries ops from a gateway to the broker.
//!
//! In one process it is a function call: the gateway holds the broker as a [`Rail`] and knows nothing else of
//! it. An answer that is there at once costs no task, no channel and no allocation.
//!
//! Between processes it is a link: one QUIC connection with a few long-lived streams, the lanes. The gateway holds a
//! [`RemoteRail`], which is a [`Rail`] too; the broker an [`Acceptor`], which calls the broker's own rail for each op
//! that arrives. [`mod@format`] says what travels. Nothing of this exists in a process that does not [`bind`].

mod acceptor;
mod carrier;
mod dialler;
mod endpoint;
mod fast_map;
pub mod format;
mod gated;
mod keys;
mod lane;
mod limits;
mod parked;
mod refuse;
mod remote;
mod roster;
mod served_lane;
mod served_link;
mod slots;

use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coordination::op::{self, Op};
use coordination::reply::Reply;

pub use acceptor::{Acceptor, Gatekeeper, LiveGateway, Refused};
pub use carrier::{ANONYMOUS, Carrier, TraceContext};
pub use dialler::LinkState;
pub use endpoint::{BindError, bind, bind_to_dial, local_address};
pub use format::{AtHand, Hello, Run, SentRecords};
pub use gated::{Dropped, Durable, Gated, Progress, Woken};
pub use iroh::{Endpoint, EndpointId};
pub use keys::{BrokerAddress, BrokerAddressError, Key, KeyError};
pub use limits::{FRAME_MAX, MESSAGE_MAX, TOGETHER as TOGETHER_MAX, UNFINISHED_MAX};
pub use refuse::refuse;
pub use remote::{Owed, OwedTogether, RemoteRail};
pub use roster::{Node, Roster};

/// The way to the broker.
pub trait Rail: Send + Sync + 'static {
    /// Hands `op` over.
    ///
    /// A produce has its place in the log, an offset commit is part of its group, and a heartbeat has been heard when
    /// the call returns. So the next of these three may be handed over before the first is answered, and they keep
    /// their order. Everything else takes effect at some moment before its answer: who needs an order between two of
    /// them waits for the first answer before the second call.
    ///
    /// Dropping an answer gives up the reply that is still owed, as when a client goes away; what the
    /// op has done already stays done.
    fn call(&self, carrier: &Carrier, op: Op) -> Answer;

    /// Hands a fetch over, as [`Self::call`] does, for a client whose gateway keeps records. An answer that is there at
    /// once may tell of records [at hand](coordination::reply::Origin::at_hand) instead of having them.
    fn fetch(&self, carrier: &Carrier, fetch: op::Fetch, sent: &SentRecords) -> Answer {
        let _ = sent;
        self.call(carrier, Op::Fetch(fetch))
    }

    /// Whether `op` may be kept back for a moment, until all that its client has sent is read, and then be handed over by
    /// [`Self::call_together`]. In one process nothing is gained by that.
    fn gathers(&self, op: &Op) -> bool {
        let _ = op;
        false
    }

    /// Hands over what one client has sent together, at most [`TOGETHER_MAX`] ops, each of which [`Self::gathers`] says yes
    /// to. They take effect in their order.
    ///
    /// # Errors
    /// When they cannot go together now. Nothing has happened, and each is to be [called](Self::call) by itself.
    fn call_together(&self, carrier: &Carrier, ops: Vec<Op>) -> Result<OwedTogether, Vec<Op>> {
        let _ = carrier;
        Err(ops)
    }

    /// The client has gone. What it took with [`Op::Enter`] is given back.
    fn leave(&self, carrier: &Carrier);

    /// The gateways that clients can be sent to; `None` when the one that asks is the only one.
    fn roster(&self) -> Option<Arc<Roster>> {
        None
    }
}

/// A reply, now or later.
#[must_use = "an answer that is dropped is a reply that nobody gets"]
pub enum Answer {
    /// The reply is there.
    Now(Reply),
    /// The reply is known and leaves when what it tells is durable.
    Gated(Gated),
    /// The reply comes when the disk, time or another client has done its part.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// The op is on its way to another process, whence the reply comes; or the link breaks before.
    Owed(Owed),
    /// The same, with something to do when the reply is there.
    Sent(Sent),
}

/// A reply that comes over a link, and something that is done then.
pub type Sent = Pin<Box<dyn Future<Output = Result<Reply, Lost>> + Send>>;

/// The link broke before the reply came. Whether the op was carried out is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link to the broker broke before the reply came")]
pub struct Lost;

impl Answer {
    /// The reply, as soon as it is there.
    ///
    /// # Errors
    /// When it will never be.
    pub async fn reply(self) -> Result<Reply, Lost> {
        match self {
            Self::Now(reply) => Ok(reply),
            Self::Gated(reply) => Ok(reply.await),
            Self::Later(reply) => Ok(reply.await),
            Self::Owed(reply) => reply.await,
            Self::Sent(reply) => reply.await,
        }
    }

    /// Asks once whether the reply is there.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Reply, Lost>> {
        match self {
            // What was taken is not asked for again, so what takes its place never answers, and needs no memory.
            Self::Now(_) => match std::mem::replace(self, Self::Sent(Box::pin(future::pending()))) {
                Self::Now(reply) => Poll::Ready(Ok(reply)),
                _ => Poll::Ready(Err(Lost)),
            },
            Self::Gated(reply) => Pin::new(reply).poll(context).map(Ok),
            Self::Later(reply) => reply.as_mut().poll(context).map(Ok),
            Self::Owed(reply) => Pin::new(reply).poll(context),
            Self::Sent(reply) => reply.as_mut().poll(context),
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Now(reply)
    }
}
