//! Opening a data directory: what is settled is taken stock of, what is only in the log is read again.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use batch::HEADER_LEN;

use crate::checkpoint::{Checkpoint, read_start};
use crate::commit::LogEnd;
use crate::disk::{Disk, DiskFile, Open, read_file, replace_file};
use crate::limits::{GROUP_BYTES_MAX, SCAN_CHUNK_BYTES, SYNC_EACH_FILES_MAX};
use crate::local_store::partition_dir;
use crate::log_file::{
    FILE_HEAD_LEN, FRAME_HEAD_LEN, FileHead, FrameReader, LogFile, NUMBER_END, log_path, parse_name,
};
use crate::metrics::Metrics;
use crate::partition::{PartitionLog, Settled};
use crate::queue::Queue;
use crate::sealed::{Sealed, SealedFiles, Spare};
use crate::segment_load::{Loaded, load_segments};
use crate::tail::Tail;
use crate::unsettled::LogEntry;
use crate::{PartitionKey, TopicId};

/// The format of the data directory that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// What opening a data directory has found.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// What was cut off, because it was not whole.
    pub cuts: Vec<Cut>,
    /// Damage in settled files. Reads of the damaged parts fail; everything else works.
    pub damage: Vec<String>,
    /// Every partition that has data.
    pub partitions: Vec<PartitionKey>,
    /// Batches that were in the log and not settled.
    pub replayed_appends: u64,
    /// Their bytes.
    pub replayed_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// A torn end of a file that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: PathBuf,
    /// Where the first byte that was cut was.
    pub position: u64,
    /// How many bytes there were behind it, if that can be told: in a log file, space was reserved anyway.
    pub bytes: Option<u64>,
}

/// Why a data directory was not opened. Nothing in it has been changed, beyond leftovers removed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The data directory.
        dir: PathBuf,
    },
    /// It was written by a newer program.
    #[error("{} has format version {found}; this program reads up to {FORMAT_VERSION}", dir.display())]
    Newer {
        /// The data directory.
        dir: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file that tells the version cannot be understood.
    #[error("{} does not tell a format version", file.display())]
    Format {
        /// The file.
        file: PathBuf,
    },
    /// Records that were acknowledged are not there any more.
    #[error("{} is damaged at position {position}: {reason}", file.display())]
    Corrupt {
        /// The damaged log file.
        file: PathBuf,
        /// Where the damage begins.
        position: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// The disk refused.
    #[error("open {}", path.display())]
    Disk {
        /// What was being read or written.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }
}

/// A data directory ready for use.
pub(crate) struct Recovered {
    pub(crate) lock: Box<dyn Send + Sync>,
    pub(crate) partitions: HashMap<PartitionKey, Arc<PartitionLog>>,
    pub(crate) end: LogEnd,
    pub(crate) recovery: Recovery,
}

pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    queue: &Arc<Queue>,
    sealed: &SealedFiles,
    metrics: &Metrics,
) -> Result<Recovered, OpenError> {
    let began = Instant::now();
    let lock = lock_dir(&**disk, dir)?;
    check_format(&**disk, dir)?;
    let mut recovery = Recovery::default();
    let mut partitions = HashMap::new();
    for (key, settled) in load_topics(&**disk, dir, &mut recovery)? {
        let log =
            PartitionLog::new(key, partition_dir(dir, key), Arc::clone(disk), Arc::clone(queue), settled);
        partitions.insert(key, Arc::new(log));
    }
    let log_dir = dir.join("log");
    let files = list_log(&**disk, &log_dir)?;
    let LogEnd { mut log_end, mut last_number, mut leftovers } = LogEnd::default();
    for file in &files.logs {
        last_number = last_number.max(file.head.first);
    }
    for (first, path) in &files.spares {
        last_number = last_number.max(*first);
        if sealed.keep_spare(Spare { path: path.clone(), written: 0 }).is_err() {
            disk.remove_file(path).map_err(OpenError::disk(path))?;
        }
    }
    for file in &files.aborted {
        last_number = last_number.max(file.first);
        // Its making was interrupted; it never held anything.
        disk.remove_file(&file.path).map_err(OpenError::disk(&file.path))?;
    }
    let mut replay = Replay {
        disk,
        dir,
        queue,
        partitions: &mut partitions,
        recovery: &mut recovery,
        settled: HashSet::new(),
    };
    for (at, file) in files.logs.iter().enumerate() {
        let next = files.logs.get(at + 1).map(|next| &next.head);
        let replayed = replay.file(file, next)?;
        last_number = last_number.max(replayed.end);
        if replayed.appends > 0 {
            log_end = replayed.end;
            let bytes = replayed.end_position - FILE_HEAD_LEN as u64;
            Metrics::add(&metrics.backlog_bytes, bytes);
            Metrics::add(&metrics.backlog_appends, replayed.appends);
            sealed.push(replayed);
        } else {
            if at == 0 {
                // The files before it are gone. Those that are there were asked themselves, and may have lost
                // something.
                log_end = file.head.log_end_before;
            }
            if next.is_some() {
                sealed.drained.lock().insert(replayed.file.first, replayed.file);
            } else {
                leftovers.push(replayed.file);
            }
        }
    }
    replay.sync_checkpoints()?;
    Metrics::add(&metrics.cuts, recovery.cuts.len() as u64);
    recovery.partitions = partitions.keys().copied().collect();
    recovery.partitions.sort_unstable();
    recovery.took = began.elapsed();
    let end = LogEnd { log_end, last_number, leftovers };
    Ok(Recovered { lock, partitions, end, recovery })
}

fn lock_dir(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Send + Sync>, OpenError> {
    for path in [dir.to_owned(), dir.join("log"), dir.join("topics")] {
        disk.create_dir_all(&path).map_err(OpenError::disk(&path))?;
    }
    let path = dir.join("lock");
    match disk.try_lock(&path) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(OpenError::InUse { dir: dir.to_owned() })
        }
        Err(source) => Err(OpenError::Disk { path, source }),
    }
}

