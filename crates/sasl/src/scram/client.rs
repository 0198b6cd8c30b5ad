//! The client's side of SCRAM (RFC 5802, RFC 7677): it proves that it knows the password without telling it, and
//! sees whether the broker knows it too.

use std::fmt;

use sha2::{Sha256, Sha512};

use super::Variant;
use crate::base64;
use crate::keyed_hash::{Hash, Hmac, hash, salted_password, same};
use crate::limits::{CLIENT_ITERATIONS, MAX_SCRAM_MESSAGE};

/// "n,,": no channel binding, no other identity; and the same in base64, as the last message repeats it.
const HEADER: &str = "n,,";
const HEADER_IN_BASE64: &str = "biws";

/// An exchange that is about to begin.
pub struct Client {
    variant: Variant,
    nonce: String,
    /// The first message without its header.
    bare: String,
    password: String,
}

impl Client {
    /// `nonce` must be unpredictable, used once, printable and without commas.
    pub fn new(variant: Variant, user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { variant, bare: format!("n={user},r={nonce}"), nonce, password: password.to_owned() }
    }

    /// The client's first message.
    pub fn first_message(&self) -> String {
        format!("{HEADER}{}", self.bare)
    }

    /// The client's last message, given the broker's first; and what tells whether the broker's last is right.
    ///
    /// This takes as long as the broker asks for, within bounds; not on a thread that others wait for.
    pub fn last_message(&self, server_first: &[u8]) -> Result<(String, Signature), Fault> {
        let server_first = text(server_first)?;
        let challenge = Challenge::parse(server_first, &self.nonce)?;
        let without_proof = format!("c={HEADER_IN_BASE64},r={}", challenge.nonce);
        let spoken = format!("{},{server_first},{without_proof}", self.bare);
        let (proof, signature) = match self.variant {
            Variant::Sha256 => prove::<Sha256>(&self.password, &challenge, &spoken),
            Variant::Sha512 => prove::<Sha512>(&self.password, &challenge, &spoken),
        };
        Ok((format!("{without_proof},p={}", base64::encode(&proof)), Signature(signature)))
    }
}

/// The proof for the broker, and the signature it must answer with.
fn prove<H: Hash>(password: &str, challenge: &Challenge<'_>, spoken: &str) -> (Vec<u8>, Vec<u8>) {
    let salted = salted_password::<H>(password.as_bytes(), &challenge.salt, challenge.iterations);
    let salted = Hmac::<H>::new(&salted);
    let client_key = salted.code(&[b"Client Key"]);
    let server_key = salted.code(&[b"Server Key"]);
    let stored_key = hash::<H>(&[&client_key]);
    let client_signature = Hmac::<H>::new(&stored_key).code(&[spoken.as_bytes()]);
    let proof = client_key.iter().zip(client_signature).map(|(key, other)| key ^ other).collect();
    (proof, Hmac::<H>::new(&server_key).code(&[spoken.as_bytes()]))
}

/// It holds a password, which is not printed.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("variant", &self.variant).finish_non_exhaustive()
    }
}

/// What only someone who knows the password can sign the exchange with.
#[derive(Debug)]
pub struct Signature(Vec<u8>);

impl Signature {
    /// Looks at the broker's last message.
    pub fn check(&self, server_last: &[u8]) -> Result<(), Fault> {
        let first = text(server_last)?.split(',').next().unwrap_or_default();
        if let Some(problem) = first.strip_prefix("e=") {
            return Err(Fault::Refused(problem.to_owned()));
        }
        let signed =
            first.strip_prefix("v=").and_then(base64::decode).ok_or(Fault::Malformed("a signature"))?;
        if same(&signed, &self.0) { Ok(()) } else { Err(Fault::WrongSignature) }
    }
}

/// Why a broker's message is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not UTF-8, or longer than any that is real.
    #[error("its message is not text of a reasonable length")]
    NotText,
    /// Something is missing or not where it belongs.
    #[error("its message has no {0} where one belongs")]
    Malformed(&'static str),
    /// It wants what this client does not have.
    #[error("it wants an extension that this client does not know")]
    Extension,
    /// Its nonce does not go on from ours.
    #[error("it answers with a nonce that is not ours")]
    ForeignNonce,
    /// It wants the password hashed too seldom or too often.
    #[error("it wants {0} iterations, which is not within {CLIENT_ITERATIONS:?}")]
    Iterations(u32),
    /// It refuses the proof, in its own words.
    #[error("it says {0}")]
    Refused(String),
    /// Its signature is not one of someone who knows the password.
    #[error("it does not know the password itself, so it is not the broker it says it is")]
    WrongSignature,
}

