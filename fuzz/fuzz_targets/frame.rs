//! Any bytes as a request: understood, or refused, and nothing else.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::{Body, answer, decode_request};

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = decode_request(Bytes::copy_from_slice(bytes)) else { return };
    if let Body::Local(local) = request.body {
        assert!(!answer(&request.head, local).is_empty());
    }
});
