//! PLAIN (RFC 4616): the password is told, so whoever carries it reads it.

use std::fmt;

use crate::limits::{MAX_PASSWORD, MAX_PLAIN_MESSAGE, MAX_USER};

/// A name and a password, as the client said them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    /// Whose password it is.
    pub user: &'a str,
    /// The password, to be compared and forgotten.
    pub password: &'a str,
}

/// The password stays out of logs.
impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reads the one message there is: on whose behalf, the user and the password, with a zero byte between each.
///
/// As in Kafka neither may be empty, and nobody acts on behalf of another.
pub fn parse(message: &[u8]) -> Result<Told<'_>, Refused> {
    if message.len() > MAX_PLAIN_MESSAGE {
        return Err(Refused::NotText);
    }
    let message = std::str::from_utf8(message).map_err(|_| Refused::NotText)?;
    let mut parts = message.split('\0');
    let (Some(on_behalf_of), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refused::NotThree);
    };
    if user.is_empty() || user.len() > MAX_USER {
        return Err(Refused::User);
    }
    if password.is_empty() || password.len() > MAX_PASSWORD {
        return Err(Refused::Password);
    }
    if !on_behalf_of.is_empty() && on_behalf_of != user {
        return Err(Refused::SomeoneElse);
    }
    Ok(Told { user, password })
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not UTF-8, or longer than any that is real.
    #[error("the message is not text of a reasonable length")]
    NotText,
    /// Not three parts.
    #[error("the message has not the three parts that belong into it")]
    NotThree,
    /// No name, or a very long one.
    #[error("the user's name is empty or too long")]
    User,
    /// No password, or a very long one.
    #[error("the password is empty or too long")]
    Password,
    /// The client wants to act as another user.
    #[error("the client may not act on behalf of another user")]
    SomeoneElse,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_passwords_are_read() {
        assert_eq!(parse(b"\0tim\0tanstaaftanstaaf"), Ok(Told { user: "tim", password: "tanstaaftanstaaf" }));
        assert_eq!(parse(b"tim\0tim\0p"), Ok(Told { user: "tim", password: "p" }));
        assert_eq!(parse("\0Zoë\0\u{1f511}".as_bytes()), Ok(Told { user: "Zoë", password: "\u{1f511}" }));
    }

    #[test]
    fn messages_that_break_the_rules_are_refused() {
        let long = |length| "x".repeat(length);
        for (message, refused) in [
            (String::new(), Refused::NotThree),
            ("tim".to_owned(), Refused::NotThree),
            ("\0tim".to_owned(), Refused::NotThree),
            ("\0tim\0p\0".to_owned(), Refused::NotThree),
            ("\0\0".to_owned(), Refused::User),
            ("\0\0p".to_owned(), Refused::User),
            ("\0tim\0".to_owned(), Refused::Password),
            ("Ursel\0Kurt\0xipj3plmq".to_owned(), Refused::SomeoneElse),
            (format!("\0{}\0p", long(1025)), Refused::User),
            (format!("\0tim\0{}", long(4097)), Refused::Password),
            (long(8 * 1024 + 1), Refused::NotText),
        ] {
            assert_eq!(parse(message.as_bytes()), Err(refused), "{message:?}");
        }
        assert_eq!(parse(b"\0tim\0\xff"), Err(Refused::NotText));
    }

    #[test]
    fn printing_what_was_told_does_not_tell_the_password() {
        assert_eq!(format!("{:?}", parse(b"\0tim\0secret").unwrap()), "Told { user: \"tim\", .. }");
    }

    proptest! {
        #[test]
        fn no_message_is_the_end(message: Vec<u8>) {
            let _ = parse(&message);
        }

        #[test]
        fn what_clients_write_is_read(user in "[^\0]{1,40}", password in "[^\0]{1,40}") {
            let message = format!("\0{user}\0{password}");
            prop_assert_eq!(parse(message.as_bytes()), Ok(Told { user: &user, password: &password }));
        }
    }
}
