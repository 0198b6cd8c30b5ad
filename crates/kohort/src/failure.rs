//! How a command fails: a message for people and an exit code for scripts.

use std::fmt;
use std::process::ExitCode;

/// A failure with its exit code; what is not wrapped in one exits with 1.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

/// Which exit code a failure has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something went wrong.
    Failed = 1,
    /// Flags, file or environment are wrong.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// What was asked for does not exist, or exists already.
    Absent = 4,
}

impl Failure {
    /// A failure of this kind.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit code of an error: that of the first [`Failure`] in its chain.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(kind(error) as u8)
}

/// The kind of an error, which its exit code follows from.
pub(crate) fn kind(error: &anyhow::Error) -> Kind {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.map_or(Kind::Failed, |failure| failure.kind)
}
