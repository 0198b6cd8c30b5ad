//! Reading a data directory without a store: every file, every batch, every checksum.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use batch::{BatchHeader, HEADER_LEN, verify_crc};
use bytes::Bytes;

use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, Open, read_file};
use crate::limits::SCAN_CHUNK_BYTES;
use crate::local_store::partition_dir;
use crate::log_file::FrameReader;
use crate::recovery::{FORMAT_VERSION, OpenError, list_log, read_format};
use crate::segment::{INDEX_ENTRY, TIME_ENTRY, segment_path};
use crate::segment_load::parse_segment_name;
use crate::{PartitionKey, TopicId};

/// What [`verify`] has found.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
    /// How many files were read.
    pub files: u64,
    /// How many batches are sound.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many records they hold.
    pub records: u64,
}

/// Something that is wrong with a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub position: u64,
    /// What is wrong.
    pub what: String,
    /// Whether that is what a crash may leave, and a start will put right.
    pub harmless: bool,
}

/// A batch in a data directory.
#[derive(Debug, Clone)]
pub struct DumpedBatch {
    /// The file that holds it.
    pub file: PathBuf,
    /// Where it begins.
    pub position: u64,
    /// Its partition.
    pub key: PartitionKey,
    /// When it was appended, if it is in the log: milliseconds since 1970.
    pub appended_ms: Option<i64>,
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch.
    pub batch: Bytes,
}

/// Reads everything in a data directory that nobody uses, and says what is wrong. Changes nothing.
///
/// # Errors
/// When it cannot be read at all.
pub fn verify(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Verified, OpenError> {
    walk(disk, dir, &mut |_| {})
}

/// Gives every sound batch of a data directory that nobody uses to `each`: settled ones first, then the log.
///
/// # Errors
/// When it cannot be read at all.
pub fn dump(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    each: &mut dyn FnMut(&DumpedBatch),
) -> Result<Verified, OpenError> {
    walk(disk, dir, each)
}

fn walk(disk: &Arc<dyn Disk>, dir: &Path, each: &mut dyn FnMut(&DumpedBatch)) -> Result<Verified, OpenError> {
    let format = dir.join("format");
    match read_format(&**disk, dir)? {
        None => return Err(OpenError::Format { file: format }),
        Some(found) if found > FORMAT_VERSION => return Err(OpenError::Newer { dir: dir.to_owned(), found }),
        Some(_) => {}
    }
    let lock = dir.join("lock");
    let _lock = match disk.try_lock(&lock) {
        Ok(guard) => guard,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(OpenError::InUse { dir: dir.to_owned() });
        }
        Err(source) => return Err(OpenError::Disk { path: lock, source }),
    };
    let mut walk = Walk { disk: &**disk, verified: Verified::default(), each };
    let topics = dir.join("topics");
    for name in disk.list(&topics).map_err(OpenError::disk(&topics))? {
        let Ok(topic) = name.parse::<TopicId>() else { continue };
        let path = topics.join(&name);
        let mut partitions: Vec<u32> = disk
            .list(&path)
            .map_err(OpenError::disk(&path))?
            .iter()
            .filter_map(|partition| partition.parse().ok())
            .collect();
        partitions.sort_unstable();
        for partition in partitions {
            let key = PartitionKey { topic, partition };
            let path = partition_dir(dir, key);
            walk.partition(key, &path).map_err(OpenError::disk(&path))?;
        }
    }
    walk.log(&dir.join("log"))?;
    Ok(walk.verified)
}

struct Walk<'a> {
    disk: &'a dyn Disk,
    verified: Verified,
    each: &'a mut dyn FnMut(&DumpedBatch),
}

