//! OAUTHBEARER (RFC 7628) as Kafka carries it (KIP-255, KIP-342): the client shows a token and some pairs beside it.
//!
//! A token that is not accepted is answered with [`refusal`], to which the client says [`ACKNOWLEDGEMENT`]; only then
//! is the exchange over.

use std::fmt;

use crate::limits::{MAX_BEARER_MESSAGE, MAX_BEARER_PAIRS, MAX_TOKEN, MAX_USER};

/// What a client says to a refusal, so that the exchange ends with its turn.
pub const ACKNOWLEDGEMENT: &[u8] = b"\x01";

/// What a client says first.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The user that the client asks to act as. It must be the one that the token is for.
    pub on_behalf_of: Option<String>,
    /// The token, to be verified.
    pub token: &'a str,
    /// The other pairs, which no broker has verified.
    pub extensions: Vec<(&'a str, &'a str)>,
}

/// The token stays out of logs: whoever has it is the user.
impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("on_behalf_of", &self.on_behalf_of).finish_non_exhaustive()
    }
}

/// Reads the client's first message: `n,,\x01auth=Bearer TOKEN\x01key=value\x01\x01`.
pub fn parse(message: &[u8]) -> Result<Shown<'_>, Refused> {
    if message.len() > MAX_BEARER_MESSAGE {
        return Err(Refused::NotText);
    }
    let message = std::str::from_utf8(message).map_err(|_| Refused::NotText)?;
    let (header, pairs) = message.split_once('\x01').ok_or(Refused::Malformed)?;
    let on_behalf_of = read_header(header)?;
    // One separator closes the last pair, another the message: without both it was cut.
    let pairs = pairs.strip_suffix("\x01\x01").ok_or(Refused::Malformed)?;
    let mut token = None;
    let mut extensions = Vec::new();
    for pair in pairs.split('\x01') {
        let (key, value) = pair.split_once('=').ok_or(Refused::Malformed)?;
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphabetic()) || !is_value(value) {
            return Err(Refused::Malformed);
        }
        if key == "auth" {
            let twice = token.replace(read_token(value)?).is_some();
            if twice {
                return Err(Refused::Malformed);
            }
        } else if extensions.len() == MAX_BEARER_PAIRS || extensions.iter().any(|(known, _)| *known == key) {
            return Err(Refused::Malformed);
        } else {
            extensions.push((key, value));
        }
    }
    Ok(Shown { on_behalf_of, token: token.ok_or(Refused::NoToken)?, extensions })
}

/// What the server says to a token that it does not accept: a status as RFC 7628 has it, such as `invalid_token`.
pub fn refusal(status: &str) -> String {
    serde_json::json!({ "status": status }).to_string()
}

/// `n,,` or `n,a=user,`; also with `y`, which is for clients that could bind channels if they were offered to.
fn read_header(header: &str) -> Result<Option<String>, Refused> {
    let rest = match header.split_once(',').ok_or(Refused::Malformed)? {
        ("n" | "y", rest) => rest,
        (binding, _) if binding.starts_with("p=") => return Err(Refused::ChannelBinding),
        _ => return Err(Refused::Malformed),
    };
    let name = rest.strip_suffix(',').ok_or(Refused::Malformed)?;
    if name.is_empty() {
        return Ok(None);
    }
    let name = name.strip_prefix("a=").filter(|name| !name.is_empty() && name.len() <= MAX_USER);
    let name = name.ok_or(Refused::Malformed)?;
    let escapes_are_known =
        name.split('=').skip(1).all(|after| after.starts_with("2C") || after.starts_with("3D"));
    if name.contains([',', '\0']) || !escapes_are_known {
        return Err(Refused::Malformed);
    }
    Ok(Some(name.replace("=2C", ",").replace("=3D", "=")))
}

fn read_token(value: &str) -> Result<&str, Refused> {
    let (scheme, token) = value.split_once(' ').ok_or(Refused::NoToken)?;
    let token = token.trim_start_matches(' ');
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let usable = !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(in_alphabet);
    (scheme.eq_ignore_ascii_case("bearer") && usable).then_some(token).ok_or(Refused::NoToken)
}

