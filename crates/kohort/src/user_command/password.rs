//! A password that somebody types, pipes or keeps in a file.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process;
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use sasl::limits::MAX_PASSWORD;
use tokio::runtime::Builder;

use crate::failure::{Failure, Kind};
use crate::output::plain;
use crate::signals::Signals;

/// The password for `user`: from the file, from whoever sits at the terminal, or from standard input.
pub(super) fn read(file: Option<&Path>, user: &str) -> anyhow::Result<String> {
    let password = match file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                let message = format!("--password-file {}: cannot be read: {error}", path.display());
                Failure::new(Kind::Usage, message)
            })?;
            without_line_end(&text).to_owned()
        }
        None if io::stdin().is_terminal() => ask(user)?,
        None => {
            let text = io::read_to_string(io::stdin()).context("read the password from standard input")?;
            without_line_end(&text).to_owned()
        }
    };
    check(&password)?;
    Ok(password)
}

/// All of it but one line's end: spaces belong to a password.
fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

fn check(password: &str) -> anyhow::Result<()> {
    let wrong = if password.is_empty() {
        "the password is empty".to_owned()
    } else if password.len() > MAX_PASSWORD {
        format!("the password is longer than {MAX_PASSWORD} bytes")
    } else if password.contains(['\n', '\r', '\0']) {
        "the password has more than one line".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::new(Kind::Usage, wrong).into())
}

/// Asks twice, so that a slip is found before it locks somebody out.
fn ask(user: &str) -> anyhow::Result<String> {
    let silence = Silence::begin().context("switch off the terminal's echo")?;
    undo_on_signal(silence.before.clone()).context("listen for signals")?;
    let first = prompt(&format!("Password for {}: ", plain(user)))?;
    let second = prompt("The same again: ")?;
    drop(silence);
    if first != second {
        return Err(Failure::new(Kind::Usage, "the two passwords differ; nothing was changed").into());
    }
    Ok(first)
}

fn prompt(question: &str) -> anyhow::Result<String> {
    // Standard error is not kept while somebody types: who ends the process meanwhile has a line's end to write.
    io::stderr().write_all(question.as_bytes()).context("ask for the password")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the password")?;
    // The line's end was not shown either.
    io::stderr().write_all(b"\n").context("ask for the password")?;
    Ok(without_line_end(&line).to_owned())
}

/// Gives the terminal its echo back before a signal ends the process: whoever presses Ctrl-C at the question goes on in
/// the same terminal. From then on signals end the process by way of this thread.
fn undo_on_signal(before: Termios) -> anyhow::Result<()> {
    let (told, ready) = mpsc::channel();
    let listen = move || {
        let listening = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let signals = runtime.block_on(async { Signals::new() })?;
            Ok((runtime, signals))
        });
        let (runtime, mut signals) = match listening {
            Ok(listening) => listening,
            Err(error) => return told.send(Err(error)).unwrap_or_default(),
        };
        told.send(Ok(())).unwrap_or_default();
        let signal = runtime.block_on(signals.next());
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
        let _ = io::stderr().write_all(b"\n");
        process::exit(signal.exit_code());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
    ready.recv()??;
    Ok(())
}

/// While it lives, what is typed is not shown.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that has gone cannot be set back, and nobody types on it.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_file_keeps_its_spaces_and_loses_the_lines_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        for (held, meant) in [(" a b \n", " a b "), ("x\r\n", "x"), ("ü", "ü")] {
            fs::write(&path, held).unwrap();
            assert_eq!(read(Some(&path), "alice").unwrap(), meant);
        }
        for wrong in ["", "\n", "a\nb\n", &"x".repeat(5000)] {
            fs::write(&path, wrong).unwrap();
            assert!(read(Some(&path), "alice").is_err(), "{} bytes", wrong.len());
        }
        let missing = read(Some(&dir.path().join("none")), "alice").unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
