//! Asking a running broker's admin listener.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::cli::AdminArgs;
use crate::failure::{Failure, Kind};
use crate::http::{Answer, request};
use crate::output::plain;
use crate::token;

/// Asks with the token of the broker's data directory; `wish` says what for, as "take a snapshot" does.
///
/// An answer other than 200 is a failure that repeats the broker's words.
pub(crate) async fn ask(
    args: &AdminArgs,
    method: &str,
    path: &str,
    body: &str,
    wish: &str,
) -> anyhow::Result<String> {
    ask_as(args, method, path, body, wish, Kind::Failed).await
}

/// The same for something that is to be made: that it exists already has the exit code of its own.
pub(crate) async fn ask_to_make(
    args: &AdminArgs,
    method: &str,
    path: &str,
    body: &str,
    wish: &str,
) -> anyhow::Result<String> {
    ask_as(args, method, path, body, wish, Kind::Absent).await
}

async fn ask_as(
    args: &AdminArgs,
    method: &str,
    path: &str,
    body: &str,
    wish: &str,
    conflict: Kind,
) -> anyhow::Result<String> {
    let file = args.token_file.clone().unwrap_or_else(|| token::path(&args.data_dir));
    let token = token::read(&file).map_err(|error| {
        let message = format!(
            "read the token in {}: {error}; name the broker's data directory with --data-dir, or --token-file",
            file.display()
        );
        Failure::new(Kind::Failed, message)
    })?;
    let asked = request(&args.admin, method, path, Some(&token), body);
    let answer = timeout(Duration::from_secs(args.timeout), asked)
        .await
        .map_err(|_| {
            let message = format!(
                "{wish}: no answer from the admin listener at {} within {} s; see --admin and --timeout",
                args.admin, args.timeout
            );
            Failure::new(Kind::Unreachable, message)
        })?
        .map_err(|error| {
            let message = format!("cannot reach the admin listener at {}: {error}; see --admin", args.admin);
            Failure::new(Kind::Unreachable, message)
        })?;
    match answer.status {
        200 => Ok(answer.body),
        400 => Err(Failure::new(Kind::Usage, format!("{wish}: {}", words(&answer))).into()),
        409 => Err(Failure::new(conflict, format!("{wish}: {}", words(&answer))).into()),
        404 => Err(Failure::new(Kind::Absent, format!("{wish}: {}", words(&answer))).into()),
        _ => Err(Failure::new(Kind::Failed, format!("{wish}: {}", words(&answer))).into()),
    }
}

fn words(answer: &Answer) -> String {
    if answer.body.is_empty() {
        return match answer.status {
            // No route of ours says so, but the library does before it comes to one.
            414 => "the name is too long for the admin listener".to_owned(),
            status => format!("the admin listener answered {status} and nothing else"),
        };
    }
    let said = serde_json::from_str::<Value>(&answer.body).ok();
    plain(said.as_ref().and_then(|value| value.get("error")?.as_str()).unwrap_or(&answer.body))
}

/// A value as it stands in the query of a path.
pub(crate) fn query_value(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::net::TcpListener;

    use super::*;
    use crate::failure::kind;

    /// The system takes the connection for a process that stands still.
    #[tokio::test]
    async fn whoever_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("token");
        fs::write(&token_file, "long-enough-for-a-token").unwrap();
        let args = AdminArgs {
            admin: listener.local_addr().unwrap().to_string(),
            data_dir: directory.path().to_owned(),
            token_file: Some(token_file),
            timeout: 1,
        };
        let failure = ask(&args, "GET", "/v1/orgs", "", "list organisations").await.unwrap_err();
        assert_eq!(kind(&failure), Kind::Unreachable);
        let words = failure.to_string();
        assert!(
            words.starts_with("list organisations: no answer from the admin listener at 127."),
            "{words}"
        );
        assert!(words.contains("within 1 s"), "{words}");
    }

    #[test]
    fn names_of_any_kind_fit_into_a_query() {
        assert_eq!(query_value("billing-2.a_b~"), "billing-2.a_b~");
        assert_eq!(query_value("a b&c=ü/%"), "a%20b%26c%3D%C3%BC%2F%25");
    }
}