/// Printable, or a kind of space.
fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not UTF-8, or longer than any that is real.
    #[error("the message is not text of a reasonable length")]
    NotText,
    /// Not built as RFC 7628 says.
    #[error("the message is not a first message of OAUTHBEARER")]
    Malformed,
    /// Channel binding is asked for.
    #[error("channel binding is not offered")]
    ChannelBinding,
    /// There is no bearer token in it.
    #[error("the message has no bearer token")]
    NoToken,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_clients_write_them() {
        let shown = parse(b"n,,\x01auth=Bearer a.b-c_d.e\x01\x01").unwrap();
        assert_eq!(shown, Shown { on_behalf_of: None, token: "a.b-c_d.e", extensions: Vec::new() });
        let shown = parse(b"n,a=us=2Cer=3D2C,\x01traceId=12 3\x01auth=bearer  t\x01Org=x=y\x01\x01").unwrap();
        assert_eq!(shown.on_behalf_of.as_deref(), Some("us,er=2C"));
        assert_eq!(shown.token, "t");
        assert_eq!(shown.extensions, [("traceId", "12 3"), ("Org", "x=y")]);
        // RFC 7628 and librdkafka name the host and the port.
        let shown = parse(b"y,,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9\x01\x01").unwrap();
        assert_eq!(shown.extensions.len(), 2);
    }

    #[test]
    fn messages_that_break_the_rules_are_refused() {
        for (message, refused) in [
            ("", Refused::Malformed),
            ("\x01", Refused::Malformed),
            ("n,,", Refused::Malformed),
            ("n,,\x01", Refused::Malformed),
            ("n,,\x01\x01", Refused::Malformed),
            ("n,,auth=Bearer t\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01\x01a=b\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01a=b\x01a=c\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01a=\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01=a\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01a1=b\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer t\x01a=\u{7f}\x01\x01", Refused::Malformed),
            ("n,,\x01auth=Bearer é\x01\x01", Refused::Malformed),
            ("n,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("q,,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("n,a=,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("n,a=x=,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("n,a=x,y,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("n,user,\x01auth=Bearer t\x01\x01", Refused::Malformed),
            ("p=tls-unique,,\x01auth=Bearer t\x01\x01", Refused::ChannelBinding),
            ("n,,\x01a=b\x01\x01", Refused::NoToken),
            ("n,,\x01auth=Bearer\x01\x01", Refused::NoToken),
            ("n,,\x01auth=Bearer \x01\x01", Refused::NoToken),
            ("n,,\x01auth=Basic dGltOnB3\x01\x01", Refused::NoToken),
            ("n,,\x01auth=Bearer a+b\x01\x01", Refused::NoToken),
            ("n,,\x01auth=Bearer a b\x01\x01", Refused::NoToken),
        ] {
            assert_eq!(parse(message.as_bytes()), Err(refused), "{message:?}");
        }
        assert_eq!(parse(b"n,,\x01auth=Bearer \xff\x01\x01"), Err(Refused::NotText));
        assert_eq!(parse(&vec![b'n'; MAX_BEARER_MESSAGE + 1]), Err(Refused::NotText));
        let long = format!("n,,\x01auth=Bearer {}\x01\x01", "x".repeat(MAX_TOKEN + 1));
        assert_eq!(parse(long.as_bytes()), Err(Refused::NoToken));
        let many: String = (0..=MAX_BEARER_PAIRS).map(|at| format!("x{}=x\x01", "y".repeat(at))).collect();
        assert_eq!(parse(format!("n,,\x01{many}auth=Bearer t\x01\x01").as_bytes()), Err(Refused::Malformed));
    }

    #[test]
    fn a_refusal_is_the_json_that_clients_expect() {
        assert_eq!(refusal("invalid_token"), r#"{"status":"invalid_token"}"#);
    }

    #[test]
    fn printing_what_was_shown_does_not_tell_the_token() {
        let shown = parse(b"n,,\x01auth=Bearer secret\x01\x01").unwrap();
        assert_eq!(format!("{shown:?}"), "Shown { on_behalf_of: None, .. }");
    }

    proptest! {
        #[test]
        fn no_message_is_the_end(message: Vec<u8>) {
            let _ = parse(&message);
        }

        /// Messages that are almost right.
        #[test]
        fn no_crooked_message_is_the_end(
            parts in proptest::collection::vec(
                prop::sample::select(vec!["n", ",", "a=", "\x01", "auth=", "Bearer ", "t", "=2C", "x=y", "é"]),
                0..14,
            )
        ) {
            let _ = parse(parts.concat().as_bytes());
        }
    }
}
