//! Which format a link speaks.

use std::fmt;

/// A version of the format. It is agreed on by ALPN, before the first byte of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// Records are sent whenever they are fetched, and heartbeats as often as clients say them.
    Two = 2,
    /// Records that a gateway keeps are named, and a heartbeat that is the client's last one is told by a short word.
    Three = 3,
    /// Quotas can be asked for.
    Four = 4,
    /// Heartbeats and commits of one client that came together travel together, and a commit as its difference to the last.
    Five = 5,
}

/// What the names of all versions begin with.
const PREFIX: &str = "kohort-rail/";

impl Version {
    /// The versions that this software speaks, the newest first.
    pub const ALL: &[Self] = &[Self::Five, Self::Four, Self::Three, Self::Two];

    /// The version's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name in the handshake.
    pub fn alpn(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }

    /// The version with this name in the handshake, among `spoken`.
    pub fn of_alpn(alpn: &[u8], spoken: &[Self]) -> Option<Self> {
        spoken.iter().copied().find(|version| version.alpn() == alpn)
    }

    /// Whether this is a name of the rail in the handshake, of whatever version.
    pub(crate) fn is_rail(alpn: &[u8]) -> bool {
        alpn.starts_with(PREFIX.as_bytes())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.number())
    }
}

/// Versions as a person reads them.
pub(crate) fn listed(versions: &[Version]) -> String {
    let names: Vec<String> = versions.iter().map(ToString::to_string).collect();
    names.join(" and ")
}
