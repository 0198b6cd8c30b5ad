//! What SASL says, on both sides, without sockets.
//!
//! A message comes in as bytes, a message or a verdict goes out. Nothing here waits, reads a clock or draws a random
//! number: nonces, salts and the time are handed in, so every exchange can be repeated in a test byte for byte.
//!
//! The server's side of a login with a password:
//!
//! ```
//! use sasl::scram::{Client, Server, Variant};
//! use sasl::{Credential, Login};
//!
//! let kept = Credential::derive(Variant::Sha256, "pencil", b"a salt of 16 byt", 4096);
//! let client = Client::new(Variant::Sha256, "acme/alice", "pencil", "theirs".to_owned());
//!
//! let server = Server::hear(Variant::Sha256, client.first_message().as_bytes())?;
//! let login = Login::parse(server.user(), None)?;
//! assert_eq!((login.org.as_deref(), login.user.as_str()), (Some("acme"), "alice"));
//!
//! // Whoever is unknown gets a [`Credential::decoy`], and is refused at the end like one with a wrong password.
//! let server = server.challenge(kept, "ours");
//! let (proof, signature) = client.last_message(server.message().as_bytes())?;
//! let last = server.conclude(proof.as_bytes())?;
//! signature.check(last.as_bytes())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod credential;
mod keyed_hash;
mod login;
mod mechanism;

pub mod base64;
pub mod calendar;
#[cfg(feature = "jwt")]
pub mod jwt;
pub mod limits;
pub mod oauthbearer;
pub mod plain;
pub mod principal;
pub mod scram;

pub use credential::{Credential, decoy_seed, salt_password, verify_password};
pub use login::{Login, LoginError};
pub use mechanism::{Mechanism, UnknownMechanism};
