//! Requests and responses as messages with their headers: what clients, tests and tools exchange.

use std::ops::Range;

use bytes::Bytes;
use coordination::error_code::ErrorCode;

use crate::error::{DecodeError, Problem, TextTooLong};
use crate::field::{At, Field, LONGEST_TEXT};
use crate::message::{Message, RequestMessage};
use crate::reader::Reader;
use crate::table::{AnyRequest, AnyResponse, ApiKey};
use crate::writer::{Frame, Writer};

/// What stands in front of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api: ApiKey,
    /// The version of the request and of its answer.
    pub version: i16,
    /// The client's number for the request, which comes back with the answer.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<String>,
}

/// How the client id is written in every version: never compact, so that a broker can read the header of
/// a request it does not understand.
const CLIENT_ID: At = At { version: 1, flexible: false, nullable: true };

impl RequestHeader {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (head, span) = decode_head(reader)?;
        let client_id = span.map(|span| String::from_utf8_lossy(reader.part(span)).into_owned());
        Ok(Self { api: head.api, version: head.version, correlation_id: head.correlation_id, client_id })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.put_array(self.api.number().to_be_bytes());
        writer.put_array(self.version.to_be_bytes());
        writer.put_array(self.correlation_id.to_be_bytes());
        self.client_id.write(writer, CLIENT_ID);
        if self.api.is_flexible(self.version) {
            writer.begin_tags(0);
            writer.end_tags();
        }
    }
}

/// The header of a request but for the client's id.
#[derive(Clone, Copy)]
pub(crate) struct FixedHead {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
}

/// Reads the header where `reader` stands and says where in the frame the client's id is, so that who has seen it
/// before need not read it. The version may be one that we do not support.
#[inline]
pub(crate) fn decode_head(reader: &mut Reader) -> Result<(FixedHead, Option<Range<usize>>), DecodeError> {
    let fixed = read_fixed(reader).map_err(|problem| reader.malformed(problem, "RequestHeader"))?;
    let (key, version, correlation_id) = fixed;
    let api = ApiKey::from_number(key).ok_or(DecodeError::UnknownApi { key })?;
    let client_id =
        read_rest(reader, api, version).map_err(|problem| reader.malformed(problem, "RequestHeader"))?;
    Ok((FixedHead { api, version, correlation_id }, client_id))
}

#[inline]
fn read_fixed(reader: &mut Reader) -> Result<(i16, i16, i32), Problem> {
    Ok((reader.i16()?, reader.i16()?, reader.i32()?))
}

#[inline]
fn read_rest(reader: &mut Reader, api: ApiKey, version: i16) -> Result<Option<Range<usize>>, Problem> {
    let client_id =
        read_client_id(reader).map_err(|problem| reader.locate(problem, "RequestHeader", "client_id"))?;
    if api.is_flexible(version) {
        reader.tagged(|_, _| Ok(()))?;
    }
    Ok(client_id)
}

#[inline]
fn read_client_id(reader: &mut Reader) -> Result<Option<Range<usize>>, Problem> {
    // Kafka reads a null in any length below zero.
    match usize::try_from(reader.i16()?) {
        Ok(length) => reader.span(length).map(Some),
        Err(_) => Ok(None),
    }
}

/// Writes a request with its header, unless one of its texts is too long to be written whole.
///
/// The beginning of a name may be the name of something else, which must not be deleted in its place.
pub fn encode_whole_request<R: RequestMessage>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Frame, TextTooLong> {
    let writer = write_request(request, version, correlation_id, client_id);
    match writer.longest_cut() {
        Some(length) => Err(TextTooLong { length, longest: LONGEST_TEXT }),
        None => Ok(writer.finish()),
    }
}

/// Writes a request with its header. A text that is too long loses its end.
pub fn encode_request<R: RequestMessage>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Frame {
    write_request(request, version, correlation_id, client_id).finish()
}

