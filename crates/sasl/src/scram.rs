//! SCRAM (RFC 5802, RFC 7677): who knows a password proves it without telling it, and sees whether the other side knows
//! it too.
//!
//! The client says its name and a nonce; the server adds its own nonce, the salt and the iterations; the client proves
//! that it can derive the key; the server signs the same words with its own.

mod client;
mod server;

pub use client::{Client, Fault as ClientFault, Signature};
pub use server::{Challenged, Refused, Server};

/// Which hash is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl Variant {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The name of the mechanism.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// How many bytes its hashes have.
    pub const fn hash_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}
