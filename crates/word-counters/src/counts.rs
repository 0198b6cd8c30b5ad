//! The state of one partition: how often each word occurs in its lines, up to an offset.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use assigner_client::Partition;
use serde::{Deserialize, Serialize};

/// The words of all lines before `next_offset`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) next_offset: i64,
    pub(crate) lines: u64,
    pub(crate) words: BTreeMap<String, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, offset: i64, line: &str) {
        self.next_offset = offset + 1;
        self.lines += 1;
        for word in line.split_whitespace() {
            match self.words.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    self.words.insert(word.to_owned(), 1);
                }
            }
        }
    }

    /// What was stored for the partition, if anything.
    pub(crate) fn load(dir: &Path, partition: &Partition) -> Result<Option<Self>> {
        let path = path(dir, partition);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let counts =
            serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))?;
        Ok(Some(counts))
    }

    /// Stores all or nothing: a process that is killed meanwhile leaves what was there before.
    pub(crate) fn save(&self, dir: &Path, partition: &Partition) -> Result<()> {
        let path = path(dir, partition);
        let new = path.with_extension("new");
        let write = || -> Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_data()?;
            fs::rename(&new, &path)?;
            Ok(())
        };
        write().with_context(|| format!("write {}", path.display()))
    }
}

/// The partitions of a topic for which something is stored.
pub(crate) fn stored(dir: &Path, topic: &str) -> Result<Vec<Partition>> {
    let mut partitions = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".counts"));
        let number = number.and_then(|name| name.strip_prefix(topic)?.strip_prefix('-')?.parse().ok());
        partitions.extend(number.map(|number| Partition::new(topic, number)));
    }
    partitions.sort();
    Ok(partitions)
}

fn path(dir: &Path, partition: &Partition) -> PathBuf {
    dir.join(format!("{partition}.counts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_listed() {
        let dir = tempfile::tempdir().unwrap();
        let partition = Partition::new("lines", 3);
        assert_eq!(Counts::load(dir.path(), &partition).unwrap(), None);
        let mut counts = Counts::default();
        counts.add(7, "to be or not to be");
        assert_eq!((counts.next_offset, counts.words["to"], counts.words["not"]), (8, 2, 1));
        counts.save(dir.path(), &partition).unwrap();
        assert_eq!(Counts::load(dir.path(), &partition).unwrap(), Some(counts));
        fs::write(dir.path().join("lines-x.counts"), "").unwrap();
        fs::write(dir.path().join("other-1.counts"), "").unwrap();
        assert_eq!(stored(dir.path(), "lines").unwrap(), [partition]);
    }
}
