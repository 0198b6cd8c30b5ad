//! What the counters produce: for each partition a file that says who has worked on which records.
//!
//! It stands for whatever a real consumer writes to: a table, another service. As there, all owners write to the same
//! place, one after the other, and what is written together with the offset tells the next owner where to go on.
//! A file beside it holds the epoch of the latest owner, and one of an earlier epoch cannot write any more, however long
//! it slept between asking whether the partition is its own and writing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use assigner_client::Partition;
use serde::{Deserialize, Serialize};

/// Records that were worked on, from `first` to `last`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// How many records there were: offsets may have gaps.
    pub(crate) records: usize,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    /// When, in microseconds on the clock of [`now_us`](crate::journal::now_us).
    pub(crate) at_us: u64,
}

/// The results of one partition.
#[derive(Debug)]
pub(crate) struct Results {
    file: File,
    fence: Fence,
    epoch: u64,
    last: Option<Entry>,
}

/// What came of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// The partition has an owner of a later epoch.
    Overtaken,
}

impl Results {
    /// Opens the results of a partition for its owner of this epoch.
    pub(crate) fn open(dir: &Path, partition: &Partition, epoch: u64) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let path = dir.join(format!("{partition}.results"));
        let open = || -> Result<Self> {
            let fence = Fence::open(&dir.join(format!("{partition}.epoch")))?;
            let held = fence.hold()?;
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            let last = last_entry(&mut file)?;
            let latest = held.epoch()?.max(last.as_ref().map_or(0, |last| last.epoch));
            if latest > epoch {
                bail!("a later owner, of epoch {latest}, is at work");
            }
            held.raise(epoch)?;
            drop(held);
            Ok(Self { file, fence, epoch, last })
        };
        open().with_context(|| format!("open {}", path.display()))
    }

    /// The offset after the last record that anyone has worked on.
    pub(crate) fn next_offset(&self) -> i64 {
        self.last.as_ref().map_or(0, |last| last.last + 1)
    }

    /// Adds an entry by one write, so that it is there as a whole or not at all.
    pub(crate) fn append(&mut self, entry: Entry) -> Result<Outcome> {
        ensure!(entry.first >= self.next_offset(), "{entry:?} comes after {:?}", self.last);
        let held = self.fence.hold()?;
        if held.epoch()? > self.epoch {
            return Ok(Outcome::Overtaken);
        }
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line).context("write a result")?;
        self.last = Some(entry);
        Ok(Outcome::Written)
    }
}

/// The file with the epoch of the latest owner. Whoever looks at it or writes results holds its lock.
#[derive(Debug)]
struct Fence(File);

/// The lock, for as long as this lives.
struct Held<'a>(&'a File);

impl Fence {
    fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    fn hold(&self) -> io::Result<Held<'_>> {
        self.0.lock()?;
        Ok(Held(&self.0))
    }
}

impl Held<'_> {
    /// The latest epoch; 0 if there was none, or whoever wrote it was killed before it was whole.
    fn epoch(&self) -> Result<u64> {
        let mut text = String::new();
        let mut file = self.0;
        file.seek(SeekFrom::Start(0))?;
        file.read_to_string(&mut text)?;
        Ok(text.strip_suffix('\n').map_or(Ok(0), str::parse)?)
    }

    fn raise(&self, epoch: u64) -> io::Result<()> {
        let mut file = self.0;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{epoch}\n").as_bytes())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The lock also ends with the file, so nothing is lost when this fails.
        let _ = self.0.unlock();
    }
}

/// Reads the last entry, and cuts off what a process that was killed has begun to write after it.
fn last_entry(file: &mut File) -> Result<Option<Entry>> {
    const TAIL: u64 = 64 * 1024;
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    if end < tail.len() {
        file.set_len(start + u64::try_from(end)?)?;
    }
    match tail[..end].split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()) {
        Some(line) => Ok(Some(serde_json::from_slice(line).context("understand the last result")?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: i64, last: i64, epoch: u64) -> Entry {
        Entry { first, last, records: 1, owner: "a".to_owned(), epoch, at_us: 0 }
    }

    #[test]
    fn the_next_owner_goes_on_after_the_last_whole_entry() {
        let dir = tempfile::tempdir().unwrap();
        let partition = Partition::new("lines", 0);
        let mut results = Results::open(dir.path(), &partition, 1).unwrap();
        assert_eq!(results.next_offset(), 0);
        results.append(entry(0, 4, 1)).unwrap();
        results.append(entry(5, 9, 1)).unwrap();
        assert!(results.append(entry(9, 9, 1)).is_err(), "nothing twice");
        let path = dir.path().join("lines-0.results");
        let mut torn = fs::read(&path).unwrap();
        let whole = torn.len();
        torn.extend_from_slice(b"{\"first\":10,\"la");
        fs::write(&path, &torn).unwrap();

        let mut results = Results::open(dir.path(), &partition, 2).unwrap();
        assert_eq!(results.next_offset(), 10);
        assert_eq!(fs::metadata(&path).unwrap().len(), u64::try_from(whole).unwrap());
        results.append(entry(10, 10, 2)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert!(Results::open(dir.path(), &partition, 1).is_err(), "an earlier owner is refused");
    }

    #[test]
    fn an_owner_that_slept_cannot_write_once_the_next_one_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let partition = Partition::new("lines", 0);
        let mut former = Results::open(dir.path(), &partition, 1).unwrap();
        assert_eq!(former.append(entry(0, 4, 1)).unwrap(), Outcome::Written);
        let mut next = Results::open(dir.path(), &partition, 2).unwrap();
        assert_eq!(former.append(entry(5, 9, 1)).unwrap(), Outcome::Overtaken);
        assert_eq!(next.append(entry(5, 6, 2)).unwrap(), Outcome::Written);
        let text = fs::read_to_string(dir.path().join("lines-0.results")).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
