//! Any bytes as the body of any message: what can be read can be written, and reads the same again.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::{
    AnyRequest, AnyResponse, ApiKey, RequestHeader, decode_any_request, decode_any_response,
    encode_any_request, encode_any_response,
};

fuzz_target!(|bytes: &[u8]| {
    let [which, version, body @ ..] = bytes else { return };
    let api = ApiKey::ANSWERED[usize::from(which & 0x7f) % ApiKey::ANSWERED.len()];
    let (first, last) = api.versions().into_inner();
    let version = first + i16::from(*version) % (last - first + 1);
    let body = Bytes::copy_from_slice(body);
    if which & 0x80 == 0 {
        let Ok(request) = AnyRequest::decode(api, version, body) else { return };
        let header = RequestHeader { api, version, correlation_id: 1, client_id: None };
        let frame = encode_any_request(&header, &request).into_content();
        assert_eq!(decode_any_request(frame), Ok((header, request)));
    } else {
        // A refusal of ApiVersions is read as version 0, whatever was asked for.
        if api == ApiKey::ApiVersions && body.starts_with(&[0, 35]) {
            return;
        }
        let Ok(response) = AnyResponse::decode(api, version, body) else { return };
        let frame = encode_any_response(version, 1, &response).into_content();
        assert_eq!(decode_any_response(frame, api, version), Ok((1, response)));
    }
});
