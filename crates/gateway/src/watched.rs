//! Files that are read again when they change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{info, warn};

use crate::limits::LOOK_INTERVAL;

/// What was made of some files, and is made anew when they change. Who has the old one keeps it.
pub(crate) struct Watched<T> {
    /// Whose files they are, for the log.
    listener: Arc<str>,
    paths: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T, Unusable> + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    current: Arc<T>,
    /// Of the files that `current` was made of, or of those that nothing could be made of since.
    stamps: Vec<Option<Stamp>>,
    looked_at: Instant,
}

/// What changes whenever a file is written or another takes its place.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Why nothing can be made of a file or a setting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// The system does not give it.
    #[error("read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It holds something else.
    #[error("{}: {problem}", .path.display())]
    Content { path: PathBuf, problem: String },
    /// The settings do not go together.
    #[error("{0}")]
    Setting(String),
}

impl Unusable {
    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }
}

impl<T> Watched<T> {
    /// Makes it the first time, with `load`, which reads nothing but `paths`.
    pub(crate) fn new(
        listener: Arc<str>,
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, Unusable> + Send + Sync + 'static,
    ) -> Result<Self, Unusable> {
        // Before they are read: what changes in between is found the next time.
        let stamps = paths.iter().map(|path| Stamp::of(path)).collect();
        let state = State { current: Arc::new(load()?), stamps, looked_at: Instant::now() };
        Ok(Self { listener, paths, load: Box::new(load), state: Mutex::new(state) })
    }

    /// The latest that could be made. Looks at the files at most once in [`LOOK_INTERVAL`].
    pub(crate) fn current(&self, now: Instant) -> Arc<T> {
        let mut state = self.state.lock();
        if now.saturating_duration_since(state.looked_at) >= LOOK_INTERVAL {
            state.looked_at = now;
            let stamps: Vec<_> = self.paths.iter().map(|path| Stamp::of(path)).collect();
            if stamps != state.stamps {
                // Kept even if they are broken, so that this is said once and tried again when they change again.
                state.stamps = stamps;
                self.reload(&mut state);
            }
        }
        Arc::clone(&state.current)
    }

    fn reload(&self, state: &mut State<T>) {
        let files: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
        let files = files.join(", ");
        match (self.load)() {
            Ok(current) => {
                state.current = Arc::new(current);
                info!(listener = &*self.listener, files, "changed files are used from now on");
            }
            Err(failure) => {
                warn!(listener = &*self.listener, files, %failure, "changed files cannot be used; went on with the old");
            }
        }
    }
}

impl Stamp {
    /// `None` while there is no such file, as in the middle of being replaced.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// All of a file that a person has written for us.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Unusable> {
    fs::read(path).map_err(|source| Unusable::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(path: &Path) -> Result<u32, Unusable> {
        let text = String::from_utf8(read(path)?).map_err(|_| Unusable::content(path, "no text"))?;
        text.parse().map_err(|_| Unusable::content(path, "no number"))
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_a_broken_one_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("number");
        fs::write(&path, "1").expect("written");
        let file = path.clone();
        let watched =
            Watched::new("TEST".into(), vec![path.clone()], move || number(&file)).expect("it is fine");
        let mut now = Instant::now();
        assert_eq!(*watched.current(now), 1);
        for (text, expected) in [("22", 22), ("broken", 22), ("333", 333)] {
            fs::write(&path, text).expect("written");
            now += LOOK_INTERVAL;
            assert_eq!(*watched.current(now), expected, "after {text}");
        }
        fs::remove_file(&path).expect("removed");
        now += LOOK_INTERVAL;
        assert_eq!(*watched.current(now), 333);
        let other = directory.path().join("other");
        fs::write(&other, "444").expect("written");
        fs::rename(&other, &path).expect("renamed");
        assert_eq!(*watched.current(now), 333, "it is too early to look again");
        now += LOOK_INTERVAL;
        assert_eq!(*watched.current(now), 444);
    }

    #[test]
    fn a_file_that_is_broken_from_the_start_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("number");
        let file = path.clone();
        let missing = Watched::new("TEST".into(), vec![path], move || number(&file)).err();
        let said = missing.expect("there is no file").to_string();
        assert!(said.starts_with("read /") && said.contains("No such file"), "{said}");
    }
}