impl Walk<'_> {
    fn partition(&mut self, key: PartitionKey, dir: &Path) -> io::Result<()> {
        let checkpoint = Checkpoint::read(self.disk, dir)?;
        let has_checkpoint = read_file(self.disk, &Checkpoint::path(dir)).is_ok();
        if checkpoint.is_none() && has_checkpoint {
            self.find(&Checkpoint::path(dir), 0, "the checkpoint is damaged", false);
        }
        let names = self.disk.list(dir)?;
        let mut bases: Vec<i64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        bases.sort_unstable();
        let mut end = i64::MIN;
        for (at, &base) in bases.iter().enumerate() {
            let settled = match checkpoint.as_ref().map(|checkpoint| &checkpoint.last) {
                Some(Some((segment, _))) if base < segment.base => None,
                Some(Some((segment, _))) if base == segment.base => Some(segment.bytes),
                Some(_) => Some(0),
                None => (at + 1 == bases.len()).then_some(0),
            };
            if base < end {
                let what = format!("begins below offset {end}, where the segment before it ends");
                self.find(&segment_path(dir, base, "log"), 0, &what, settled == Some(0));
            }
            end = self.segment(key, dir, base, settled)?;
        }
        if let Some(checkpoint) = checkpoint
            && let Some((segment, _)) = checkpoint.last
            && !bases.contains(&segment.base)
            && crate::checkpoint::read_start(self.disk, dir)?.is_none_or(|start| start < segment.end)
        {
            self.find(&segment_path(dir, segment.base, "log"), 0, "the file is missing", false);
        }
        Ok(())
    }

    /// Checks one segment with its indexes. Gives back the offset behind its last sound batch.
    ///
    /// So many bytes of it are `settled`, or all if it is closed. Beyond them the settler was interrupted, and the log
    /// still has it.
    fn segment(&mut self, key: PartitionKey, dir: &Path, base: i64, settled: Option<u64>) -> io::Result<i64> {
        let harmless = |position: u64| settled.is_some_and(|settled| position >= settled);
        let path = segment_path(dir, base, "log");
        let file = self.disk.open(&path, Open::Read)?;
        let size = file.size()?;
        self.verified.files += 1;
        let mut end = base;
        let mut position = 0;
        let mut ends_at = Vec::new();
        while position < size {
            let mut head = [0; HEADER_LEN];
            let read = file.read_at(position, &mut head)?;
            let header = BatchHeader::parse(&head[..read]).ok();
            let whole = header.filter(|header| position + header.size() as u64 <= size);
            let mut batch = vec![0; whole.map_or(0, |header| header.size())];
            let read = file.read_at(position, &mut batch)?;
            let sound = whole.filter(|_| read == batch.len() && verify_crc(&batch).is_ok());
            let Some(header) = sound else {
                self.find(&path, position, "the batch is damaged", harmless(position));
                break;
            };
            if header.base_offset < end {
                let what = format!("offset {} comes again after {end}", header.base_offset);
                self.find(&path, position, &what, harmless(position));
            }
            end = header.last_offset() + 1;
            ends_at.push((position, header.last_offset(), header.max_timestamp));
            self.batch(&DumpedBatch {
                file: path.clone(),
                position,
                key,
                appended_ms: None,
                header,
                batch: Bytes::from(batch),
            });
            position += header.size() as u64;
        }
        if let Some(settled) = settled.filter(|settled| size < *settled) {
            self.find(&path, size, &format!("the file ends, but {settled} bytes were settled"), false);
        }
        self.index(dir, base, &ends_at, settled.is_some())?;
        Ok(end)
    }

    /// Checks that every index entry names a batch that is there.
    fn index(&mut self, dir: &Path, base: i64, batches: &[(u64, i64, i64)], open: bool) -> io::Result<()> {
        for (extension, width) in [("index", INDEX_ENTRY), ("timeindex", TIME_ENTRY)] {
            let path = segment_path(dir, base, extension);
            let Ok(bytes) = read_file(self.disk, &path) else {
                self.find(&path, 0, "the index is missing", open);
                continue;
            };
            self.verified.files += 1;
            let width = usize::try_from(width).unwrap_or(1);
            for (at, entry) in bytes.chunks_exact(width).enumerate() {
                let position = (at * width) as u64;
                let (number, tail) = entry.split_at(width - 4);
                let tail = i64::from(i32::from_be_bytes([tail[0], tail[1], tail[2], tail[3]]));
                let good = if extension == "index" {
                    let offset =
                        base + i64::from(i32::from_be_bytes([number[0], number[1], number[2], number[3]]));
                    let found =
                        batches.binary_search_by_key(&tail, |batch| i64::try_from(batch.0).unwrap_or(-1));
                    found.is_ok_and(|found| batches[found].1 == offset)
                } else {
                    let mut timestamp = [0; 8];
                    timestamp.copy_from_slice(number);
                    let found = batches.binary_search_by_key(&(base + tail), |batch| batch.1);
                    found.is_ok_and(|found| batches[found].2 == i64::from_be_bytes(timestamp))
                };
                if !good {
                    self.find(&path, position, "the entry does not fit the batches", open);
                    break;
                }
            }
        }
        Ok(())
    }

    fn log(&mut self, log_dir: &Path) -> Result<(), OpenError> {
        let files = match list_log(self.disk, log_dir) {
            Ok(files) => files,
            Err(OpenError::Corrupt { file, position, reason }) => {
                self.find(&file, position, reason, false);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for aborted in &files.aborted {
            self.find(&aborted.path, 0, "the making of this log file was interrupted", true);
        }
        for (at, found) in files.logs.iter().enumerate() {
            let fault = |source| OpenError::Disk { path: found.path.clone(), source };
            let next = files.logs.get(at + 1).map(|next| &next.head);
            self.verified.files += 1;
            let file = Arc::clone(&found.file);
            let mut reader = FrameReader::new(file, found.head.salt, SCAN_CHUNK_BYTES).map_err(fault)?;
            let mut sequence = found.head.first;
            while next.is_none_or(|next| sequence < next.log_end_before) {
                let Some(frame) = reader.next(sequence).map_err(fault)? else { break };
                sequence += 1;
                let dumped = DumpedBatch {
                    file: found.path.clone(),
                    position: frame.position,
                    key: frame.head.key,
                    appended_ms: Some(frame.head.wall_ms),
                    header: frame.header,
                    batch: Bytes::copy_from_slice(frame.batch),
                };
                self.batch(&dumped);
            }
            let position = reader.position;
            if let Some(next) = next.filter(|next| sequence < next.log_end_before) {
                let what = "the log goes on in a later file, but this one ends early";
                self.find(&found.path, position, what, sequence >= next.durable_before);
            } else if next.is_none() {
                match crate::recovery::look_beyond(found, &mut reader, sequence) {
                    Ok(Some(_)) => self.find(&found.path, position, "the log has a torn end", true),
                    Ok(None) => {}
                    Err(OpenError::Corrupt { file, position, reason }) => {
                        self.find(&file, position, reason, false);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn batch(&mut self, batch: &DumpedBatch) {
        self.verified.batches += 1;
        self.verified.bytes += batch.batch.len() as u64;
        self.verified.records += u64::try_from(batch.header.records_count).unwrap_or(0);
        (self.each)(batch);
    }

    fn find(&mut self, file: &Path, position: u64, what: &str, harmless: bool) {
        self.verified.findings.push(Finding {
            file: file.to_owned(),
            position,
            what: what.to_owned(),
            harmless,
        });
    }
}
