//! Keys: reading them, and writing them under guards.

use bytes::Bytes;
use tonic::transport::Channel;

use crate::client::{Repeat, revision, signed};
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::kv_client::KvClient;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
};
use crate::proto::mvccpb;
use crate::{Etcd, EtcdError, LeaseId};

/// How many keys are asked for at once.
const PAGE: i64 = 2000;

/// How large an answer may be. A page of the largest values that etcd takes is larger; smaller pages are asked for then.
pub(crate) const MAX_ANSWER: usize = 64 << 20;

/// How often a prefix is read from its beginning because etcd has compacted away the revision it is read at.
const READ_ATTEMPTS: usize = 5;

/// One key as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The revision of its last change.
    pub modified: u64,
    /// The lease it lives by; 0 if by none.
    pub lease: LeaseId,
}

/// All keys of a prefix as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// The keys in order.
    pub entries: Vec<KeyValue>,
}

/// A key that must be as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The key.
    pub key: String,
    /// The revision of its last change; 0 if there must be none.
    pub modified: u64,
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The key gets this value and lives by this lease, or by none.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
        /// The lease.
        lease: Option<LeaseId>,
    },
    /// The key goes.
    Delete {
        /// The key.
        key: String,
    },
}

/// What became of a transaction that etcd has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is written, as of this revision.
    Committed {
        /// The revision.
        revision: u64,
    },
    /// A guard did not hold; nothing is written. To decide again, the state must be at least of this revision.
    Refused {
        /// The revision.
        revision: u64,
    },
}

impl Etcd {
    /// The current revision, agreed on by the cluster.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn revision(&self) -> Result<u64, EtcdError> {
        let request =
            RangeRequest { key: self.readable(), limit: 1, keys_only: true, ..RangeRequest::default() };
        let answer = self.range(request).await?;
        Ok(self.saw(answer.header.as_ref()))
    }

    /// One key.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn get(&self, key: &str) -> Result<Option<KeyValue>, EtcdError> {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let answer = self.range(RangeRequest { key, ..RangeRequest::default() }).await?;
        self.saw(answer.header.as_ref());
        Ok(answer.kvs.into_iter().find_map(key_value))
    }

    /// All keys that begin with the prefix, however many, as of one revision.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn read(&self, prefix: &str) -> Result<Snapshot, EtcdError> {
        self.read_span(&Span::prefix(prefix)).await
    }

    pub(crate) async fn read_span(&self, span: &Span) -> Result<Snapshot, EtcdError> {
        let mut attempt = 1;
        loop {
            match self.read_once(span).await {
                Err(EtcdError::Compacted) if attempt < READ_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn read_once(&self, span: &Span) -> Result<Snapshot, EtcdError> {
        let mut snapshot = Snapshot { revision: 0, entries: Vec::new() };
        let mut page = PAGE;
        let mut key = span.from.clone();
        loop {
            let request = RangeRequest {
                key: key.clone(),
                range_end: span.end.clone(),
                limit: page,
                revision: signed(snapshot.revision),
                keys_only: false,
            };
            let answer = match self.range(request).await {
                Err(EtcdError::Refused(reason)) if page > 1 && reason.contains(TOO_LARGE) => {
                    page = (page / 8).max(1);
                    continue;
                }
                answer => answer?,
            };
            let newest = self.saw(answer.header.as_ref());
            if snapshot.revision == 0 {
                snapshot.revision = newest;
                self.has_read(&span.from);
            }
            let last = answer.kvs.last().map(|last| last.key.clone());
            snapshot.entries.extend(answer.kvs.into_iter().filter_map(key_value));
            match last {
                Some(last) if answer.more => key = successor(&last),
                _ => return Ok(snapshot),
            }
        }
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        let answer = self
            .call(Repeat::Harmless, request, |channel, request| async move {
                client(channel).range(request).await
            })
            .await?;
        Ok(answer.into_inner())
    }

    /// Writes all or, if a guard does not hold, nothing. After an error it may be written or not.
    ///
    /// # Errors
    /// When etcd does not answer in time or refuses, for example because a lease is gone.
    pub async fn transact(&self, guards: &[Guard], writes: &[Write]) -> Result<Outcome, EtcdError> {
        let mut request = TxnRequest {
            compare: guards.iter().map(compare).collect(),
            success: writes.iter().map(operation).collect(),
            failure: Vec::new(),
        };
        // A transaction that does nothing is answered by a member alone, from what it happens to know; one that reads
        // is agreed on.
        if let (Some(guard), []) = (guards.first(), writes) {
            let key = Bytes::copy_from_slice(guard.key.as_bytes());
            let range = RangeRequest { key, limit: 1, keys_only: true, ..RangeRequest::default() };
            let read = RequestOp { request: Some(Request::RequestRange(range)) };
            request.success = vec![read.clone()];
            request.failure = vec![read];
        }
        let repeat = if writes.is_empty() { Repeat::Harmless } else { Repeat::Never };
        let answer = self
            .call(repeat, request, |channel, request| async move { client(channel).txn(request).await })
            .await?
            .into_inner();
        let revision = self.saw(answer.header.as_ref());
        Ok(if answer.succeeded { Outcome::Committed { revision } } else { Outcome::Refused { revision } })
    }
}

/// What the decoder says of an answer beyond [`MAX_ANSWER`].
const TOO_LARGE: &str = "message length too large";

fn client(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MAX_ANSWER)
}

fn compare(guard: &Guard) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: Bytes::copy_from_slice(guard.key.as_bytes()),
        target_union: Some(TargetUnion::ModRevision(signed(guard.modified))),
    }
}