fn write_request<R: RequestMessage>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Writer {
    let client_id = client_id.map(str::to_owned);
    let mut writer = Writer::frame();
    RequestHeader { api: R::API, version, correlation_id, client_id }.encode(&mut writer);
    request.encode(&mut writer, version);
    writer
}

/// Reads the answer to a request of type `R`: the correlation id and the body.
pub fn decode_response<R: RequestMessage>(
    frame: Bytes,
    version: i16,
) -> Result<(i32, R::Response), DecodeError> {
    let (correlation_id, version, body) = open_response(frame, R::API, version)?;
    Ok((correlation_id, R::Response::decode(body, version)?))
}

/// Writes any request with its header.
pub fn encode_any_request(header: &RequestHeader, request: &AnyRequest) -> Frame {
    let mut writer = Writer::frame();
    header.encode(&mut writer);
    request.encode(&mut writer, header.version);
    writer.finish()
}

/// Reads any request with its header.
pub fn decode_any_request(frame: Bytes) -> Result<(RequestHeader, AnyRequest), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    let request = AnyRequest::decode(header.api, header.version, reader.rest())?;
    Ok((header, request))
}

/// Writes any response with its header.
pub fn encode_any_response(version: i16, correlation_id: i32, response: &AnyResponse) -> Frame {
    let mut writer = Writer::frame();
    begin_response(&mut writer, response.api(), version, correlation_id);
    response.encode(&mut writer, version);
    writer.finish()
}

/// Reads the answer to a request of this API and version: the correlation id and the body.
pub fn decode_any_response(
    frame: Bytes,
    api: ApiKey,
    version: i16,
) -> Result<(i32, AnyResponse), DecodeError> {
    let (correlation_id, version, body) = open_response(frame, api, version)?;
    Ok((correlation_id, AnyResponse::decode(api, version, body)?))
}

/// Starts a response: its header is written, its body is to follow.
#[inline]
pub(crate) fn begin_response(writer: &mut Writer, api: ApiKey, version: i16, correlation_id: i32) {
    writer.put_array(correlation_id.to_be_bytes());
    if api.has_tagged_response_header(version) {
        writer.begin_tags(0);
        writer.end_tags();
    }
}

/// Reads the header of a response and says in which version its body is written.
fn open_response(frame: Bytes, api: ApiKey, version: i16) -> Result<(i32, i16, Bytes), DecodeError> {
    fn header(reader: &mut Reader, tagged: bool) -> Result<i32, Problem> {
        let correlation_id = reader.i32()?;
        if tagged {
            reader.tagged(|_, _| Ok(()))?;
        }
        Ok(correlation_id)
    }
    let mut reader = Reader::new(frame);
    let correlation_id = header(&mut reader, api.has_tagged_response_header(version))
        .map_err(|problem| reader.malformed(problem, "ResponseHeader"))?;
    let body = reader.rest();
    // A broker that does not know our version of ApiVersions says so in version 0 (KIP-511).
    let refused = body.starts_with(&ErrorCode::UnsupportedVersion.number().to_be_bytes());
    let version = if api == ApiKey::ApiVersions && refused { 0 } else { version };
    Ok((correlation_id, version, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::delete_groups::DeleteGroupsRequest;

    #[test]
    fn a_request_is_written_whole_or_not_at_all() {
        let request = |length: usize| DeleteGroupsRequest { groups_names: vec!["é".repeat(length / 2)] };
        for version in [0, 2] {
            let whole = encode_whole_request(&request(LONGEST_TEXT - 1), version, 1, None).unwrap();
            let (_, read) = decode_any_request(whole.into_content()).unwrap();
            assert_eq!(read, AnyRequest::DeleteGroups(request(LONGEST_TEXT - 1)));
            let refused = encode_whole_request(&request(LONGEST_TEXT + 1), version, 1, None).unwrap_err();
            assert_eq!(refused, TextTooLong { length: LONGEST_TEXT + 1, longest: LONGEST_TEXT });
        }
        let long = "a".repeat(LONGEST_TEXT + 1);
        assert!(encode_whole_request(&request(2), 2, 1, Some(&long)).is_err());
    }
}