/// The broker's first message.
#[derive(Debug)]
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str, our_nonce: &str) -> Result<Self, Fault> {
        if message.starts_with("m=") {
            return Err(Fault::Extension);
        }
        let mut attributes = message.split(',');
        let mut next = |name, called| {
            attributes
                .next()
                .and_then(|attribute| attribute.strip_prefix(name))
                .ok_or(Fault::Malformed(called))
        };
        let nonce = next("r=", "nonce")?;
        let salt = next("s=", "salt")?;
        let iterations = next("i=", "iteration count")?;
        // Without a part of its own the broker could repeat an exchange that it has seen.
        if nonce.strip_prefix(our_nonce).is_none_or(str::is_empty) {
            return Err(Fault::ForeignNonce);
        }
        let salt = base64::decode(salt).filter(|salt| !salt.is_empty()).ok_or(Fault::Malformed("salt"))?;
        let is_number = iterations.bytes().all(|digit| digit.is_ascii_digit());
        let iterations =
            iterations.parse().ok().filter(|_| is_number).ok_or(Fault::Malformed("iteration count"))?;
        if !CLIENT_ITERATIONS.contains(&iterations) {
            return Err(Fault::Iterations(iterations));
        }
        Ok(Self { nonce, salt, iterations })
    }
}

fn text(message: &[u8]) -> Result<&str, Fault> {
    if message.len() > MAX_SCRAM_MESSAGE {
        return Err(Fault::NotText);
    }
    std::str::from_utf8(message).map_err(|_| Fault::NotText)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// The user and password of the example in RFC 7677.
    fn example() -> Client {
        Client::new(Variant::Sha256, "user", "pencil", NONCE.to_owned())
    }

    #[test]
    fn the_exchange_is_that_of_rfc_7677() {
        let scram = example();
        assert_eq!(scram.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (last, signature) = scram.last_message(SERVER_FIRST.as_bytes()).expect("a good challenge");
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        signature.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").expect("the right signature");
        signature
            .check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=,x=y")
            .expect("extensions are ignored");
    }

    #[test]
    fn names_are_escaped() {
        let scram = Client::new(Variant::Sha512, "a=b,c", "", "n".to_owned());
        assert_eq!(scram.first_message(), "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn challenges_that_break_the_rules_are_refused() {
        let fault = |message: &str| example().last_message(message.as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(fault(""), Fault::Malformed("nonce"));
        assert_eq!(fault("s=QQ==,r=x,i=4096"), Fault::Malformed("nonce"));
        assert_eq!(fault("m=x,r=rOprNGfwEbeRWgbNEkqOx,s=QQ==,i=4096"), Fault::Extension);
        assert_eq!(fault("r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=4096"), Fault::ForeignNonce);
        assert_eq!(fault("r=another,s=QQ==,i=4096"), Fault::ForeignNonce);
        assert_eq!(fault("r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096"), Fault::Malformed("salt"));
        assert_eq!(fault("r=rOprNGfwEbeRWgbNEkqOx,s=QQ,i=4096"), Fault::Malformed("salt"));
        assert_eq!(fault("r=rOprNGfwEbeRWgbNEkqOx,s=QQ=="), Fault::Malformed("iteration count"));
        for count in ["", "+4096", "-1", "4096 ", "99999999999999999999"] {
            let message = format!("r=rOprNGfwEbeRWgbNEkqOx,s=QQ==,i={count}");
            assert_eq!(fault(&message), Fault::Malformed("iteration count"), "{count}");
        }
        for count in [0, 1, 4095, 131_073, u32::MAX] {
            let message = format!("r=rOprNGfwEbeRWgbNEkqOx,s=QQ==,i={count}");
            assert_eq!(fault(&message), Fault::Iterations(count));
        }
        let long = format!("r=rOprNGfwEbeRWgbNEkqO{},s=QQ==,i=4096", "x".repeat(MAX_SCRAM_MESSAGE));
        assert_eq!(fault(&long), Fault::NotText);
        assert_eq!(example().last_message(b"r=\xff").map(|_| ()), Err(Fault::NotText));
    }

    #[test]
    fn a_broker_that_does_not_know_the_password_is_found_out() {
        let (_, signature) = example().last_message(SERVER_FIRST.as_bytes()).expect("a good challenge");
        let wrong = base64::encode(&[7; 32]);
        assert_eq!(signature.check(format!("v={wrong}").as_bytes()), Err(Fault::WrongSignature));
        assert_eq!(signature.check(b"v=QQ=="), Err(Fault::WrongSignature));
        assert_eq!(signature.check(b"v="), Err(Fault::WrongSignature));
        assert_eq!(signature.check(b""), Err(Fault::Malformed("a signature")));
        assert_eq!(signature.check(b"e=other-error"), Err(Fault::Refused("other-error".to_owned())));
    }

    proptest! {
        #[test]
        fn no_message_of_a_broker_is_the_end(message: Vec<u8>) {
            let _ = example().last_message(&message);
            prop_assert!(Signature(vec![1; 32]).check(&message).is_err());
        }

        /// Messages that are almost right: the nonce is ours, and each part is one that could be.
        #[test]
        fn no_crooked_message_of_a_broker_is_the_end(
            parts in proptest::collection::vec(
                prop::sample::select(
                    vec!["r=rOprNGfwEbeRWgbNEkqO", "x", "s=", "QQ==", "i=", "4095", "0", ",", "=", "m=", "é"],
                ),
                0..12,
            )
        ) {
            let _ = example().last_message(parts.concat().as_bytes());
        }
    }
}
