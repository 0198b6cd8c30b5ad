//! How much of what a peer says is looked at.

use std::ops::RangeInclusive;

/// The longest message of SCRAM that is looked at, on both sides; real ones have some hundred bytes.
pub const MAX_SCRAM_MESSAGE: usize = 16 << 10;

/// The longest message of PLAIN: two names and a password.
pub const MAX_PLAIN_MESSAGE: usize = 8 << 10;

/// The longest nonce of a client. Java's have 26 characters, librdkafka's 32.
pub const MAX_NONCE: usize = 512;

/// The longest name of a user, in bytes. The subject of a certificate is the longest that occurs.
pub const MAX_USER: usize = 1024;

/// The longest name of an organisation in a login, in bytes; no organisation has a longer one.
pub const MAX_ORG: usize = 255;

/// The longest password, in bytes. Hashing does not take longer for a long one, but nobody types more.
pub const MAX_PASSWORD: usize = 4096;

/// How often a password may have been hashed where it is kept, as in Kafka: fewer are too easy to guess, and more would
/// keep clients busy that are slow at it.
pub const ITERATIONS: RangeInclusive<u32> = 4096..=16_384;

/// How often a client hashes a password when a broker asks. Fewer than RFC 7677 asks for would make the password easy
/// to guess for whoever listens. Kafka allows 16,384 at most; a few times more still take a fraction of a second, and
/// whoever answers in the broker's place cannot keep us busy for longer than that.
pub const CLIENT_ITERATIONS: RangeInclusive<u32> = 4096..=131_072;

/// How many bytes of salt a password gets here.
pub const SALT_BYTES: usize = 16;

/// The longest token. Those of large directories, with hundreds of groups in them, have a few dozen KiB.
pub const MAX_TOKEN: usize = 64 << 10;

/// The longest first message of OAUTHBEARER: a token and what comes with it.
pub const MAX_BEARER_MESSAGE: usize = MAX_TOKEN + (16 << 10);

/// How many pairs may come with a token.
pub const MAX_BEARER_PAIRS: usize = 64;

/// The longest file of keys. A key has about half a KiB, or a few with its certificates.
pub const MAX_JWKS: usize = 1 << 20;

/// How many keys of a file are used. Issuers publish two or three.
pub const MAX_KEYS: usize = 256;

/// The longest certificate whose subject is read.
pub const MAX_CERTIFICATE: usize = 64 << 10;

/// The longest text of rules that map subjects to names.
pub const MAX_MAPPING_RULES: usize = 64 << 10;
