//! The admin token: a secret in a file that only its owner can read.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a data directory's token is.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin-token")
}

/// Reads the token of a data directory, making one up at the first start.
pub(crate) fn read_or_create(data_dir: &Path) -> io::Result<String> {
    let path = path(data_dir);
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(token) => {
            // A copied directory may have lost its modes.
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            return Ok(token);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(io::Error::new(error.kind(), format!("{error}; remove it to get a new one")));
        }
        Err(error) => return Err(error),
    }
    let token: String = rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect();
    // Written aside and renamed, so that a crash leaves a whole token or none.
    let aside = path.with_extension("new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(token.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&aside, &path)?;
    Ok(token)
}

/// Reads a token from a file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let token = fs::read_to_string(path)?.trim().to_owned();
    // It travels in a header, which is a line.
    if token.len() < SHORTEST || !token.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "holds no token"));
    }
    Ok(token)
}

/// Whether `given` is the token, in a time that does not tell how much of it was right.
pub(crate) fn matches(token: &str, given: &str) -> bool {
    let different = token.bytes().zip(given.bytes()).fold(0, |different, (a, b)| different | (a ^ b));
    different == 0 && token.len() == given.len()
}

/// A shorter token could be guessed, or comes from a file that was never written.
const SHORTEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let token = read_or_create(dir.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(read_or_create(dir.path()).unwrap(), token);
        assert_eq!(fs::metadata(path(dir.path())).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches(&token, &token) && !matches(&token, &token[..63]) && !matches(&token, ""));
    }

    #[test]
    fn an_empty_token_file_opens_no_door() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(path(dir.path()), "\n").unwrap();
        let refusal = read_or_create(dir.path()).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::InvalidData);
        assert_eq!(refusal.to_string(), "holds no token; remove it to get a new one");
    }

    #[test]
    fn what_is_no_token_is_not_sent_as_one() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "short", "long enough\nand on two lines", "long enough, schön"] {
            fs::write(path(dir.path()), text).unwrap();
            assert_eq!(read(&path(dir.path())).unwrap_err().to_string(), "holds no token", "{text}");
        }
    }
}
