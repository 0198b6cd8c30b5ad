//! What a shard has written: two logs with one order between them, as bytes.

use std::collections::BTreeMap;

use coordination::group::{Decoded, GroupLog, GroupRecord};

/// The logs of one shard. What is in here survives a crash.
#[derive(Debug, Default)]
pub struct Disk {
    entries: Vec<Entry>,
}

/// One record as it is written.
#[derive(Clone, Debug)]
pub struct Entry {
    log: GroupLog,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// How the two logs are put together when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// As the broker loads them: what each group is, then its events, then `__consumer_offsets`.
    Loaded,
    /// First all of `__consumer_offsets`, then all of `__kohort`.
    OffsetsFirst,
}

impl Disk {
    /// How many records there are.
    pub fn size(&self) -> usize {
        self.entries.len()
    }

    /// Appends these.
    pub fn append(&mut self, entries: &[Entry]) {
        self.entries.extend_from_slice(entries);
    }

    /// Takes out what a later record of the same key replaces, as compaction does; also tombstones, if nobody needs
    /// them any more.
    pub fn compact(&mut self, with_tombstones: bool) {
        let mut newest = BTreeMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            newest.insert((entry.log, entry.key.clone()), at);
        }
        let mut at = 0;
        self.entries.retain(|entry| {
            let stays = newest.get(&(entry.log, entry.key.clone())) == Some(&at);
            at += 1;
            stays && (entry.value.is_some() || !with_tombstones)
        });
    }

    /// All records, decoded.
    pub fn read(&self, order: ReadOrder) -> Result<Vec<GroupRecord>, String> {
        let mut records =
            self.entries.iter().map(Entry::decode).collect::<Result<Vec<GroupRecord>, String>>()?;
        match order {
            ReadOrder::Loaded => {
                let mut identities = BTreeMap::new();
                for record in &records {
                    match record {
                        GroupRecord::Identity(identity) => {
                            identities.insert(identity.id, record.clone());
                        }
                        GroupRecord::IdentityDeleted(id) => {
                            identities.remove(id);
                        }
                        _ => {}
                    }
                }
                let (events, offsets): (Vec<_>, Vec<_>) = records
                    .into_iter()
                    .filter(|it| !matches!(it, GroupRecord::Identity(_) | GroupRecord::IdentityDeleted(_)))
                    .partition(|it| it.log() == GroupLog::Kohort);
                let known = |record: &GroupRecord| match record {
                    GroupRecord::Event { id, .. } => identities.contains_key(id),
                    _ => true,
                };
                let events: Vec<_> = events.into_iter().filter(known).collect();
                records = identities.into_values().chain(events).chain(offsets).collect();
            }
            ReadOrder::OffsetsFirst => records.sort_by_key(|record| record.log() != GroupLog::Offsets),
        }
        Ok(records)
    }
}

impl Entry {
    /// The record as bytes.
    pub fn new(record: &GroupRecord) -> Self {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.encode_into(&mut key, &mut value);
        Self { log: record.log(), key, value: (!record.is_tombstone()).then_some(value) }
    }

    /// The bytes as a record.
    pub fn decode(&self) -> Result<GroupRecord, String> {
        match GroupRecord::decode(self.log, &self.key, self.value.as_deref()) {
            Ok(Decoded::Record(record)) => Ok(record),
            Ok(Decoded::Other { kind }) => Err(format!("the shard wrote a record of type {kind}")),
            Err(error) => Err(format!("what the shard wrote cannot be read: {error}")),
        }
    }
}

/// The records of one step, on their way to the disk.
#[derive(Debug)]
pub struct Written {
    /// The records.
    pub records: Vec<GroupRecord>,
    /// Whether a crash may leave some of them.
    pub split: Split,
}

/// Whether the records of one step have to be in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// They may be in several: each says something that is true without the others.
    Anywhere,
    /// Not where a client sent them together.
    Never,
}

/// What one flush writes: batches for each log. Each batch reaches the disk entirely or not at all.
#[derive(Debug, Default)]
pub struct Batches {
    kohort: Vec<Vec<Entry>>,
    offsets: Vec<Vec<Entry>>,
}

impl Batches {
    /// Puts the records of one flush into batches. `cut` says whether a batch is full after a record.
    pub fn new(steps: &[Written], mut cut: impl FnMut() -> bool) -> Self {
        let mut batches = Self::default();
        for step in steps {
            let mut logs = [false, false];
            for record in &step.records {
                let entry = Entry::new(record);
                let (log, known) = match entry.log {
                    GroupLog::Kohort => (&mut batches.kohort, &mut logs[0]),
                    GroupLog::Offsets => (&mut batches.offsets, &mut logs[1]),
                };
                let may_cut = step.split == Split::Anywhere || !*known;
                *known = true;
                match log.last_mut() {
                    Some(batch) if !may_cut || !cut() => batch.push(entry),
                    Some(_) | None => log.push(vec![entry]),
                }
            }
        }
        batches
    }

    /// All batches in the order in which the broker writes them: first what goes to `__kohort`, so that no generation
    /// is in the other log without being in this one.
    pub fn iter(&self) -> impl Iterator<Item = &[Entry]> {
        self.kohort.iter().chain(&self.offsets).map(Vec::as_slice)
    }

    /// How many batches there are for each log.
    pub fn lengths(&self) -> [usize; 2] {
        [self.kohort.len(), self.offsets.len()]
    }

    /// The first so many of each log.
    pub fn beginnings(&self, lengths: [usize; 2]) -> impl Iterator<Item = &[Entry]> {
        self.kohort.iter().take(lengths[0]).chain(self.offsets.iter().take(lengths[1])).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tombstone(partition: i32) -> GroupRecord {
        GroupRecord::Offset { group: Arc::from("g"), topic: Arc::from("t"), partition, value: None }
    }

    fn lengths(split: Split) -> Vec<usize> {
        let one = || Written { records: vec![tombstone(0), tombstone(1)], split };
        Batches::new(&[one(), one()], || true).iter().map(<[Entry]>::len).collect()
    }

    #[test]
    fn what_was_sent_together_is_written_together() {
        assert_eq!(lengths(Split::Anywhere), [1, 1, 1, 1]);
        assert_eq!(lengths(Split::Never), [2, 2]);
    }
}
