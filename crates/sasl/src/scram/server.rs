//! The server's side: it knows what was kept of a password, never the password.

use std::fmt;

use sha2::{Sha256, Sha512};

use super::Variant;
use crate::base64;
use crate::credential::Credential;
use crate::keyed_hash::{Hash, Hmac, hash, same};
use crate::limits::{MAX_NONCE, MAX_SCRAM_MESSAGE, MAX_USER};

/// An exchange whose first message was heard: a name was given and its credential is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    variant: Variant,
    user: String,
    /// What the client said about channel binding and on whose behalf it comes; its last message repeats it.
    header: String,
    /// The first message without its header.
    bare: String,
    nonce: String,
}

impl Server {
    /// Reads the client's first message.
    ///
    /// Channel binding is refused, since no mechanism that binds is offered; so is to act on someone else's behalf, and
    /// to log in with a delegation token (KIP-48) in a password's place. Other extensions are ignored, as RFC 5802 asks.
    pub fn hear(variant: Variant, message: &[u8]) -> Result<Self, Refused> {
        let message = text(message)?;
        let rest = match message.as_bytes() {
            [b'n' | b'y', b',', ..] => &message[2..],
            [b'p', b'=', ..] => return Err(Refused::ChannelBinding),
            _ => return Err(Refused::Malformed("header")),
        };
        let (on_behalf_of, bare) = rest.split_once(',').ok_or(Refused::Malformed("header"))?;
        let header = &message[..message.len() - bare.len()];
        if bare.starts_with("m=") {
            return Err(Refused::Extension);
        }
        let mut attributes = bare.split(',');
        let mut next = |name, called| {
            let attribute = attributes.next().and_then(|attribute| attribute.strip_prefix(name));
            attribute.ok_or(Refused::Malformed(called))
        };
        let user = unescaped(next("n=", "name")?)?;
        let nonce = next("r=", "nonce")?;
        if nonce.is_empty() || nonce.len() > MAX_NONCE || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refused::Malformed("nonce"));
        }
        for extension in attributes {
            match extension.split_once('=') {
                Some(("tokenauth", _)) => return Err(Refused::DelegationToken),
                Some((name, _)) if !name.is_empty() => {}
                _ => return Err(Refused::Malformed("extension")),
            }
        }
        if !on_behalf_of.is_empty() {
            let name = on_behalf_of.strip_prefix("a=").ok_or(Refused::Malformed("header"))?;
            if unescaped(name)? != user {
                return Err(Refused::SomeoneElse);
            }
        }
        let (header, bare, nonce) = (header.to_owned(), bare.to_owned(), nonce.to_owned());
        Ok(Self { variant, user, header, bare, nonce })
    }

    /// The name that the client gave.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Goes on with what is kept of the user's password, or with a [`Credential::decoy`] if there is no such user.
    ///
    /// `nonce` is the server's own part: unpredictable, used once, printable and without commas.
    pub fn challenge(self, credential: Credential, nonce: &str) -> Challenged {
        assert_eq!(credential.variant, self.variant, "a proof by one hash is not held against another's key");
        let is_nonce = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        assert!(!nonce.is_empty() && nonce.bytes().all(is_nonce), "a nonce is printable and has no commas");
        let Self { header, bare, nonce: theirs, .. } = self;
        let nonce = format!("{theirs}{nonce}");
        let salt = base64::encode(&credential.salt);
        let message = format!("r={nonce},s={salt},i={}", credential.iterations);
        Challenged { credential, header: base64::encode(header.as_bytes()), bare, nonce, message }
    }
}

/// Which user it is about is all that is told.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("variant", &self.variant)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// An exchange whose challenge is to be sent, and whose proof is awaited.
#[derive(Debug)]
pub struct Challenged {
    credential: Credential,
    /// The client's header in base64.
    header: String,
    bare: String,
    /// Both parts.
    nonce: String,
    message: String,
}

