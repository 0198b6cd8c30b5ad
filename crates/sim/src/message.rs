//! What travels between a consumer, a gateway and the broker, reduced to what groups are about.

use coordination::error_code::ErrorCode;
use coordination::{op, reply};

use crate::consumer_protocol::Partition;

/// An op as both ends of a rail know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The rail. One that was cut never comes back; the next has another number.
    pub link: u64,
    /// Which lane of it the op, its cancelling and its answer take.
    pub lane: usize,
    /// The gateway's own number for it.
    pub number: u64,
}

/// On whose behalf an op is asked.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// What the client calls itself.
    pub client_id: String,
    /// The client's address.
    pub host: String,
}

/// What a consumer asks.
#[derive(Clone, Debug)]
pub enum Request {
    /// Who coordinates the group; with one broker the answer only proves that it is there.
    FindCoordinator,
    /// Joins.
    Join(op::JoinGroup),
    /// Asks for its assignment.
    Sync(op::SyncGroup),
    /// Is still there.
    Heartbeat(op::Heartbeat),
    /// Leaves.
    Leave(op::LeaveGroup),
    /// Says how far it has read.
    Commit(Commit),
    /// Asks how far the group has read.
    Fetch(Fetch),
}

/// Offsets to remember.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The group's id.
    pub group: String,
    /// The generation of the member that commits; -1 for one that is no member.
    pub generation: i32,
    /// The member's id, or empty.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// The offsets.
    pub offsets: Vec<Committed>,
}

/// One offset. The metadata is different for every commit of a run, so that each can be told from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The partition.
    pub partition: Partition,
    /// The offset.
    pub offset: i64,
    /// What is remembered with it.
    pub metadata: String,
}

/// Offsets that are asked for.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The group's id.
    pub group: String,
    /// The partitions.
    pub partitions: Vec<Partition>,
}

/// What the broker answers.
#[derive(Clone, Debug)]
pub enum Response {
    /// Here it is, unless there is something wrong.
    Coordinator(Option<ErrorCode>),
    /// See [`Request::Join`].
    Join(reply::JoinGroup),
    /// See [`Request::Sync`].
    Sync(reply::SyncGroup),
    /// See [`Request::Heartbeat`].
    Heartbeat(reply::Heartbeat),
    /// See [`Request::Leave`].
    Leave(reply::LeaveGroup),
    /// What is wrong with the commit, if anything; here all partitions fare alike.
    Commit(Option<ErrorCode>),
    /// The offsets that there are; partitions without one are missing.
    Fetch(Result<Vec<Committed>, ErrorCode>),
}

impl Request {
    /// The group that is spoken of.
    pub fn group(&self) -> &str {
        match self {
            Self::FindCoordinator => "",
            Self::Join(op) => &op.group,
            Self::Sync(op) => &op.group,
            Self::Heartbeat(op) => &op.group,
            Self::Leave(op) => &op.group,
            Self::Commit(op) => &op.group,
            Self::Fetch(op) => &op.group,
        }
    }

    /// Whether it is a join or a sync of this member.
    pub fn is_of(&self, group: &str, member_id: &str) -> bool {
        match self {
            Self::Join(op) => op.group == group && op.member_id == member_id,
            Self::Sync(op) => op.group == group && op.member_id == member_id,
            _ => false,
        }
    }

    /// Whether it takes effect at once, so that the next request of the connection need not wait for its reply.
    pub fn may_overlap(&self) -> bool {
        matches!(self, Self::Heartbeat(_) | Self::Commit(_))
    }

    /// The answer that says only what is wrong.
    pub fn refusal(&self, error: ErrorCode) -> Response {
        match self {
            Self::FindCoordinator => Response::Coordinator(Some(error)),
            Self::Join(op) => {
                Response::Join(reply::JoinGroup { member_id: op.member_id.clone(), result: Err(error) })
            }
            Self::Sync(_) => Response::Sync(reply::SyncGroup { result: Err(error) }),
            Self::Heartbeat(_) => Response::Heartbeat(reply::Heartbeat { error: Some(error) }),
            Self::Leave(_) => Response::Leave(reply::LeaveGroup { result: Err(error) }),
            Self::Commit(_) => Response::Commit(Some(error)),
            Self::Fetch(_) => Response::Fetch(Err(error)),
        }
    }