/// Refuses what a newer program has written, and marks a new directory with this program's version.
fn check_format(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let file = dir.join("format");
    match read_format(disk, dir)? {
        Some(found) if found > FORMAT_VERSION => Err(OpenError::Newer { dir: dir.to_owned(), found }),
        Some(_) => Ok(()),
        None => write_format(disk, dir).map_err(OpenError::disk(&file)),
    }
}

/// Marks a directory with this program's version of the format.
pub(crate) fn write_format(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let content = format!("{{\"format\":\"kohort\",\"version\":{FORMAT_VERSION}}}\n");
    replace_file(disk, &dir.join("format"), content.as_bytes())?;
    match dir.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => disk.sync_dir(above),
        None => Ok(()),
    }
}

/// The version of the format in `dir`, if it tells one.
pub(crate) fn read_format(disk: &dyn Disk, dir: &Path) -> Result<Option<u32>, OpenError> {
    let file = dir.join("format");
    let bytes = match read_file(disk, &file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Disk { path: file, source }),
    };
    let text = String::from_utf8_lossy(&bytes);
    let version = text.split_once("\"version\":").map(|(_, rest)| rest.trim_start());
    let digits = version.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(version) => Ok(Some(version)),
        None => Err(OpenError::Format { file }),
    }
}

/// A log file with a sound head.
pub(crate) struct FoundLog {
    pub(crate) head: FileHead,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// A log file whose head was never finished.
pub(crate) struct Aborted {
    first: u64,
    pub(crate) path: PathBuf,
}

#[derive(Default)]
pub(crate) struct LogFiles {
    pub(crate) logs: Vec<FoundLog>,
    pub(crate) spares: Vec<(u64, PathBuf)>,
    pub(crate) aborted: Vec<Aborted>,
}

/// The files of the log in their order.
pub(crate) fn list_log(disk: &dyn Disk, log_dir: &Path) -> Result<LogFiles, OpenError> {
    let mut files = LogFiles::default();
    for name in disk.list(log_dir).map_err(OpenError::disk(log_dir))? {
        if let Some(first) = parse_name(&name, "spare") {
            files.spares.push((first, log_dir.join(&name)));
        }
        let Some(first) = parse_name(&name, "log") else { continue };
        let path = log_path(log_dir, first);
        let file = disk.open(&path, Open::Read).map_err(OpenError::disk(&path))?;
        let mut bytes = [0; FILE_HEAD_LEN];
        let read = file.read_at(0, &mut bytes).map_err(OpenError::disk(&path))?;
        match FileHead::decode(&bytes[..read]).filter(|head| head.first == first) {
            Some(head) => files.logs.push(FoundLog { head, path, file }),
            None => {
                // A frame follows a head that was durable. What an earlier life of the file has left there has
                // another number.
                let position = FILE_HEAD_LEN as u64;
                if has_number(&*file, position, first).map_err(OpenError::disk(&path))? {
                    let reason = "the head of the file is bad and frames follow it";
                    return Err(OpenError::Corrupt { file: path, position: 0, reason });
                }
                files.aborted.push(Aborted { first, path });
            }
        }
    }
    Ok(files)
}

/// Reading the log again.
struct Replay<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    queue: &'a Arc<Queue>,
    partitions: &'a mut HashMap<PartitionKey, Arc<PartitionLog>>,
    recovery: &'a mut Recovery,
    /// Partitions that have batches both in their segments and in the log.
    settled: HashSet<PartitionKey>,
}

