//! What went wrong.

use std::time::Duration;

use tonic::{Code, ConnectError, Status};

use crate::options::reason;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// The options cannot be used as they are.
    #[error("the options for etcd are wrong: {0}")]
    Options(String),
    /// None of the members accepts connections. Nothing was carried out.
    #[error("etcd cannot be reached at {}: {reason}", .endpoints.join(", "))]
    Unreachable {
        /// All endpoints that were tried.
        endpoints: Vec<String>,
        /// Why the last one could not be reached.
        reason: String,
    },
    /// There was no answer in time; what was asked may have been carried out.
    #[error("etcd at {endpoint} did not answer within {after:?}")]
    TimedOut {
        /// The member asked last.
        endpoint: String,
        /// How long was waited.
        after: Duration,
    },
    /// A member or the connection to it failed; what was asked may have been carried out.
    #[error("etcd at {endpoint} failed: {reason}")]
    Failed {
        /// The member asked last.
        endpoint: String,
        /// What it said, or what became of the connection.
        reason: String,
    },
    /// etcd does not accept the name and password.
    #[error("etcd refused the name and password: {0}")]
    AuthRefused(String),
    /// The user may not do this.
    #[error("etcd denied permission: {0}")]
    Denied(String),
    /// The lease has ended.
    #[error("the lease has ended")]
    LeaseGone,
    /// The revision is older than what etcd keeps.
    #[error("etcd has compacted the revision away")]
    Compacted,
    /// A task of this side has ended that should not have.
    #[error("what follows etcd has broken off and begins again")]
    BrokenOff,
    /// etcd does not carry out what was asked, and would not if asked again.
    #[error("etcd refused the request: {0}")]
    Refused(String),
}

impl EtcdError {
    /// Whether the same may go well a little later, by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Failed { .. }
            | Self::Compacted
            | Self::BrokenOff => true,
            Self::Options(_)
            | Self::AuthRefused(_)
            | Self::Denied(_)
            | Self::LeaseGone
            | Self::Refused(_) => false,
        }
    }
}

/// What a status means for the request that got it.
pub(crate) enum Verdict {
    /// It never reached etcd.
    NotSent(String),
    /// The member has no leader and did not begin with it.
    NoLeader(String),
    /// The token is missing or not known any more; nothing was carried out.
    StaleToken,
    /// The member or the connection failed at some point.
    Failed(String),
    /// etcd's answer is no.
    Final(EtcdError),
}

pub(crate) fn judge(status: &Status) -> Verdict {
    let message = || match std::error::Error::source(status) {
        Some(source) => reason(source),
        None => status.message().to_owned(),
    };
    match status.code() {
        Code::Unavailable if was_never_sent(status) => Verdict::NotSent(message()),
        Code::Unavailable if status.message().ends_with("no leader") => Verdict::NoLeader(message()),
        Code::Unauthenticated => Verdict::StaleToken,
        // Someone has changed users or roles since the token was given out.
        Code::InvalidArgument if status.message().ends_with("revision of auth store is old") => {
            Verdict::StaleToken
        }
        Code::InvalidArgument if status.message().contains("authentication failed") => {
            Verdict::Final(EtcdError::AuthRefused(message()))
        }
        // What a member says that wants a token and got none.
        Code::InvalidArgument if status.message().ends_with("user name is empty") => Verdict::StaleToken,
        Code::PermissionDenied => Verdict::Final(EtcdError::Denied(message())),
        Code::NotFound if status.message().contains("lease not found") => {
            Verdict::Final(EtcdError::LeaseGone)
        }
        Code::OutOfRange if status.message().contains("compacted") => Verdict::Final(EtcdError::Compacted),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::NotFound => {
            Verdict::Final(EtcdError::Refused(message()))
        }
        Code::ResourceExhausted
            if status.message().contains("space exceeded")
                || status.message().contains("larger than max") =>
        {
            Verdict::Final(EtcdError::Refused(message()))
        }
        Code::AlreadyExists | Code::Unimplemented => Verdict::Final(EtcdError::Refused(message())),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Verdict::Failed(message()),
    }
}

fn was_never_sent(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}
