//! Who the ends of a link are: keys, and the ids that follow from them.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iroh::{EndpointId, SecretKey};

/// The secret that makes a process what its id says. Who has it can be that process.
#[derive(Clone)]
pub struct Key(SecretKey);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not one.
    #[error("the key is not 64 hexadecimal digits")]
    Text,
    /// The file holds something else.
    #[error("{path} does not hold a key, which is 64 hexadecimal digits")]
    Content {
        /// Which file.
        path: PathBuf,
    },
    /// There is no file with this name, but a directory.
    #[error("{path} is a directory")]
    Directory {
        /// Which one.
        path: PathBuf,
    },
    /// Others than its owner can read it.
    #[error("{path} can be read by others than its owner (mode {mode:o}); run: chmod 600 {path}")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file cannot be read or made.
    #[error("{action} the key file {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Key {
    /// A new one.
    pub fn generate() -> Self {
        Self(SecretKey::generate())
    }

    /// What others call the owner of this key.
    pub fn id(&self) -> EndpointId {
        self.0.public()
    }

    /// Reads the key from a file.
    ///
    /// # Errors
    /// When there is none, or others could have read it.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { action: "read", path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(KeyError::Directory { path: path.to_owned() });
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open { path: path.to_owned(), mode });
        }
        // More than any key, so that a wrong path does not read a large file.
        let mut text = String::new();
        file.take(1024).read_to_string(&mut text).map_err(io)?;
        text.trim().parse().map_err(|_| KeyError::Content { path: path.to_owned() })
    }

    /// Reads the key from a file, which is made with a new one if it is not there.
    ///
    /// # Errors
    /// When the file cannot be read or made.
    pub fn read_or_create(path: &Path) -> Result<Self, KeyError> {
        match Self::read(path) {
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let key = Self::generate();
        match key.write(path) {
            // Another process was first, and its key is as good.
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                Self::read(path)
            }
            written => written.map(|()| key),
        }
    }

    /// Writes the key to a new file that only its owner can read. It is whole from the moment that it has its name.
    ///
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let io = |source| KeyError::Io { action: "make", path: path.to_owned(), source };
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}", std::process::id()));
        let written = (|| {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            for byte in self.0.to_bytes() {
                write!(file, "{byte:02x}")?;
            }
            file.write_all(b"\n")?;
            file.sync_all()?;
            // Unlike a rename it does not replace a key that is there.
            fs::hard_link(&unfinished, path)
        })();
        let _ = fs::remove_file(&unfinished);
        written.map_err(io)
    }

    pub(crate) fn secret(&self) -> SecretKey {
        self.0.clone()
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        text.trim().parse().map(Self).map_err(|_| KeyError::Text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(of {})", self.id())
    }
}

/// Which broker, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Who it must show to be.
    pub id: EndpointId,
    /// A host or an address, and a port.
    pub address: String,
}

/// Why a text is no broker's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not of the form ID@HOST:PORT: {reason}")]
pub struct BrokerAddressError {
    text: String,
    reason: &'static str,
}

impl FromStr for BrokerAddress {
    type Err = BrokerAddressError;

    fn from_str(text: &str) -> Result<Self, BrokerAddressError> {
        let wrong = |reason| BrokerAddressError { text: text.to_owned(), reason };
        let (id, address) = text.split_once('@').ok_or_else(|| wrong("there is no @"))?;
        let id = id.parse().map_err(|_| wrong("the part before the @ is no endpoint id"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("there is no port"))?;
        if host.is_empty() {
            return Err(wrong("there is no host"));
        }
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(wrong("the port is not a number from 1 to 65535"));
        }
        Ok(Self { id, address: address.to_owned() })
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.address)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_only_its_owner_can_read_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        let key = Key::read_or_create(&path).expect("made");
        assert_eq!(Key::read_or_create(&path).expect("read").id(), key.id());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1, "nothing else is left");
        assert!(matches!(
            Key::generate().write(&path),
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists
        ));
    }

    #[test]
    fn a_key_that_others_can_read_is_not_used() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        Key::generate().write(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let refused = Key::read(&path).expect_err("others can read it").to_string();
        assert!(refused.contains("mode 640") && refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_file_that_holds_no_key_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).expect("made");
        assert!(matches!(Key::read(&path), Err(KeyError::Content { .. })));
        assert!(matches!(Key::read_or_create(&path), Err(KeyError::Content { .. })));
    }

    #[test]
    fn a_key_is_read_from_text_and_never_shown() {
        let key = Key::generate();
        let text: String = key.0.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text.parse::<Key>().expect("a key").id(), key.id());
        assert!(!format!("{key:?}").contains(&text));
        assert!("secret".parse::<Key>().is_err());
    }

    #[test]
    fn a_brokers_address_has_an_id_a_host_and_a_port() {
        let id = Key::generate().id();
        for address in ["127.0.0.1:9099", "[::1]:9099", "broker.example:1"] {
            let text = format!("{id}@{address}");
            let parsed: BrokerAddress = text.parse().expect("an address");
            assert_eq!((parsed.id, parsed.address.as_str()), (id, address));
            assert_eq!(parsed.to_string(), text);
        }
        for text in [
            "",
            "127.0.0.1:1",
            "x@127.0.0.1:1",
            &format!("{id}@"),
            &format!("{id}@host"),
            &format!("{id}@h:0"),
        ] {
            assert!(text.parse::<BrokerAddress>().is_err(), "{text}");
        }
    }
}
