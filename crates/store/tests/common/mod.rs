//! What the store's tests share.
#![allow(dead_code, clippy::unwrap_used, reason = "every test file uses its own part of this")]

use std::path::Path;
use std::sync::Arc;

use batch::{BatchBuilder, BatchHeader, NewRecord};
use bytes::Bytes;
use store::{
    Append, AppendError, AppendHandle, Disk, LocalStore, OpenError, Options, PartitionKey, PartitionLog,
    Recovery, TopicId,
};

pub(crate) const DIR: &str = "/data";

/// Small files and a small cache, so that a short test meets every kind of place a batch can be in.
pub(crate) fn small() -> Options {
    Options { log_file_bytes: 8 << 10, cache_bytes: 2 << 10, ..Options::default() }
}

pub(crate) fn key(partition: u32) -> PartitionKey {
    PartitionKey { topic: TopicId::from_u128(0x0199_0000_0000_0000_0000_0000_0000_0001), partition }
}

pub(crate) fn open(
    disk: &(impl Disk + Clone + 'static),
    options: Options,
) -> Result<(LocalStore, Recovery), OpenError> {
    LocalStore::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

/// A batch of `records` records whose values begin with `text`; the timestamp is the same for all.
pub(crate) fn batch_of(text: &str, records: i64, timestamp: i64) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for record in 0..records {
        let value = format!("{text}#{record}");
        let record =
            NewRecord { timestamp, key: Some(text.as_bytes()), value: Some(value.as_bytes()), headers: &[] };
        builder.push(&record).unwrap();
    }
    builder.finish().unwrap()
}

/// Queues a batch at the offset `at`.
pub(crate) fn queue(log: &Arc<PartitionLog>, at: i64, batch: &Bytes) -> AppendHandle {
    log.append(Append::at(batch, at, 0).unwrap())
}

/// Appends a batch at the end and waits for it.
pub(crate) fn append(store: &LocalStore, log: &Arc<PartitionLog>, batch: &Bytes) -> Result<(), AppendError> {
    let handle = queue(log, log.end_offset(), batch);
    while store.commit_once() > 0 {}
    handle.wait()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// All batches of a partition as (base offset, first value without its number).
pub(crate) fn contents(log: &PartitionLog) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut offset = log.start_offset();
    while offset < log.end_offset() {
        let read = log.read(offset, 1000, true).unwrap();
        assert!(read.next_offset > offset, "reading goes on");
        found.extend(batches(&read.concat()));
        offset = read.next_offset;
    }
    found
}

/// The batches in `bytes` as (base offset, first value without its number).
pub(crate) fn batches(bytes: &Bytes) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        let header = BatchHeader::parse(&rest).unwrap();
        let batch = rest.split_to(header.size());
        batch::verify_crc(&batch).unwrap();
        let first = batch::Records::new(&batch).unwrap().next().unwrap().unwrap();
        let value = String::from_utf8(first.value.unwrap().to_vec()).unwrap();
        found.push((header.base_offset, value.split('#').next().unwrap().to_owned()));
    }
    found
}
