//! Reading shards back from their logs, at the start and after a failure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use batch::{BatchError, Batches, RecordCursor};
use coordination::group::{
    Decoded, Effects, GroupLog, GroupRecord, GroupRecordError, Shard, group_partition,
};
use coordination::ids::{GroupId, OrgId, TopicId};
use parking_lot::Mutex;
use store::{PartitionLog, ReadError};

use super::gathering::{Gathering, Split};
use super::shard::GroupShard;
use super::{Groups, Shared};
use crate::topics::Topics;

/// How many bytes of a log are read at a time.
const READ_BYTES: usize = 4 << 20;

/// How long a shard that failed waits before it is read back, at first and at most: on a disk that is full, every
/// attempt to write ends here.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(5);

/// Why a shard could not be read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The store could not read the log.
    #[error("read the log {log}")]
    Read { log: String, source: ReadError },
    /// A batch in it is damaged.
    #[error("the batch at offset {offset} of {log} is damaged")]
    Batch { log: String, offset: i64, source: BatchError },
    /// A record in it cannot be understood.
    #[error("the record at offset {offset} of {log} cannot be understood")]
    Record { log: String, offset: i64, source: GroupRecordError },
    /// The broker ends before it has loaded.
    #[error("the broker ends")]
    Ended,
}

impl LoadError {
    /// Whether the log may be read the next time: a disk that hiccups, or no file that can be opened now.
    fn may_pass(&self) -> bool {
        matches!(self, Self::Read { source: ReadError::Disk { .. }, .. })
    }
}

/// What partition 1 of `__kohort` holds, by shard: what groups are, then what has happened to them.
#[derive(Debug, Default)]
struct KohortRecords(HashMap<(OrgId, u32), Vec<GroupRecord>>);

/// Shards that are to be read back.
///
/// What `__kohort` holds is read for all of them together and by one at a time: where a disk fails, all shards fail at
/// once, and each would hold a copy of it otherwise.
#[derive(Debug, Default)]
pub(crate) struct ReadingBack {
    waiting: Mutex<Vec<Weak<GroupShard>>>,
    reading: Mutex<()>,
}

/// Loads every shard in the background; blocking is allowed where it happens.
pub(crate) fn load_all(groups: &Arc<Groups>, shards: Vec<Arc<GroupShard>>) {
    let shared = Arc::clone(&groups.shared);
    let groups = Arc::clone(groups);
    shared.spawn_blocking(move || {
        let began = Instant::now();
        let is_read = load_these(&groups, shards);
        groups.shared.first_load.send_replace(true);
        if !is_read {
            return;
        }
        let took = began.elapsed();
        groups.shared.metrics.loaded(took);
        let usage = groups.shared.usage.now();
        tracing::info!(
            groups = usage.groups,
            members = usage.members,
            ms = (took.as_secs_f64() * 1e6).round() / 1e3,
            "groups are loaded"
        );
    });
}

/// Forgets, in the background, the groups of organisations that are gone.
pub(crate) fn forget_strangers(groups: &Arc<Groups>) {
    let shared = Arc::clone(&groups.shared);
    let groups = Arc::clone(groups);
    shared.spawn_blocking(move || {
        // What cannot be read now is left to the next start.
        if let Err(error) = read_kohort(&groups) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "groups of an organisation that is gone could not be looked for");
        }
    });
}

/// Reads a shard back, after a pause. `dropped` is what it was before; it goes where its size delays nobody.
pub(crate) fn read_back(shard: Arc<GroupShard>, dropped: Option<Shard>) {
    let shared = Arc::clone(&shard.shared);
    shared.spawn(async move {
        tokio::time::sleep(pause(shard.failures())).await;
        // What is on its way to the disk may get there yet. It has to be in the log, or not, before that is read.
        while !shard.is_quiet() {
            tokio::time::sleep(*PAUSE.start()).await;
        }
        let Some(groups) = shard.shared.groups() else { return };
        let shared = Arc::clone(&shard.shared);
        shared.reading_back.waiting.lock().push(Arc::downgrade(&shard));
        shared.spawn_blocking(move || {
            drop(dropped);
            let reading_back = &groups.shared.reading_back;
            let _one_at_a_time = reading_back.reading.lock();
            let waiting = std::mem::take(&mut *reading_back.waiting.lock());
            let shards: Vec<_> = waiting.iter().filter_map(Weak::upgrade).collect();
            // Whoever was here before may have taken them along.
            if !shards.is_empty() {
                load_these(&groups, shards);
            }
        });
    });
}

