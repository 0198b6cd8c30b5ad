//! `kohort user`: the users of organisations, through the broker's admin listener.
//!
//! What a password is checked against is made here, so that the password itself never leaves this process.

mod password;

use anyhow::Context;
use coordination::catalog::{ORG_NAME_OF_DEFAULT, ScramCredentials};
use coordination::record::{ScramCredential, ScramMechanism};
use sasl::Credential;
use sasl::limits::SALT_BYTES;
use sasl::scram::Variant;

use crate::admin::manage::{NewUser, UserShown};
use crate::admin_client::{ask, ask_to_make, query_value};
use crate::cli::org::{AskArgs, PasswordArgs, UserArgs, UserCommand};
use crate::failure::{Failure, Kind};
use crate::group_command::moment::show_moment;
use crate::output::{Table, plain, show};

/// Runs `kohort user …`.
pub(crate) async fn run(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Create { user, password, ask } => {
            let body = with_password(&user, &password)?;
            let answer = ask_to_make(&ask.admin, "POST", "/v1/users", &body, "create the user").await?;
            done(&ask, &answer, "created")
        }
        UserCommand::Passwd { user, password, ask: args } => {
            let body = with_password(&user, &password)?;
            let answer = ask(&args.admin, "PUT", "/v1/users", &body, "change the password").await?;
            done(&args, &answer, "has another password")
        }
        UserCommand::List { org, ask: args } => {
            let path = format!("/v1/users?org={}", query_value(&org));
            let answer = ask(&args.admin, "GET", &path, "", "list users").await?;
            let users: Vec<UserShown> =
                serde_json::from_str(&answer).context("understand the broker's answer")?;
            Ok(show(args.output.output, &users, |users| render_list(users))?)
        }
        UserCommand::Delete { user, ask: args } => {
            let (org, name) = login(&user)?;
            let path = format!("/v1/users?org={}&name={}", query_value(&org), query_value(&name));
            let answer = ask(&args.admin, "DELETE", &path, "", "delete the user").await?;
            done(&args, &answer, "deleted")
        }
    }
}

/// The organisation and the name that are meant.
fn login(user: &UserArgs) -> anyhow::Result<(String, String)> {
    let (org, name) = match (user.name.split_once('/'), &user.org) {
        (None, None) => (ORG_NAME_OF_DEFAULT, user.name.as_str()),
        (None, Some(org)) => (org.as_str(), user.name.as_str()),
        (Some((org, name)), None) => (org, name),
        (Some((org, name)), Some(named)) if org == named => (org, name),
        (Some((org, _)), Some(named)) => {
            let message = format!("{} belongs to {org}, but --org says {named}", user.name);
            return Err(Failure::new(Kind::Usage, plain(&message)).into());
        }
    };
    Ok((org.to_owned(), name.to_owned()))
}

/// What the broker is told of a user and a password.
fn with_password(user: &UserArgs, args: &PasswordArgs) -> anyhow::Result<String> {
    let (org, name) = login(user)?;
    let mechanisms = mechanisms(&args.mechanism)?;
    let password = password::read(args.password_file.as_deref(), &name)?;
    let credentials = credentials(&password, &mechanisms, args.iterations);
    serde_json::to_string(&NewUser { org, name, credentials }).context("write the request")
}

fn mechanisms(names: &[String]) -> anyhow::Result<Vec<ScramMechanism>> {
    let known = [ScramMechanism::Sha256, ScramMechanism::Sha512];
    let found = |name: &String| {
        known.into_iter().find(|known| known.name().eq_ignore_ascii_case(name.trim())).ok_or_else(|| {
            let message = format!("--mechanism {name}: expected SCRAM-SHA-256 or SCRAM-SHA-512");
            Failure::new(Kind::Usage, message).into()
        })
    };
    names.iter().map(found).collect()
}

fn credentials(password: &str, mechanisms: &[ScramMechanism], iterations: u32) -> ScramCredentials {
    let derive = |mechanism: &ScramMechanism| {
        let variant = match mechanism {
            ScramMechanism::Sha256 => Variant::Sha256,
            ScramMechanism::Sha512 => Variant::Sha512,
        };
        let salt: [u8; SALT_BYTES] = rand::random();
        let Credential { salt, iterations, stored_key, server_key, .. } =
            Credential::derive(variant, password, &salt, iterations);
        (*mechanism, ScramCredential { salt, iterations, stored_key, server_key })
    };
    mechanisms.iter().map(derive).collect()
}

fn done(args: &AskArgs, answer: &str, outcome: &str) -> anyhow::Result<()> {
    let user: UserShown = serde_json::from_str(answer).context("understand the broker's answer")?;
    Ok(show(args.output.output, &user, |user| format!("{}: {outcome}\n", plain(&written(user))))?)
}

/// How the user logs in.
fn written(user: &UserShown) -> String {
    if user.org == ORG_NAME_OF_DEFAULT { user.name.clone() } else { format!("{}/{}", user.org, user.name) }
}

fn render_list(users: &[UserShown]) -> String {
    let mut table = Table::new(&["LOGIN", "MECHANISMS", "CREATED"]);
    for user in users {
        let mechanisms: Vec<&str> = user.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
        table.row([written(user), mechanisms.join(","), show_moment(user.created_ms)]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, org: Option<&str>) -> UserArgs {
        UserArgs { name: name.to_owned(), org: org.map(str::to_owned) }
    }

    #[test]
    fn a_user_is_named_with_or_without_its_organisation() {
        for (name, org, meant) in [
            ("alice", None, ("default", "alice")),
            ("alice", Some("acme"), ("acme", "alice")),
            ("acme/alice", None, ("acme", "alice")),
            ("acme/alice", Some("acme"), ("acme", "alice")),
        ] {
            let (org, name) = login(&user(name, org)).unwrap();
            assert_eq!((org.as_str(), name.as_str()), meant);
        }
        assert!(login(&user("acme/alice", Some("other"))).is_err());
    }

    #[test]
    fn what_is_sent_holds_no_password() {
        let mechanisms = mechanisms(&["scram-sha-256".to_owned(), "SCRAM-SHA-512".to_owned()]).unwrap();
        let credentials = credentials("correct horse", &mechanisms, 4096);
        assert_eq!(credentials.len(), 2);
        let salts: Vec<&Vec<u8>> = credentials.values().map(|credential| &credential.salt).collect();
        assert_ne!(salts[0], salts[1]);
        let body = serde_json::to_string(&NewUser {
            org: "default".to_owned(),
            name: "alice".to_owned(),
            credentials,
        })
        .unwrap();
        assert!(!body.contains("correct") && !body.contains("horse"), "{body}");
        assert!(super::mechanisms(&["PLAIN".to_owned()]).is_err());
    }
}