impl Replay<'_> {
    /// Reads one log file and gives its batches to their partitions. `next` is the head of the file behind it.
    fn file(&mut self, found: &FoundLog, next: Option<&FileHead>) -> Result<Sealed, OpenError> {
        let fault = |source| OpenError::Disk { path: found.path.clone(), source };
        let FileHead { first, salt, .. } = found.head;
        let file = Arc::clone(&found.file);
        let mut reader = FrameReader::new(Arc::clone(&file), salt, SCAN_CHUNK_BYTES).map_err(fault)?;
        let file =
            Arc::new(LogFile { first, salt, path: found.path.clone(), file, written: AtomicU64::new(0) });
        let mut sequence = first;
        let mut unsure_from = 0;
        let mut last: Option<(PartitionKey, Arc<PartitionLog>)> = None;
        while next.is_none_or(|next| sequence < next.log_end_before) {
            let Some(frame) = reader.next(sequence).map_err(fault)? else { break };
            if frame.head.durable_end == sequence {
                unsure_from = frame.position;
            }
            sequence += 1;
            let key = frame.head.key;
            // Batches of one partition often come in a row.
            let log = match last.take() {
                Some((known, log)) if known == key => log,
                _ => Arc::clone(self.partitions.entry(key).or_insert_with(|| {
                    let dir = partition_dir(self.dir, key);
                    let (disk, queue) = (Arc::clone(self.disk), Arc::clone(self.queue));
                    Arc::new(PartitionLog::new(key, dir, disk, queue, Settled::default()))
                })),
            };
            self.recovery.replayed_appends += 1;
            self.recovery.replayed_bytes += frame.batch.len() as u64;
            let entry = LogEntry::new(&frame.header, frame.position);
            let end = log.end_offset();
            // A batch may reach over the start of the log.
            if entry.end() > end {
                if entry.base_offset > end && end > 0 {
                    let lost = format!("{key} has no batches from offset {end} to {}", entry.base_offset);
                    self.recovery.damage.push(lost);
                }
                log.recover(&file, entry, &frame.header, frame.head.wall_ms);
            } else {
                self.settled.insert(key);
            }
            last = Some((key, log));
        }
        let end_position = reader.position;
        match next {
            Some(next) if sequence < next.durable_before => {
                let reason = "the log goes on in a later file, but this one ends early";
                return Err(OpenError::Corrupt { file: found.path.clone(), position: end_position, reason });
            }
            Some(next) if sequence < next.log_end_before => {
                // A sync had failed under a relaxed flush, which says that a crash may lose this.
                let cut = Cut { file: found.path.clone(), position: end_position, bytes: None };
                self.cut(cut);
            }
            Some(_) => {}
            None => {
                if let Some(cut) = look_beyond(found, &mut reader, sequence)? {
                    self.cut(cut);
                }
            }
        }
        if next.is_none_or(|next| next.durable_before < next.log_end_before) {
            self.make_durable(found, unsure_from, end_position)?;
        }
        Ok(Sealed { file, end: sequence, end_position, appends: sequence - first })
    }

    fn cut(&mut self, cut: Cut) {
        let Cut { file, position, bytes } = &cut;
        tracing::warn!(file = %file.display(), position, ?bytes, "the torn end of the log was cut off");
        self.recovery.cuts.push(cut);
    }

    /// Makes durable what readers are about to see and the next file will vouch for.
    ///
    /// The process may have been killed before its last sync, or that sync may have failed. A sync alone would not
    /// do: after one that has failed, Linux takes the pages for clean.
    fn make_durable(&self, found: &FoundLog, from: u64, to: u64) -> Result<(), OpenError> {
        let rewrite = || {
            let file = self.disk.open(&found.path, Open::Write)?;
            let mut buffer = vec![0; usize::try_from((to - from).min(SCAN_CHUNK_BYTES as u64)).unwrap_or(0)];
            let mut at = from;
            while at < to {
                let want = usize::try_from(to - at).unwrap_or(usize::MAX).min(buffer.len());
                let read = file.read_at(at, &mut buffer[..want])?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                file.write_at(at, &mut [IoSlice::new(&buffer[..read])])?;
                at += read as u64;
            }
            file.sync_data()?;
            // The name may be as young as the head. And a later file whose making failed may come back if its removal
            // is not durable; its head would say that the log ends before what is seen now.
            self.disk.sync_dir(&self.dir.join("log"))
        };
        rewrite().map_err(OpenError::disk(&found.path))
    }

    /// Makes the names of checkpoints durable that may have been replaced just before the process ended: the log
    /// files they speak of are about to be used again.
    fn sync_checkpoints(&self) -> Result<(), OpenError> {
        if self.settled.len() > SYNC_EACH_FILES_MAX {
            return self
                .disk
                .file_system(self.dir)
                .and_then(|all| all.sync())
                .map_err(OpenError::disk(self.dir));
        }
        for key in &self.settled {
            let dir = partition_dir(self.dir, *key);
            match self.disk.sync_dir(&dir) {
                // Batches of a topic that was removed have no directory.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenError::disk(&dir)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Looks at what follows the last good frame of the log.
///
/// Frames of one group reach the disk in any order, so good ones may follow a torn one. But every frame tells how
/// much of the log was durable when it was written: if that includes the bad one, something acknowledged is gone,
/// and whoever runs this must know.
pub(crate) fn look_beyond(
    found: &FoundLog,
    reader: &mut FrameReader,
    sequence: u64,
) -> Result<Option<Cut>, OpenError> {
    let fault = |source| OpenError::Disk { path: found.path.clone(), source };
    let position = reader.position;
    let mut beyond = None;
    // A group is hardly longer than this, so the first frame of the next one would be met.
    let limit = position + 2 * GROUP_BYTES_MAX as u64;
    while let Some((at, head)) = reader.search(limit).map_err(fault)? {
        reader.position = at + 1;
        // No more frames than fit can lie in between, and none knows of later ones.
        let between = (at - position) / (FRAME_HEAD_LEN + HEADER_LEN) as u64;
        if !(sequence..=sequence + between).contains(&head.sequence) || head.durable_end > head.sequence {
            continue;
        }
        if head.durable_end > sequence {
            let reason = "a frame that was acknowledged is damaged, and later ones are not";
            return Err(OpenError::Corrupt { file: found.path.clone(), position, reason });
        }
        beyond = Some(at + head.frame_len());
    }
    if beyond.is_none() && !has_number(&*found.file, position, sequence).map_err(fault)? {
        return Ok(None);
    }
    let bytes = beyond.map(|beyond| beyond.saturating_sub(position));
    Ok(Some(Cut { file: found.path.clone(), position, bytes }))
}

/// Whether the bytes at `position` are those of the frame `sequence`, damaged, rather than old ones or none.
fn has_number(file: &dyn DiskFile, position: u64, sequence: u64) -> io::Result<bool> {
    let mut head = [0; FRAME_HEAD_LEN];
    let read = file.read_at(position, &mut head)?;
    let [.., n0, n1, n2, n3, n4, n5, n6, n7] = head[..NUMBER_END] else { return Ok(false) };
    Ok(read == head.len() && u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]) == sequence)
}

/// Finds every partition that has a directory.
fn load_topics(
    disk: &dyn Disk,
    dir: &Path,
    recovery: &mut Recovery,
) -> Result<Vec<(PartitionKey, Settled)>, OpenError> {
    let topics = dir.join("topics");
    let mut found = Vec::new();
    for name in disk.list(&topics).map_err(OpenError::disk(&topics))? {
        let path = topics.join(&name);
        if name.ends_with(".removed") {
            disk.remove_dir_all(&path).map_err(OpenError::disk(&path))?;
            continue;
        }
        let Ok(topic) = name.parse::<TopicId>() else {
            tracing::warn!(path = %path.display(), "what this is, nobody knows; it is left alone");
            continue;
        };
        for partition in disk.list(&path).map_err(OpenError::disk(&path))? {
            let Ok(partition) = partition.parse::<u32>() else { continue };
            let key = PartitionKey { topic, partition };
            found.push((key, load_partition(disk, &partition_dir(dir, key), recovery)?));
        }
    }
    Ok(found)
}

fn load_partition(disk: &dyn Disk, dir: &Path, recovery: &mut Recovery) -> Result<Settled, OpenError> {
    let checkpoint = Checkpoint::read(disk, dir).map_err(OpenError::disk(dir))?;
    let start = read_start(disk, dir).map_err(OpenError::disk(dir))?.unwrap_or(0);
    let promised = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.settled_end);
    // One that says nothing yet may have been on its way to the disk; it is written again.
    let has_checkpoint = checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.last.is_some());
    let Loaded { segments, index, producers, torn } = load_segments(disk, dir, start, checkpoint, recovery)?;
    let settled_end = segments.back().map_or(0, |segment| segment.end).max(promised);
    // Records below the first segment are gone, whatever is said elsewhere.
    let first = segments.front().map_or(settled_end, |segment| segment.base);
    let mut tail = Tail::new(index, producers);
    (tail.has_checkpoint, tail.torn) = (has_checkpoint, torn);
    Ok(Settled { start: start.max(first), settled_end, segments, tail })
}
