//! What is said to the assigner, and what it says.

use std::time::Duration;

use tokio::time::timeout;
use tonic::metadata::errors::InvalidMetadataValue;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::machine::{Answer, Command, Failure, FailureKind, Handoff, Request, Snapshot};
use crate::partition::Partition;
use crate::proto;
use crate::proto::assignment_command::Command as Sent;
use crate::proto::kafka_assigner_client::KafkaAssignerClient;

/// The key of the metadata under which the assigner names the kind of a refusal.
pub const REFUSAL: &str = "kohort-refusal";
/// The largest message that is read: what 10,000 partitions with the longest names take, four times.
const MESSAGE_SIZE_MAX: usize = 16 * 1024 * 1024;

/// A connection to one instance. Clones share.
pub(crate) type Client = KafkaAssignerClient<InterceptedService<Channel, Token>>;

/// Shows the token, if there is one, with every request.
#[derive(Clone, Debug, Default)]
pub struct Token(Option<MetadataValue<Ascii>>);

impl Token {
    /// This token, which is kept out of what is printed.
    ///
    /// # Errors
    /// When it has characters that cannot be sent.
    pub fn new(token: &str) -> Result<Self, InvalidMetadataValue> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse()?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

pub(crate) fn client(channel: Channel, token: Token) -> Client {
    KafkaAssignerClient::with_interceptor(channel, token).max_decoding_message_size(MESSAGE_SIZE_MAX)
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) consumer_name: String,
    pub(crate) group: String,
    pub(crate) session: String,
}

/// Asks, and waits for the answer for so long.
pub(crate) async fn ask(
    mut client: Client,
    identity: Identity,
    request: Request,
    within: Duration,
) -> Result<Answer, Failure> {
    let answer = timeout(within, call(&mut client, identity, request));
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(failure(&status)),
        Err(_) => Err(late(within)),
    }
}

async fn call(client: &mut Client, identity: Identity, request: Request) -> Result<Answer, Status> {
    let Identity { consumer_name, group, session } = identity;
    Ok(match request {
        Request::KeepAlive => {
            let request = proto::KeepAliveRequest { consumer_name, group, session };
            let answer = client.keep_alive(request).await?.into_inner();
            Answer::Alive { lease_ttl: Duration::from_millis(answer.lease_ttl_ms) }
        }
        Request::Ready { partition, handoff: Handoff { id: handoff_id, epoch } } => {
            let partition = Some(partition.encode());
            let request =
                proto::PartitionReadyRequest { consumer_name, partition, group, session, handoff_id, epoch };
            client.partition_ready(request).await?;
            Answer::Done
        }
        Request::Released { partition, handoff: Handoff { id: handoff_id, epoch } } => {
            let partition = Some(partition.encode());
            let request = proto::PartitionReleasedRequest {
                consumer_name,
                partition,
                group,
                session,
                handoff_id,
                epoch,
            };
            client.partition_released(request).await?;
            Answer::Done
        }
        Request::Progress { partition, handoff: Handoff { id: handoff_id, epoch }, done, total } => {
            let partition = Some(partition.encode());
            let request = proto::WarmProgressRequest {
                consumer_name,
                partition,
                group,
                session,
                handoff_id,
                epoch,
                done,
                total,
            };
            client.warm_progress(request).await?;
            Answer::Done
        }
        Request::Deregister { has_stopped } => {
            let request = proto::DeregisterRequest { consumer_name, group, session, has_stopped };
            match client.deregister(request).await?.into_inner().action() {
                proto::DeregisterAction::ShutdownNow => Answer::ShutDownNow,
                proto::DeregisterAction::WaitForDrain | proto::DeregisterAction::Unspecified => {
                    Answer::WaitForDrain
                }
            }
        }
    })
}