    /// The request in a few words, for a trace.
    pub fn summary(&self) -> String {
        match self {
            Self::FindCoordinator => "FindCoordinator".to_owned(),
            Self::Join(op) => format!(
                "Join {} member={:?}{} session={} rebalance={} protocols={:?}{}",
                op.group,
                op.member_id,
                instance(op.instance_id.as_deref()),
                op.session_timeout_ms,
                op.rebalance_timeout_ms,
                op.protocols.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                if op.takes_member_id_first { "" } else { " old" },
            ),
            Self::Sync(op) => format!(
                "Sync {} generation={} member={}{} assignments={}",
                op.group,
                op.generation,
                op.member_id,
                instance(op.instance_id.as_deref()),
                op.assignments.len()
            ),
            Self::Heartbeat(op) => format!(
                "Heartbeat {} generation={} member={}{}",
                op.group,
                op.generation,
                op.member_id,
                instance(op.instance_id.as_deref())
            ),
            Self::Leave(op) => format!(
                "Leave {} {:?}",
                op.group,
                op.members.iter().map(|it| (&it.member_id, &it.instance_id)).collect::<Vec<_>>()
            ),
            Self::Commit(op) => format!(
                "Commit {} generation={} member={:?}{} {}",
                op.group,
                op.generation,
                op.member_id,
                instance(op.instance_id.as_deref()),
                offsets(&op.offsets)
            ),
            Self::Fetch(op) => format!("Fetch {} {:?}", op.group, op.partitions),
        }
    }
}

impl Response {
    /// What is wrong, if anything.
    pub fn error(&self) -> Option<ErrorCode> {
        match self {
            Self::Coordinator(error) => *error,
            Self::Join(reply) => reply.result.as_ref().err().copied(),
            Self::Sync(reply) => reply.result.as_ref().err().copied(),
            Self::Heartbeat(reply) => reply.error,
            Self::Leave(reply) => match &reply.result {
                Ok(members) => members.iter().find_map(|it| it.error),
                Err(error) => Some(*error),
            },
            Self::Commit(error) => *error,
            Self::Fetch(found) => found.as_ref().err().copied(),
        }
    }

    /// Whether somebody is told that it is not, or not any more, who it says it is.
    pub fn is_fenced(&self) -> bool {
        let fenced = [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration, ErrorCode::FencedInstanceId];
        self.error().is_some_and(|error| fenced.contains(&error))
    }

    /// The answer in a few words, for a trace.
    pub fn summary(&self) -> String {
        match self {
            Self::Coordinator(None) => "Coordinator".to_owned(),
            Self::Coordinator(Some(error)) => format!("Coordinator {error}"),
            Self::Join(reply) => match &reply.result {
                Ok(joined) => format!(
                    "Join member={} generation={} leader={} members={}{}",
                    reply.member_id,
                    joined.generation,
                    joined.leader,
                    joined.members.len(),
                    if joined.skip_assignment { " skip" } else { "" }
                ),
                Err(error) => format!("Join member={:?} {error}", reply.member_id),
            },
            Self::Sync(reply) => match &reply.result {
                Ok(synced) => {
                    format!("Sync {:?}", crate::consumer_protocol::decode_assignment(&synced.assignment))
                }
                Err(error) => format!("Sync {error}"),
            },
            Self::Heartbeat(reply) => match reply.error {
                None => "Heartbeat".to_owned(),
                Some(error) => format!("Heartbeat {error}"),
            },
            Self::Leave(reply) => match &reply.result {
                Ok(members) => format!("Leave {:?}", members.iter().map(|it| it.error).collect::<Vec<_>>()),
                Err(error) => format!("Leave {error}"),
            },
            Self::Commit(None) => "Commit".to_owned(),
            Self::Commit(Some(error)) => format!("Commit {error}"),
            Self::Fetch(Ok(found)) => format!("Fetch {}", offsets(found)),
            Self::Fetch(Err(error)) => format!("Fetch {error}"),
        }
    }
}

fn instance(id: Option<&str>) -> String {
    id.map_or_else(String::new, |id| format!(" instance={id}"))
}

fn offsets(offsets: &[Committed]) -> String {
    let each: Vec<String> = offsets
        .iter()
        .map(|it| format!("{}-{}={}({})", it.partition.0, it.partition.1, it.offset, it.metadata))
        .collect();
    format!("[{}]", each.join(" "))
}
