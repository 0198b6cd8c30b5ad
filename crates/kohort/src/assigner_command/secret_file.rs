//! Secrets, which come from files: flags and variables show up in lists of processes and in crash reports.

use std::fs;
use std::path::Path;

/// The password in a file: all of it but a line's end.
pub(super) fn read_password(path: &Path) -> Result<String, String> {
    let text = read(path)?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() { Err("holds no password".to_owned()) } else { Ok(password.to_owned()) }
}

/// The tokens in a file, one a line; lines that are empty or begin with # are left out.
pub(super) fn read_tokens(path: &Path) -> Result<Vec<String>, String> {
    let text = read(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let tokens: Vec<String> = lines.map(str::to_owned).collect();
    // Whoever names a file wants a lock on the door, not none.
    if tokens.is_empty() {
        return Err("holds no token".to_owned());
    }
    for token in &tokens {
        if token.len() < SHORTEST {
            return Err(format!("holds a token of {} characters; {SHORTEST} are needed", token.len()));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "holds a token with other characters than letters, digits and signs of ASCII".to_owned()
            );
        }
    }
    Ok(tokens)
}

/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// A PEM file, or what is wrong with it.
pub(super) fn read_pem(path: &Path) -> Result<Vec<u8>, String> {
    let text = read(path)?;
    if text.contains("-----BEGIN ") { Ok(text.into_bytes()) } else { Err("is no PEM file".to_owned()) }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_password_keeps_its_spaces_and_loses_the_lines_end() {
        assert_eq!(read_password(file(" a b \r\n").path()), Ok(" a b ".to_owned()));
        assert_eq!(read_password(file("a").path()), Ok("a".to_owned()));
        assert_eq!(read_password(file("\n").path()), Err("holds no password".to_owned()));
        assert!(read_password(Path::new("/nowhere")).unwrap_err().starts_with("cannot be read"));
    }

    #[test]
    fn a_file_may_hold_the_next_token_beside_the_last() {
        let tokens = read_tokens(file("# new\n0123456789abcdef\n\nfedcba9876543210\n").path()).unwrap();
        assert_eq!(tokens, ["0123456789abcdef", "fedcba9876543210"]);
    }

    #[test]
    fn a_file_without_a_good_token_opens_no_door() {
        for text in [
            "",
            "\n",
            "# 0123456789abcdef",
            "0123456789abcdef\nshort",
            "0123456789 abcdef",
            "0123456789abcdefü",
        ] {
            assert!(read_tokens(file(text).path()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_pem_is_refused_by_name_and_not_by_a_failing_handshake() {
        assert_eq!(read_pem(file("x").path()), Err("is no PEM file".to_owned()));
        assert!(read_pem(file("-----BEGIN CERTIFICATE-----\n").path()).is_ok());
    }
}