/// Loads some shards, several at a time; says whether the log that they share could be read. Blocks.
fn load_these(groups: &Groups, shards: Vec<Arc<GroupShard>>) -> bool {
    let mut records = match read_kohort(groups) {
        Ok(records) => records,
        Err(error) => {
            not_loaded(&shards, &error);
            return false;
        }
    };
    // Each thread takes the next shard: they differ in size.
    let (count, threads) = (shards.len(), std::thread::available_parallelism().map_or(2, usize::from));
    let work: Vec<_> = shards
        .into_iter()
        .map(|shard| {
            let own = records.0.remove(&(shard.org, shard.partition)).unwrap_or_default();
            (shard, own)
        })
        .collect();
    // What belongs to other shards.
    drop(records);
    let work = Mutex::new(work.into_iter());
    let take_turns = || {
        // Whose clock it is.
        let _runtime = groups.shared.runtime.enter();
        loop {
            let Some((shard, own)) = work.lock().next() else { return };
            load(&shard, &groups.topics, own);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            // Where there can be no other thread, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, take_turns);
        }
        take_turns();
    });
    true
}

/// How long to wait before the next attempt, after so many in a row have failed.
fn pause(failures: u32) -> Duration {
    PAUSE.start().saturating_mul(1 << failures.saturating_sub(1).min(10)).min(*PAUSE.end())
}

fn load(shard: &Arc<GroupShard>, topics: &Topics, own: Vec<GroupRecord>) {
    // A panic is told by its hook. Reading the same log again would only end in the same way.
    if catch_unwind(AssertUnwindSafe(|| try_to_load(shard, topics, own))).is_err() {
        shard.give_up();
    }
}

fn try_to_load(shard: &Arc<GroupShard>, topics: &Topics, own: Vec<GroupRecord>) {
    // Nothing is outstanding, so this works; a closed store is not worth a word.
    let _ = shard.log.reset();
    let mut machine = Shard::new(shard.org, shard.shared.settings());
    for record in &own {
        machine.apply(record);
    }
    drop(own);
    let mut read_topics: HashMap<TopicId, Arc<str>> = HashMap::new();
    let replayed = replay(&shard.shared, &shard.log, GroupLog::Offsets, |record| {
        if let GroupRecord::Offset { topic, value: Some(value), .. } = &record
            && !value.topic_id.is_zero()
        {
            read_topics.entry(value.topic_id).or_insert_with(|| Arc::clone(topic));
        }
        machine.apply(&record);
    });
    if let Err(error) = replayed {
        return not_loaded(std::slice::from_ref(shard), &error);
    }
    // A topic is gone before the shards have stored that its offsets are, and a crash may have come in between.
    for (id, name) in read_topics.into_iter().filter(|(id, _)| topics.by_id(shard.org, *id).is_none()) {
        shard.topic_deleted(&name, id);
    }
    shard.go_live(machine);
}

/// Says which shards could not be loaded, and tries again where that may help. The others are left as what cannot be
/// loaded.
fn not_loaded(shards: &[Arc<GroupShard>], error: &LoadError) {
    // The log of an organisation that was deleted meanwhile went while it was read; nobody misses it.
    let shards: Vec<_> = shards.iter().filter(|shard| !shard.is_closed()).collect();
    if shards.is_empty() {
        return;
    }
    let may_pass = error.may_pass();
    if !matches!(error, LoadError::Ended) {
        let error = error as &dyn std::error::Error;
        let partitions: Vec<_> = shards.iter().map(|shard| (shard.org, shard.partition)).collect();
        let what = if may_pass { "this is tried again" } else { "requests about them are refused" };
        tracing::error!(?partitions, error, "groups cannot be loaded; {what}");
    }
    for shard in shards {
        if may_pass {
            shard.count_failure();
            read_back(Arc::clone(shard), None);
        } else {
            shard.give_up();
        }
    }
}