impl Challenged {
    /// The server's first message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Checks the client's proof, and gives the server's last message if it is right.
    ///
    /// A failed exchange is over: the same challenge must not be tried twice, which taking it by value sees to.
    pub fn conclude(self, message: &[u8]) -> Result<String, Refused> {
        let message = text(message)?;
        // The proof is last and has no commas, whatever extensions say.
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(Refused::Malformed("proof"))?;
        let mut attributes = without_proof.split(',');
        let mut next = |name, called| {
            let attribute = attributes.next().and_then(|attribute| attribute.strip_prefix(name));
            attribute.ok_or(Refused::Malformed(called))
        };
        // Someone on the way who took the client's wish for channel binding out of its first message is found here.
        if next("c=", "channel binding")? != self.header {
            return Err(Refused::ChannelBinding);
        }
        // As Kafka, where librdkafka before 2.6.1 puts its own part in front once more. Both signatures cover what was
        // said, so nothing is lost by it.
        if !next("r=", "nonce")?.ends_with(&self.nonce) {
            return Err(Refused::ForeignNonce);
        }
        if !attributes.all(|extension| extension.find('=').is_some_and(|at| at > 0)) {
            return Err(Refused::Malformed("extension"));
        }
        let variant = self.credential.variant;
        let proof = base64::decode(proof)
            .filter(|proof| proof.len() == variant.hash_bytes())
            .ok_or(Refused::Malformed("proof"))?;
        let spoken = format!("{},{},{without_proof}", self.bare, self.message);
        let signature = match variant {
            Variant::Sha256 => verify::<Sha256>(&self.credential, &proof, spoken.as_bytes()),
            Variant::Sha512 => verify::<Sha512>(&self.credential, &proof, spoken.as_bytes()),
        };
        Ok(format!("v={}", base64::encode(&signature.ok_or(Refused::WrongPassword)?)))
    }
}

