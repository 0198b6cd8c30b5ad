//! When this process worked on which partition, for whoever wants to check that no two did so at once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use assigner_client::Partition;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A file to which a line is added whenever work on a partition begins or ends; nothing if nobody wants it.
#[derive(Debug)]
pub(crate) struct Journal(Option<Mutex<File>>);

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// Written before the first record is worked on.
    Begins,
    /// Written after the last record, and before the state is stored and anybody else is told.
    Releases,
    /// Written after the last record, when the partition was not ours any more.
    Revoked,
}

impl Journal {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self(Some(Mutex::new(file.with_context(|| format!("open {}", path.display()))?))))
    }

    /// Adds a line; `offset` is the first one that is not worked on yet.
    pub(crate) fn write(&self, event: Event, partition: &Partition, epoch: u64, offset: i64) -> Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let partition = partition.number;
        let mut line = serde_json::to_vec(&Line { at_us: now_us(), event, partition, epoch, offset })?;
        line.push(b'\n');
        file.lock().write_all(&line).context("write to the journal")
    }
}

#[derive(Serialize)]
struct Line {
    at_us: u64,
    event: Event,
    partition: u32,
    epoch: u64,
    offset: i64,
}

/// Microseconds on the monotonic clock, which all processes of a machine share.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000;
    whole + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}