fn read_kohort(groups: &Groups) -> Result<KohortRecords, LoadError> {
    let mut identities = BTreeMap::new();
    // By their keys, as compaction would leave them.
    let mut events: HashMap<(GroupId, u32), GroupRecord> = HashMap::new();
    replay(&groups.shared, groups.shared.own_log.log(), GroupLog::Kohort, |record| match record {
        GroupRecord::Identity(identity) => {
            identities.insert(identity.id, identity);
        }
        GroupRecord::IdentityDeleted(id) => {
            identities.remove(&id);
        }
        GroupRecord::Event { id, slot, event: None } => {
            events.remove(&(id, slot));
        }
        GroupRecord::Event { id, slot, .. } => {
            events.insert((id, slot), record);
        }
        // Kafka's formats are not decoded from this log.
        GroupRecord::Offset { .. } | GroupRecord::Group { .. } => {}
    })?;
    // An identity is written anew with every generation, so that compaction leaves it behind the events of its group.
    let mut places = HashMap::new();
    let mut records = KohortRecords::default();
    // Groups of organisations that are gone.
    let mut gone = BTreeSet::new();
    let mut strangers = Effects::default();
    for (id, identity) in identities {
        let Some(partitions) = groups.partitions(identity.org) else {
            strangers.records.push(GroupRecord::IdentityDeleted(id));
            gone.insert(id);
            continue;
        };
        let place = (identity.org, group_partition(&identity.name, partitions));
        places.insert(id, place);
        records.0.entry(place).or_default().push(GroupRecord::Identity(identity));
    }
    for ((id, slot), event) in events {
        match places.get(&id) {
            Some(place) => records.0.entry(*place).or_default().push(event),
            None if gone.contains(&id) => {
                strangers.records.push(GroupRecord::Event { id, slot, event: None });
            }
            None => {}
        }
    }
    if !strangers.records.is_empty() {
        forget(groups, strangers);
    }
    Ok(records)
}

/// Takes what belongs to nobody out of the log. If that fails it is tried again at the next start.
fn forget(groups: &Groups, mut strangers: Effects) {
    let mut gathering = Gathering::default();
    let now = groups.shared.clock.now();
    let batches =
        gathering.push(&mut strangers, now.wall_ms, Split::Anywhere).and_then(|()| gathering.take().close());
    let Ok((batches, _)) = batches else { return };
    for (batch, records) in batches {
        groups.shared.own_log.append_then(&batch, records, |_| ());
    }
}

/// Gives every record of a log that can be understood to `apply`, in order. Blocks.
fn replay(
    shared: &Shared,
    log: &PartitionLog,
    kind: GroupLog,
    mut apply: impl FnMut(GroupRecord),
) -> Result<(), LoadError> {
    let name = || match kind {
        GroupLog::Kohort => format!("__kohort/{}", log.key().partition),
        GroupLog::Offsets => format!("__consumer_offsets/{}", log.key().partition),
    };
    let mut skipped = BTreeSet::new();
    let mut offset = log.start_offset();
    while offset < log.end_offset() {
        if shared.has_ended() {
            return Err(LoadError::Ended);
        }
        let read = match log.read(offset, READ_BYTES, true) {
            Ok(read) => read,
            // Retention came in between, in a log that somebody has given one.
            Err(ReadError::OutOfRange { start, .. }) if start > offset => {
                offset = start;
                continue;
            }
            Err(source) => return Err(LoadError::Read { log: name(), source }),
        };
        for batch in Batches::new(&read.concat()) {
            let damaged = |source| LoadError::Batch { log: name(), offset, source };
            let (header, batch) = batch.map_err(damaged)?;
            // The end of a transaction, in a log that Kafka has written.
            if header.is_control() {
                continue;
            }
            let mut records = RecordCursor::new(&batch).map_err(damaged)?;
            while let Some(record) = records.next_record() {
                let record = record.map_err(damaged)?;
                // The batch that holds the start of the log may begin before it.
                if record.offset < offset {
                    continue;
                }
                match GroupRecord::decode(kind, record.key.unwrap_or_default(), record.value) {
                    Ok(Decoded::Record(record)) => apply(record),
                    Ok(Decoded::Other { kind }) => {
                        if skipped.insert(kind) {
                            tracing::warn!(log = name(), kind, "records of an unknown type are skipped");
                        }
                    }
                    Err(source) => {
                        return Err(LoadError::Record { log: name(), offset: record.offset, source });
                    }
                }
            }
        }
        if read.next_offset <= offset {
            // Compaction may leave nothing at the very end.
            break;
        }
        offset = read.next_offset;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        assert_eq!(pause(0), Duration::from_millis(50));
        assert_eq!(pause(1), Duration::from_millis(50));
        assert_eq!(pause(2), Duration::from_millis(100));
        assert_eq!(pause(30), Duration::from_secs(5));
        assert_eq!(pause(u32::MAX), Duration::from_secs(5));
    }
}
