//! Reaching a broker, and what to say when it cannot be reached or refuses.

use std::time::Duration;

use client::{Client, ClientError, Options, Security};
use coordination::error_code::ErrorCode;

use crate::cli::ClientArgs;
use crate::command_config;
use crate::failure::{Failure, Kind};
use crate::output::plain;

/// Connects to the broker that the flags name.
pub(crate) async fn connect(args: &ClientArgs) -> anyhow::Result<Client> {
    let security = match &args.command_config {
        Some(file) => command_config::read(file)?,
        None => Security::default(),
    };
    let patience = Duration::from_secs(args.timeout);
    let options = Options { client_id: "kohort-cli".to_owned(), patience, security };
    Client::connect(&args.bootstrap, options).await.map_err(|error| {
        let hint = if args.command_config.is_none() && is_about_security(&error) {
            "; --command-config FILE says how"
        } else {
            ""
        };
        Failure::new(kind(&error), format!("{}{hint}", describe(&error))).into()
    })
}

/// Whether what is missing can be said in a file of properties.
fn is_about_security(error: &ClientError) -> bool {
    matches!(error, ClientError::WantsTls { .. } | ClientError::Tls { .. })
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
        _ if matches!(
            error,
            ClientError::Address { .. } | ClientError::Security { .. } | ClientError::TooLong { .. }
        ) =>
        {
            Kind::Usage
        }
        _ => Kind::Failed,
    }
}

/// A client's error with what the system said about it, in words that leave the terminal alone.
pub(crate) fn describe(error: &ClientError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(" ({source})")).unwrap_or_default();
    plain(&format!("{error}{source}"))
}