/// The server's signature, if the proof is one of someone who knows the password.
fn verify<H: Hash>(credential: &Credential, proof: &[u8], spoken: &[u8]) -> Option<Vec<u8>> {
    let client_signature = Hmac::<H>::new(&credential.stored_key).code(&[spoken]);
    let client_key: Vec<_> = proof.iter().zip(client_signature).map(|(proof, other)| proof ^ other).collect();
    let right = same(&hash::<H>(&[&client_key]), &credential.stored_key);
    right.then(|| Hmac::<H>::new(&credential.server_key).code(&[spoken]))
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not UTF-8, or longer than any that is real.
    #[error("the message is not text of a reasonable length")]
    NotText,
    /// Something is missing or not where it belongs.
    #[error("the message has no {0} where one belongs")]
    Malformed(&'static str),
    /// Channel binding is asked for, or was when the exchange began and is not any more, or the other way round.
    #[error("channel binding is not offered")]
    ChannelBinding,
    /// The client wants an extension that it must not go on without.
    #[error("the extension that the client needs is not known")]
    Extension,
    /// The client wants to act as another user.
    #[error("the client may not act on behalf of another user")]
    SomeoneElse,
    /// The client has a delegation token.
    #[error("delegation tokens are not known")]
    DelegationToken,
    /// The nonce is of another exchange.
    #[error("the nonce is not the one of this exchange")]
    ForeignNonce,
    /// There is no such user, or the password is wrong. Nobody learns which.
    #[error("the user or the password is wrong")]
    WrongPassword,
}

fn text(message: &[u8]) -> Result<&str, Refused> {
    if message.len() > MAX_SCRAM_MESSAGE {
        return Err(Refused::NotText);
    }
    std::str::from_utf8(message).map_err(|_| Refused::NotText)
}

/// A name as it was before `,` and `=` were escaped.
fn unescaped(name: &str) -> Result<String, Refused> {
    const MALFORMED: Refused = Refused::Malformed("name");
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match part.as_bytes() {
            [b'2', b'C', ..] => (',', &part[2..]),
            [b'3', b'D', ..] => ('=', &part[2..]),
            _ => return Err(MALFORMED),
        };
        plain.push(character);
        plain.push_str(rest);
    }
    let usable = !plain.is_empty() && plain.len() <= MAX_USER && !plain.contains('\0');
    usable.then_some(plain).ok_or(MALFORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    /// What is kept of the password in RFC 7677.
    fn kept() -> Credential {
        let decode = |text| base64::decode(text).unwrap();
        Credential {
            variant: Variant::Sha256,
            salt: decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
            iterations: 4096,
            stored_key: decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
            server_key: decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
        }
    }

    fn hear(message: &str) -> Result<Server, Refused> {
        Server::hear(Variant::Sha256, message.as_bytes())
    }

    fn challenged() -> Challenged {
        hear(FIRST).unwrap().challenge(kept(), NONCE)
    }

    #[test]
    fn the_exchange_is_that_of_rfc_7677() {
        let server = hear(FIRST).unwrap();
        assert_eq!(server.user(), "user");
        let server = server.challenge(kept(), NONCE);
        assert_eq!(
            server.message(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = server.conclude(LAST.as_bytes()).unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn names_are_read_as_they_were_before_they_were_escaped() {
        let user = |name: &str| hear(&format!("n,,n={name},r=x")).map(|server| server.user().to_owned());
        assert_eq!(user("a=3Db=2Cc"), Ok("a=b,c".to_owned()));
        assert_eq!(user("=2C=3D=3D"), Ok(",==".to_owned()));
        assert_eq!(user("Zoë=3D2C"), Ok("Zoë=2C".to_owned()));
        for name in ["", "=", "a=", "a=b", "=2c", "=3d", "=2", "=é", "=2é", "a\0b", &"x".repeat(1025)] {
            assert_eq!(user(name), Err(Refused::Malformed("name")), "{name}");
        }
    }

    #[test]
    fn clients_that_would_bind_channels_elsewhere_are_welcome() {
        assert_eq!(hear("y,,n=user,r=x").unwrap().user(), "user");
        assert_eq!(hear("n,a=us=3Der,n=us=3Der,r=x").unwrap().user(), "us=er");
        assert_eq!(hear("n,,n=user,r=x,foo=bar,baz=").unwrap().user(), "user");
    }

    #[test]
    fn first_messages_that_break_the_rules_are_refused() {
        for (message, refused) in [
            ("", Refused::Malformed("header")),
            ("n", Refused::Malformed("header")),
            ("n,", Refused::Malformed("header")),
            ("q,,n=user,r=x", Refused::Malformed("header")),
            ("nn,,n=user,r=x", Refused::Malformed("header")),
            ("p=tls-unique,,n=user,r=x", Refused::ChannelBinding),
            ("n,user,n=user,r=x", Refused::Malformed("header")),
            ("n,a=,n=user,r=x", Refused::Malformed("name")),
            ("n,a=admin,n=user,r=x", Refused::SomeoneElse),
            ("n,,m=x,n=user,r=x", Refused::Extension),
            ("n,,", Refused::Malformed("name")),
            ("n,,r=x,n=user", Refused::Malformed("name")),
            ("n,,n=user", Refused::Malformed("nonce")),
            ("n,,n=user,r=", Refused::Malformed("nonce")),
            ("n,,n=user,r=a b", Refused::Malformed("nonce")),
            ("n,,n=user,r=é", Refused::Malformed("nonce")),
            ("n,,n=user,r=x,tokenauth=true", Refused::DelegationToken),
            ("n,,n=user,r=x,a=b,tokenauth=true", Refused::DelegationToken),
            ("n,,n=user,r=x,", Refused::Malformed("extension")),
            ("n,,n=user,r=x,foo", Refused::Malformed("extension")),
            ("n,,n=user,r=x,=foo", Refused::Malformed("extension")),
        ] {
            assert_eq!(hear(message), Err(refused), "{message}");
        }
        assert_eq!(hear(&format!("n,,n=user,r={}", "x".repeat(513))), Err(Refused::Malformed("nonce")));
        let long = format!("n,,n=user,r=x,y={}", "x".repeat(MAX_SCRAM_MESSAGE));
        assert_eq!(hear(&long), Err(Refused::NotText));
        assert_eq!(Server::hear(Variant::Sha256, b"n,,n=\xff,r=x"), Err(Refused::NotText));
    }

    #[test]
    fn last_messages_that_break_the_rules_are_refused() {
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        for (message, refused) in [
            (String::new(), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce}"), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce},p="), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce},p=QQ=="), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce},p={proof}=",), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce},p={proof},x=y"), Refused::Malformed("proof")),
            (format!("c=biws,r={nonce},x,p={proof}"), Refused::Malformed("extension")),
            (format!("r={nonce},c=biws,p={proof}"), Refused::Malformed("channel binding")),
            (format!("c=biws,p={proof}"), Refused::Malformed("nonce")),
            // "y,," and nothing, where the first message said "n,,".
            (format!("c=eSws,r={nonce},p={proof}"), Refused::ChannelBinding),
            (format!("c=,r={nonce},p={proof}"), Refused::ChannelBinding),
            (format!("c=biws,r={nonce}x,p={proof}"), Refused::ForeignNonce),
            (format!("c=biws,r=rOprNGfwEbeRWgbNEkqO,p={proof}"), Refused::ForeignNonce),
            // The proof was not made for these words.
            (format!("c=biws,r={nonce},x=y,p={proof}"), Refused::WrongPassword),
            (format!("c=biws,r=rOprNGfwEbeRWgbNEkqO{nonce},p={proof}"), Refused::WrongPassword),
            (format!("c=biws,r={nonce},p={}", base64::encode(&[7; 32])), Refused::WrongPassword),
        ] {
            assert_eq!(challenged().conclude(message.as_bytes()), Err(refused), "{message}");
        }
        assert_eq!(challenged().conclude(b"\xff"), Err(Refused::NotText));
        assert_eq!(challenged().conclude(&vec![b'x'; MAX_SCRAM_MESSAGE + 1]), Err(Refused::NotText));
    }

    #[test]
    fn printing_an_exchange_tells_no_secret() {
        let server = hear(FIRST).unwrap();
        assert_eq!(format!("{server:?}"), "Server { variant: Sha256, user: \"user\", .. }");
        let printed = format!("{:?}", challenged());
        assert!(printed.contains("Credential { variant: Sha256, iterations: 4096, .. }"), "{printed}");
    }
}
