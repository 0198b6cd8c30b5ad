//! A disk that a test can fill.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::process::run_within;

/// A file system of its own, gone when dropped.
pub(crate) struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    pub(crate) fn tmpfs(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(directory.path());
        match run_within(command, Duration::from_secs(10)) {
            Ok(done) if done.success() => Some(Self { directory }),
            Ok(done) => {
                println!("skipped: a file system cannot be mounted here: {}", done.stderr.trim());
                None
            }
            Err(error) => {
                println!("skipped: a file system cannot be mounted here: {error:#}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        unmount(self.directory.path());
    }
}

/// Detached rather than unmounted, since a process that is about to end may still be in it.
fn unmount(path: &Path) {
    let mut command = Command::new("umount");
    command.arg("-l").arg(path);
    // If it stays, it stays until the next start of the machine; the test is over.
    let _ = run_within(command, Duration::from_secs(10));
}
