//! What was asked for makes no sense, whatever the server does.

use std::fmt;

/// Why nothing was measured: flags that do not go together, or an address that is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Misuse(String);

impl Misuse {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Refuses a list in which something stands twice: its figures would pass for repetitions of one.
    pub(crate) fn unless_distinct<T: PartialEq + fmt::Debug>(what: &str, values: &[T]) -> Result<(), Self> {
        let again = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value));
        match again {
            Some((_, value)) => Err(Self(format!("{what} has {value:?} twice"))),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Misuse {}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_twice_is_refused() {
        assert_eq!(Misuse::unless_distinct("--pipeline", &[1, 64]), Ok(()));
        assert_eq!(
            Misuse::unless_distinct("--pipeline", &[1, 64, 1]),
            Err(Misuse::new("--pipeline has 1 twice"))
        );
    }
}