/// Reads a command. One of a kind that this version does not know, or without its partition, says nothing.
pub(crate) fn decode(command: proto::AssignmentCommand) -> Option<Command> {
    match command.command? {
        Sent::Assignment(sent) => {
            let epochs = sent.epochs.iter().copied().chain(std::iter::repeat(0));
            let assigned = sent.assigned.iter().map(Partition::decode).zip(epochs).collect();
            let unassigned = sent.unassigned.iter().map(Partition::decode).collect();
            let snapshot = sent.is_snapshot.then(|| Snapshot {
                lease_ttl: Duration::from_millis(sent.lease_ttl_ms),
                keep_alive_interval: Duration::from_millis(sent.keep_alive_interval_ms),
            });
            Some(Command::Assignment { assigned, unassigned, snapshot })
        }
        Sent::Warm(sent) => Some(Command::Warm {
            partition: Partition::decode(&sent.partition?),
            handoff: Handoff { id: sent.handoff_id, epoch: sent.epoch },
            current_owner: sent.current_owner,
        }),
        Sent::Release(sent) => Some(Command::Release {
            partition: Partition::decode(&sent.partition?),
            handoff: Handoff { id: sent.handoff_id, epoch: sent.epoch },
            new_owner: sent.new_owner,
        }),
        Sent::Cancel(sent) => {
            Some(Command::Cancel { partition: Partition::decode(&sent.partition?), id: sent.handoff_id })
        }
    }
}

/// What a status says about a call.
pub(crate) fn failure(status: &Status) -> Failure {
    let refusal = status.metadata().get(REFUSAL).and_then(|kind| kind.to_str().ok());
    let kind = match (refusal, status.code()) {
        (Some("fenced"), _) => FailureKind::Fenced,
        (Some("unknown-consumer" | "unregistered"), _) | (None, Code::NotFound) => FailureKind::Unregistered,
        // Proxies drop metadata that they do not know.
        (None, Code::Aborted) if status.message().contains("another process") => FailureKind::Fenced,
        (None, Code::InvalidArgument | Code::Unimplemented) => FailureKind::Hopeless,
        (None, Code::FailedPrecondition | Code::OutOfRange | Code::AlreadyExists) => FailureKind::Refused,
        (Some(_), Code::FailedPrecondition | Code::PermissionDenied) => FailureKind::Refused,
        // A token that is not accepted may be known tomorrow. Until then the lease decides.
        _ => FailureKind::Later,
    };
    Failure { kind, message: format!("{:?}: {}", status.code(), status.message()) }
}

/// What a status says about the stream.
pub(crate) fn stream_failure(status: &Status) -> Failure {
    let Failure { kind, message } = failure(status);
    let kind = match (kind, status.code()) {
        (_, Code::PermissionDenied | Code::Unauthenticated) => FailureKind::Hopeless,
        // Without a kind it may be about the topic, which does not exist yet.
        (FailureKind::Unregistered, _) if status.metadata().get(REFUSAL).is_none() => FailureKind::Later,
        (kind, _) => kind,
    };
    Failure { kind, message }
}

pub(crate) fn late(within: Duration) -> Failure {
    Failure { kind: FailureKind::Later, message: format!("no answer within {within:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_tells_a_lost_registration_from_a_topic_that_is_not_there() {
        let of_kind = |code, kind: &'static str| {
            let mut status = Status::new(code, "no");
            status.metadata_mut().insert(REFUSAL, MetadataValue::from_static(kind));
            stream_failure(&status).kind
        };
        assert_eq!(of_kind(Code::Unavailable, "unregistered"), FailureKind::Unregistered);
        assert_eq!(of_kind(Code::NotFound, "unknown-consumer"), FailureKind::Unregistered);
        assert_eq!(of_kind(Code::NotFound, "unknown-topic"), FailureKind::Later);
        assert_eq!(stream_failure(&Status::not_found("no topic t")).kind, FailureKind::Later);
        assert_eq!(failure(&Status::not_found("who?")).kind, FailureKind::Unregistered);
        assert_eq!(stream_failure(&Status::unavailable("stops")).kind, FailureKind::Later);
    }
}
