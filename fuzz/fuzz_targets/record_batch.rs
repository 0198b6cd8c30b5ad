//! Any bytes as record batches: checked and read to the end without a panic and within bounds.
//!
//! The checksum would stop nearly all inputs, so each is also tried with a checksum that is right.

#![no_main]

use batch::{
    DecompressionBudget, HEADER_LEN, RecordChecks, RecordCursor, check_batches, check_produced, check_records, crc_of,
};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// How far a batch is decompressed here.
const LIMIT: u64 = 1 << 20;

/// Where the checksum stands, and where what it covers begins.
const CHECKSUM: usize = 17;
const COVERED: usize = 21;

fuzz_target!(|bytes: &[u8]| {
    read(&Bytes::copy_from_slice(bytes));
    if bytes.len() >= HEADER_LEN {
        let mut mended = bytes.to_vec();
        let length = u32::try_from(bytes.len() - 12).expect("inputs are short");
        mended[8..12].copy_from_slice(&length.to_be_bytes());
        mended[16] = 2;
        // A produced batch begins at offset 0.
        mended[..8].fill(0);
        let checksum = crc_of(&mended[COVERED..]);
        mended[CHECKSUM..COVERED].copy_from_slice(&checksum.to_be_bytes());
        read(&mended.into());
    }
});

fn read(bytes: &Bytes) {
    if let Ok(checked) = check_produced(bytes, bytes.len()) {
        let checks = RecordChecks { require_key: true, timestamps: None };
        let _ = check_records(&checked, &checks, &mut DecompressionBudget::default());
    }
    let _ = check_batches(bytes);
    let Ok(mut cursor) = RecordCursor::with_limit(bytes, LIMIT) else { return };
    while let Some(record) = cursor.next_record() {
        if record.is_err() {
            return;
        }
    }
}
