//! What carries ops from a gateway to the broker.
//!
//! In one process it is a function call: the gateway holds the broker as a [`Rail`] and knows nothing else of
//! it. An answer that is there at once costs no task, no channel and no allocation.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use coordination::ids::OrgId;
use coordination::op::Op;
use coordination::reply::Reply;

/// The way to the broker.
pub trait Rail: Send + Sync + 'static {
    /// Hands `op` over.
    ///
    /// A produce has its place in the log, an offset commit is part of its group, and a heartbeat has been heard when
    /// the call returns. So the next of these three may be handed over before the first is answered, and they keep
    /// their order. Everything else takes effect at some moment before its answer: who needs an order between two of
    /// them waits for the first answer before the second call.
    ///
    /// Dropping an [`Answer::Later`] gives up the reply that is still owed, as when a client goes away; what the
    /// op has done already stays done.
    fn call(&self, carrier: &Carrier, op: Op) -> Answer;
}

/// What travels beside an op: on whose behalf it is asked.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// The organisation whose topics and groups the op is about.
    pub org: OrgId,
    /// What the client calls itself.
    pub client_id: Option<Arc<str>>,
    /// The client's address.
    pub host: IpAddr,
}

/// A reply, now or later.
#[must_use = "an answer that is dropped is a reply that nobody gets"]
pub enum Answer {
    /// The reply is there.
    Now(Reply),
    /// The reply comes when the disk, time or another client has done its part.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Answer {
    /// The reply, as soon as it is there.
    pub async fn reply(self) -> Reply {
        match self {
            Self::Now(reply) => reply,
            Self::Later(reply) => reply.await,
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Now(reply)
    }
}
