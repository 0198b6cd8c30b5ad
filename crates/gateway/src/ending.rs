//! Why a connection ends.

use std::io;

use rail::Lost;
use wire::DecodeError;

use crate::input::BadSize;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ending {
    #[error("the client closed it")]
    ClientClosed,
    #[error("the gateway is shutting down")]
    Drained,
    #[error("a producer that wants no answers could not be told of an error otherwise")]
    Refused,
    #[error("{0}")]
    Lost(#[from] Lost),
    #[error("{0}")]
    Size(#[from] BadSize),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("no request for connections.max.idle.ms")]
    Idle,
    #[error("the client does not read its answers")]
    Stalled,
    #[error("the client did not show who it is")]
    Unknown,
    #[error("the client did not show in time who it is")]
    TooSlow,
    #[error("the client asked for something before it showed who it is")]
    Early,
    #[error("the client did not show again who it is")]
    Expired,
    #[error("the broker does not let the client in")]
    Denied,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Ending {
    /// Whether the client was sent something last that it should get, while it may still be sending itself.
    pub(crate) fn has_last_words(&self) -> bool {
        matches!(self, Self::Drained | Self::Refused | Self::Unknown)
    }

    /// Whether it was our decision, and the client is still there to hear of it.
    pub(crate) fn is_ours(&self) -> bool {
        !matches!(self, Self::ClientClosed | Self::Stalled | Self::Io(_))
    }
}
