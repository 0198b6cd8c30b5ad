//! Listener addresses in Kafka's syntax.

use std::fmt;

/// An address to listen on, or to give to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The listener's name, in capitals.
    pub name: String,
    /// Host name or address, an IPv6 address without brackets; empty for all addresses of the machine.
    pub host: String,
    /// The port; 0 lets the system choose one.
    pub port: u16,
}

/// The name of a listener that was given none.
const PLAIN: &str = "PLAINTEXT";

impl Listener {
    /// Reads `NAME://host:port` or `host:port`; an IPv6 address stands in brackets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, address) = match text.split_once("://") {
            Some((name, address)) => (name, address),
            None => (PLAIN, text),
        };
        let refuse = |why: &str| Err(format!("{text} is not a listener: {why}; expected NAME://host:port"));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            return refuse("its name may have letters, digits, _ and -");
        }
        let Some((host, port)) = address.rsplit_once(':') else { return refuse("it has no port") };
        let Ok(port) = port.parse() else { return refuse("its port is not a number from 0 to 65535") };
        let host = match host.strip_prefix('[') {
            Some(rest) => match rest.strip_suffix(']') {
                Some(inner) => inner,
                None => return refuse("a bracket is not closed"),
            },
            None if host.contains(':') => return refuse("an IPv6 address stands in brackets"),
            None => host,
        };
        if host.chars().any(|c| c.is_whitespace() || matches!(c, '/' | '[' | ']')) {
            return refuse("its host is no host name");
        }
        Ok(Self { name: name.to_ascii_uppercase(), host: host.to_owned(), port })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// Reads a list of listeners separated by commas.
///
/// Unlike in Kafka several may have one name: a listener on IPv4 and IPv6 loopback is one to its users.
pub fn parse_listeners(list: &str) -> Result<Vec<Listener>, String> {
    super::items(list).map(Listener::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_written_as_they_are_read() {
        for (given, written) in [
            ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092"),
            ("outside://kafka.example:19092", "OUTSIDE://kafka.example:19092"),
            ("[::1]:0", "PLAINTEXT://[::1]:0"),
            (":9092", "PLAINTEXT://:9092"),
            ("localhost:9092", "PLAINTEXT://localhost:9092"),
        ] {
            assert_eq!(Listener::parse(given).map(|listener| listener.to_string()).as_deref(), Ok(written));
        }
    }

    #[test]
    fn what_is_no_listener_is_refused() {
        for bad in [
            "",
            "localhost",
            "localhost:x",
            "localhost:65536",
            "::1:9092",
            "[::1:9092",
            "a b://h:1",
            "://h:1",
            "h/x:1",
        ] {
            assert!(Listener::parse(bad).is_err(), "{bad}");
        }
    }
}