fn operation(write: &Write) -> RequestOp {
    let request = match write {
        Write::Put { key, value, lease } => Request::RequestPut(PutRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: value.clone(),
            lease: lease.unwrap_or(0),
        }),
        Write::Delete { key } => {
            Request::RequestDeleteRange(DeleteRangeRequest { key: Bytes::copy_from_slice(key.as_bytes()) })
        }
    };
    RequestOp { request: Some(request) }
}

/// A key as we hold it; `None` if it is no text.
pub(crate) fn key_value(found: mvccpb::KeyValue) -> Option<KeyValue> {
    let key = String::from_utf8(found.key.into()).ok()?;
    Some(KeyValue { key, value: found.value, modified: revision(found.mod_revision), lease: found.lease })
}

/// The keys from one up to, not including, another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: Bytes,
    /// Empty for one key alone; a zero byte for all that follow.
    pub(crate) end: Bytes,
}

impl Span {
    /// All keys that begin with it.
    pub(crate) fn prefix(prefix: &str) -> Self {
        if prefix.is_empty() {
            return Self { from: Bytes::from_static(b"\0"), end: Bytes::from_static(b"\0") };
        }
        let mut end = prefix.as_bytes().to_vec();
        // Text has no byte 0xff, so the last one always has a next.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { from: Bytes::copy_from_slice(prefix.as_bytes()), end: end.into() }
    }

    /// One key.
    pub(crate) fn key(key: &str) -> Self {
        Self { from: Bytes::copy_from_slice(key.as_bytes()), end: Bytes::new() }
    }
}

/// The first key behind this one.
fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_spans_what_begins_with_it() {
        let span = Span::prefix("/kafka/");
        assert_eq!((&span.from[..], &span.end[..]), (&b"/kafka/"[..], &b"/kafka0"[..]));
        let all = Span::prefix("");
        assert_eq!((&all.from[..], &all.end[..]), (&b"\0"[..], &b"\0"[..]));
        assert_eq!(&Span::prefix("\u{10ffff}").end[..], b"\xf4\x8f\xbf\xc0");
    }

    #[test]
    fn nothing_lies_between_a_key_and_its_successor() {
        assert_eq!(&successor(b"a")[..], b"a\0");
    }

    #[test]
    fn a_key_that_is_no_text_is_left_out() {
        let found = mvccpb::KeyValue { key: Bytes::from_static(b"\xff"), ..mvccpb::KeyValue::default() };
        assert_eq!(key_value(found), None);
    }
}
