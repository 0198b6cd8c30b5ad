//! Which organisation a login is for.

use crate::limits::{MAX_ORG, MAX_USER};

/// A name taken apart: `alice`, or `acme/alice` for the user `alice` of the organisation `acme`.
///
/// Names from passwords, tokens and certificates all go through here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The organisation's name; `None` where neither the listener nor the login names one, which is `default`.
    pub org: Option<String>,
    /// The user's name within it.
    pub user: String,
}

impl Login {
    /// Takes `name` apart. On a listener that belongs to an organisation only that one's users are let in, with or
    /// without its name in front.
    pub fn parse(name: &str, listener_org: Option<&str>) -> Result<Self, LoginError> {
        let (org, user) = match name.split_once('/') {
            Some((org, user)) => (Some(org), user),
            None => (None, name),
        };
        // A second slash would leave open which of them ends the organisation.
        let user_is_name = !user.is_empty() && user.len() <= MAX_USER && !user.contains('/');
        let org_is_name = org.is_none_or(|org| !org.is_empty() && org.len() <= MAX_ORG);
        if !user_is_name || !org_is_name || name.contains(char::is_control) {
            return Err(LoginError::NotAName);
        }
        if let (Some(org), Some(listener_org)) = (org, listener_org)
            && org != listener_org
        {
            return Err(LoginError::OtherOrg);
        }
        Ok(Self { org: listener_org.or(org).map(str::to_owned), user: user.to_owned() })
    }
}

/// Why nobody can be called so here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// It is empty or too long, has control characters or more than one slash.
    #[error("the name is neither USER nor ORG/USER")]
    NotAName,
    /// The listener belongs to another organisation.
    #[error("the listener belongs to another organisation")]
    OtherOrg,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(org: Option<&str>, user: &str) -> Result<Login, LoginError> {
        Ok(Login { org: org.map(str::to_owned), user: user.to_owned() })
    }

    #[test]
    fn a_login_names_its_organisation_or_none() {
        assert_eq!(Login::parse("alice", None), login(None, "alice"));
        assert_eq!(Login::parse("acme/alice", None), login(Some("acme"), "alice"));
        assert_eq!(Login::parse("default/alice", None), login(Some("default"), "alice"));
        assert_eq!(Login::parse("CN=Zoë,O=Acme", None), login(None, "CN=Zoë,O=Acme"));
    }

    #[test]
    fn a_listener_of_an_organisation_lets_only_its_users_in() {
        assert_eq!(Login::parse("alice", Some("acme")), login(Some("acme"), "alice"));
        assert_eq!(Login::parse("acme/alice", Some("acme")), login(Some("acme"), "alice"));
        for other in ["umbrella/alice", "default/alice", "Acme/alice", " acme/alice"] {
            assert_eq!(Login::parse(other, Some("acme")), Err(LoginError::OtherOrg), "{other}");
        }
    }

    #[test]
    fn names_that_could_mislead_are_refused() {
        let long = "x".repeat(1025);
        for name in ["", "/", "/alice", "acme/", "a/b/c", "a//b", "al\0ice", "al\nice", "al\u{85}ice", &long]
        {
            for listener_org in [None, Some("acme"), Some("a")] {
                assert_eq!(Login::parse(name, listener_org), Err(LoginError::NotAName), "{name:?}");
            }
        }
        let long = format!("{}/alice", "x".repeat(256));
        assert_eq!(Login::parse(&long, None), Err(LoginError::NotAName));
    }
}
