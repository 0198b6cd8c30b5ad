//! The ways to say who one is.

use std::fmt;
use std::str::FromStr;

use crate::scram::Variant;

/// A mechanism by the name that SaslHandshake gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// The password is told (RFC 4616).
    Plain,
    /// The password is proved (RFC 5802, RFC 7677).
    Scram(Variant),
    /// A token is shown (RFC 7628).
    OauthBearer,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Plain, Self::Scram(Variant::Sha256), Self::Scram(Variant::Sha512), Self::OauthBearer];

    /// The name by which clients and brokers know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(variant) => variant.name(),
            Self::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Exactly by name: brokers compare mechanisms letter by letter.
impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(text: &str) -> Result<Self, UnknownMechanism> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or(UnknownMechanism)
    }
}

/// The text names no mechanism that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mechanism; expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")]
pub struct UnknownMechanism;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_own_name_only() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.to_string().parse(), Ok(mechanism));
        }
        for text in ["", "plain", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "GSSAPI", "PLAIN "] {
            assert_eq!(text.parse::<Mechanism>(), Err(UnknownMechanism), "{text}");
        }
    }
}
