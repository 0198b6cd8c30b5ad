//! One watch, on one member.

use std::sync::Arc;

use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::client::{Repeat, signed};
use crate::error::{Verdict, judge};
use crate::keys::{MAX_ANSWER, Span};
use crate::members::Member;
use crate::proto::etcdserverpb::watch_client::WatchClient;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use crate::{Etcd, EtcdError};

/// How many questions may wait to be sent.
const QUESTIONS: usize = 4;

/// A stream of what happens to some keys from a revision on. It ends when the member is cut off from the others.
#[derive(Debug)]
pub(crate) struct Watch {
    questions: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    member: Arc<Member>,
}

impl Watch {
    /// Begins with all that happened at this revision and after it.
    pub(crate) async fn open(etcd: &Etcd, span: &Span, start: u64) -> Result<Self, EtcdError> {
        let request = WatchCreateRequest {
            key: span.from.clone(),
            range_end: span.end.clone(),
            start_revision: signed(start),
            progress_notify: true,
            fragment: true,
        };
        let (stream, member) = etcd.call_member(Repeat::Harmless, request, create).await?;
        let (questions, answers) = stream;
        Ok(Self { questions, answers, member })
    }

    /// What comes next. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        let status = match self.answers.message().await {
            Ok(Some(answer)) => {
                self.member.has_answered();
                refuse_cancelled(&answer).map(|()| answer)
            }
            Ok(None) => Err(Status::unavailable("the watch has ended")),
            Err(status) => Err(status),
        };
        status.map_err(|status| {
            let endpoint = self.member.name();
            match judge(&status) {
                Verdict::Final(error) => error,
                Verdict::NotSent(reason) | Verdict::NoLeader(reason) | Verdict::Failed(reason) => {
                    EtcdError::Failed { endpoint, reason }
                }
                Verdict::StaleToken => {
                    EtcdError::Failed { endpoint, reason: "the token is not known any more".to_owned() }
                }
            }
        })
    }

    /// Asks for an answer that tells how far the watch is. There is none while it is behind.
    pub(crate) fn ask_how_far(&self) {
        let question = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // If there is no room, enough has been asked.
        let _ = self.questions.try_send(WatchRequest { request_union: Some(question) });
    }

    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.member
    }
}

type Opened = (mpsc::Sender<WatchRequest>, Streaming<WatchResponse>);

async fn create(channel: Channel, request: Request<WatchCreateRequest>) -> Result<Opened, Status> {
    let (questions, receiver) = mpsc::channel(QUESTIONS);
    let (metadata, extensions, message) = request.into_parts();
    let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(message)) };
    // etcd says nothing at all before it has read this.
    let _ = questions.try_send(first);
    let request = Request::from_parts(metadata, extensions, ReceiverStream::new(receiver));
    let mut client = WatchClient::new(channel).max_decoding_message_size(MAX_ANSWER);
    let mut answers = client.watch(request).await?.into_inner();
    let Some(first) = answers.message().await? else {
        return Err(Status::unavailable("the watch ended before it began"));
    };
    refuse_cancelled(&first)?;
    Ok((questions, answers))
}

/// etcd ends a watch by an answer and leaves the stream open.
fn refuse_cancelled(answer: &WatchResponse) -> Result<(), Status> {
    if answer.compact_revision != 0 {
        return Err(Status::out_of_range("compacted"));
    }
    if !answer.canceled {
        return Ok(());
    }
    let reason = &answer.cancel_reason;
    Err(if reason.contains("permission denied") {
        Status::permission_denied(reason)
    } else if reason.contains("invalid auth token") || reason.contains("user name is empty") {
        Status::unauthenticated(reason)
    } else {
        Status::unavailable(format!("the watch was cancelled: {reason}"))
    })
}
