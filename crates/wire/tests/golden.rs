//! Frames that real clients and a real Kafka exchanged, recorded by `examples/capture.rs`.
//!
//! Each file in `golden/` is named `<client>-<version>-<api>-v<N>.hex`. Lines that begin with `>` are request
//! frames, those with `<` the answers to the request above them, both without the size in front; `#` begins
//! a comment.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use wire::{
    ApiKey, decode_any_request, decode_any_response, decode_request, encode_any_request, encode_any_response,
};

/// This client leaves three bytes behind a request for all topics, which Kafka ignores and we must too.
const HAS_MORE_BEHIND: &str = "confluent-kafka-2.16.1-Metadata-v13";

#[test]
fn recorded_frames_are_read_and_written_back_byte_for_byte() {
    let files = golden_files();
    assert!(!files.is_empty(), "there are recorded frames");
    for path in files {
        check(&path);
    }
}

fn golden_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(directory).expect("list the frames");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("list the frames").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "hex"));
    files.sort();
    files
}

fn check(path: &Path) {
    let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
    let (named_api, named_version) = named(name);
    let mut last = None;
    for line in std::fs::read_to_string(path).expect("read the frames").lines() {
        match line.split_once(' ') {
            Some((">", hex)) => {
                let frame = unhex(hex);
                let (header, request) =
                    decode_any_request(frame.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!((header.api, header.version), (named_api, named_version), "{name}");
                let written = encode_any_request(&header, &request).into_content();
                if name == HAS_MORE_BEHIND {
                    assert!(frame.starts_with(&written), "{name}: {request:?}");
                } else {
                    assert_eq!(written, frame, "{name}: {request:?}");
                }
                assert!(decode_request(frame).is_ok(), "{name}: it has a meaning too");
                last = Some(header);
            }
            Some(("<", hex)) => {
                let frame = unhex(hex);
                let header = last.as_ref().expect("an answer follows its request");
                let (correlation_id, response) =
                    decode_any_response(frame.clone(), header.api, header.version)
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(correlation_id, header.correlation_id, "{name}");
                let written = encode_any_response(header.version, correlation_id, &response);
                assert_eq!(written.into_content(), frame, "{name}: {response:?}");
            }
            _ => assert!(line.is_empty() || line.starts_with('#'), "{name}: {line}"),
        }
    }
    assert!(last.is_some(), "{name} holds a request");
}

/// The API and version at the end of a file's name.
fn named(name: &str) -> (ApiKey, i16) {
    let (rest, version) = name.rsplit_once("-v").expect("the name ends with a version");
    let (_, api) = rest.rsplit_once('-').expect("the name names an API");
    let api = ApiKey::ANSWERED.iter().copied().find(|known| known.name() == api);
    (api.expect("the API is one of ours"), version.parse().expect("a number"))
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<_> = text.trim().chars().map(|digit| digit.to_digit(16).expect("hex")).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits")).collect()
}
