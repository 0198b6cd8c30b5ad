//! Reaching a broker, and what to say when it cannot be reached or refuses.

use std::time::Duration;

use client::{Client, ClientError, Options};
use coordination::error_code::ErrorCode;

use crate::cli::ClientArgs;
use crate::failure::{Failure, Kind};
use crate::output::plain;

/// Connects to the broker that the flags name.
pub(crate) async fn connect(args: &ClientArgs) -> anyhow::Result<Client> {
    let options = Options {
        client_id: "kohort-cli".to_owned(),
        patience: Duration::from_secs(args.timeout),
        ..Options::default()
    };
    Client::connect(&args.bootstrap, options).await.map_err(failure)
}

/// A client's error with the exit code that scripts expect for it.
#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
pub(crate) fn failure(error: ClientError) -> anyhow::Error {
    Failure::new(kind(&error), describe(&error)).into()
}

/// The exit code that scripts expect for a client's error.
pub(crate) fn kind(error: &ClientError) -> Kind {
    match error.code() {
        Some(
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::TopicAlreadyExists
            | ErrorCode::GroupIdNotFound
            | ErrorCode::UnknownMemberId,
        ) => Kind::Absent,
        _ if error.is_unreachable() => Kind::Unreachable,
        _ if matches!(error, ClientError::Address { .. } | ClientError::Security { .. }) => Kind::Usage,
        _ => Kind::Failed,
    }
}

/// A client's error with what the system said about it, in words that leave the terminal alone.
pub(crate) fn describe(error: &ClientError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(" ({source})")).unwrap_or_default();
    plain(&format!("{error}{source}"))
}
