//! How a request to a broker can fail.

use std::io;

use coordination::error_code::ErrorCode;

use crate::security::Mechanism;

/// Why a request got no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not `host:port`.
    #[error("{} is not an address; expected host:port", if address.is_empty() { "\"\"" } else { address })]
    Address {
        /// What was given.
        address: String,
    },
    /// Nobody answers at the address. Check that a broker runs there, then try again.
    #[error("cannot reach a broker at {address}; is one running there?")]
    Connect {
        /// The address that was dialled.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A name or another text is too long to be sent. Nothing was asked.
    #[error("a text in {request} is too long")]
    TooLong {
        /// What would have been asked.
        request: &'static str,
        /// How long it is, and how long it may be.
        source: wire::TextTooLong,
    },
    /// The broker did not answer in time. It may still do what was asked.
    #[error("no answer from {address} to {request} within {seconds} s")]
    TimedOut {
        /// The broker.
        address: String,
        /// What was asked.
        request: &'static str,
        /// How long we waited.
        seconds: u64,
    },
    /// The connection broke. The request may or may not have taken effect.
    #[error("the connection to {address} broke during {request}")]
    Broken {
        /// The broker.
        address: String,
        /// What was asked.
        request: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// What came back cannot be an answer: probably no Kafka listens there.
    #[error("{address} does not answer like a Kafka broker ({problem}); is it a plain Kafka listener?")]
    NotKafka {
        /// The address.
        address: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The security settings contradict themselves or cannot be read. Nothing was dialled.
    #[error("{problem}")]
    Security {
        /// What is wrong with them.
        problem: String,
    },
    /// The listener speaks TLS and we did not.
    #[error("{address} speaks TLS; give the CA that signed its certificate")]
    WantsTls {
        /// The address.
        address: String,
    },
    /// TLS did not come about, or broke.
    #[error("TLS with {address} failed: {problem}")]
    Tls {
        /// The address.
        address: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The broker was not convinced of who we are, or we were not of who it is.
    #[error("{address} did not authenticate us with {mechanism}: {problem}")]
    Authentication {
        /// The broker.
        address: String,
        /// How we tried.
        mechanism: Mechanism,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The broker is too old or too new for this request.
    #[error("the broker at {address} offers no version of {request} that this client speaks")]
    Unsupported {
        /// The broker.
        address: String,
        /// What would have been asked.
        request: &'static str,
    },
    /// The broker cannot tell what was asked for; brokers of a later version can.
    #[error("the broker at {address} is too old to {wish}")]
    TooOld {
        /// The broker.
        address: String,
        /// What it would have to do.
        wish: &'static str,
    },
    /// The broker's answer is silent about a part of what was asked, so nobody knows what became of that.
    #[error("the broker left it out of its answer to {request}")]
    Unanswered {
        /// What was asked.
        request: &'static str,
    },
    /// The answer holds a number that this client has no name for; a later one may.
    #[error("the broker tells of {what} {number}, which this client does not know")]
    UnknownNumber {
        /// What the number stands for.
        what: &'static str,
        /// The number.
        number: i8,
    },
    /// The broker answered no.
    #[error("{}", refusal(*code, message.as_deref()))]
    Refused {
        /// Kafka's error number.
        code: i16,
        /// What the broker says about it.
        message: Option<String>,
    },
}

impl ClientError {
    /// Whether the broker was never reached, or lost.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::NotKafka { .. }
            | Self::WantsTls { .. }
            | Self::Tls { .. } => true,
            Self::Address { .. }
            | Self::TooLong { .. }
            | Self::Security { .. }
            | Self::Authentication { .. }
            | Self::Unsupported { .. }
            | Self::TooOld { .. }
            | Self::Unanswered { .. }
            | Self::UnknownNumber { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// Kafka's error, if the broker answered with one that we know.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => ErrorCode::from_number(*code),
            _ => None,
        }
    }
}

/// An error number of a reply as a result.
pub(crate) fn accepted(code: i16, message: Option<String>) -> Result<(), ClientError> {
    match code {
        0 => Ok(()),
        code => Err(ClientError::Refused { code, message }),
    }
}

fn refusal(code: i16, message: Option<&str>) -> String {
    let name = match ErrorCode::from_number(code) {
        Some(code) => code.to_string(),
        None => format!("error {code}"),
    };
    match message {
        Some(message) if !message.is_empty() => format!("{message} [{name}]"),
        _ => name,
    }
}
