//! The requests about groups and their members, each with its answer. Those about offsets are in
//! [`super::offset_requests`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use ulid::Ulid;

use coordination::error_code::ErrorCode;
use coordination::group::{Caller, KAFKA_TEXT_MAX, Minted, Room, Ticket};
use coordination::ids::{GroupId, OrgId};
use coordination::op;
use coordination::reply::{self, Reply};
use rail::{Answer, Carrier, Durable, Gated};

use super::BrokerLimit;
use super::Groups;
use super::gathering::Split;
use super::refusals::{describe_refused, not_coordinator};
use super::shard::GroupShard;
use super::step::{NotReady, Step, Stepped};
use super::telling::Telling;
use crate::share::{Limit, Share};

impl Groups {
    /// A member joins, or joins again.
    pub(crate) fn join(&self, carrier: &Carrier, op: op::JoinGroup) -> Answer {
        let refused = |member_id: String, code| {
            Reply::JoinGroup(reply::JoinGroup { member_id, result: Err(code) }).into()
        };
        if let Some(code) = bad_id(&op.group).or_else(|| self.bad_session(op.session_timeout_ms)) {
            return refused(op.member_id, code);
        }
        let Some(shard) = self.shard(carrier.org(), &op.group) else {
            return refused(op.member_id, ErrorCode::NotCoordinator);
        };
        let member_id = op.member_id.clone();
        let refusal = Reply::JoinGroup(reply::JoinGroup {
            member_id: op.member_id.clone(),
            result: Err(ErrorCode::NotCoordinator),
        });
        let host = format!("/{}", carrier.host());
        let broker = self.shared.room();
        let room = shard.share.within(broker);
        let answer = self.park(&shard, refusal, |step, ticket| {
            let caller = Caller { client_id: carrier.client_id().map_or("", |id| id), host: &host };
            let minted = Minted { member: rand::random(), group: mint_group(step.now.wall_ms) };
            step.machine.handle_join(step.now, ticket, &op, caller, minted, room, step.effects);
        });
        if let Ok(Answer::Now(Reply::JoinGroup(reply::JoinGroup { result: Err(code), .. }))) = &answer {
            self.tell_limit(&shard.share, *code, broker);
        }
        answer.unwrap_or_else(|code| refused(member_id, code))
    }

    /// A member wants its assignment, or brings everybody's.
    pub(crate) fn sync(&self, carrier: &Carrier, op: &op::SyncGroup) -> Answer {
        let refused = |code| Reply::SyncGroup(reply::SyncGroup { result: Err(code) });
        if op.must_name_protocol && (op.protocol_type.is_none() || op.protocol.is_none()) {
            return refused(ErrorCode::InconsistentGroupProtocol).into();
        }
        if let Some(code) = bad_id(&op.group) {
            return refused(code).into();
        }
        let Some(shard) = self.shard(carrier.org(), &op.group) else {
            return refused(ErrorCode::NotCoordinator).into();
        };
        let room = self.shared.room();
        let answer = self.park(&shard, refused(ErrorCode::NotCoordinator), |step, ticket| {
            step.machine.handle_sync(step.now, ticket, op, room, step.effects);
        });
        if let Ok(Answer::Now(Reply::SyncGroup(reply::SyncGroup { result: Err(code) }))) = &answer {
            self.tell_limit(&shard.share, *code, room);
        }
        answer.unwrap_or_else(|code| refused(code).into())
    }

    /// A member is still there.
    pub(crate) fn heartbeat(&self, carrier: &Carrier, op: &op::Heartbeat) -> Answer {
        let error = bad_id(&op.group).or_else(|| {
            // Nothing is cloned and nothing waits: this is what clients ask most.
            let orgs = self.orgs.read();
            match Self::shard_in(&orgs, carrier.org(), &op.group) {
                Some(shard) => shard.heartbeat(op),
                None => Some(ErrorCode::NotCoordinator),
            }
        });
        Reply::Heartbeat(reply::Heartbeat { error }).into()
    }

    /// Members leave.
    pub(crate) fn leave(&self, carrier: &Carrier, op: &op::LeaveGroup) -> Answer {
        let refused = |code| Reply::LeaveGroup(reply::LeaveGroup { result: Err(code) }).into();
        if let Some(code) = bad_id(&op.group) {
            return refused(code);
        }
        let Some(shard) = self.shard(carrier.org(), &op.group) else {
            return refused(ErrorCode::NotCoordinator);
        };
        let host = format!("/{}", carrier.host());
        let left = shard.step(Split::Anywhere, |step| {
            let caller = Caller { client_id: carrier.client_id().map_or("", |id| id), host: &host };
            step.machine.handle_leave(step.now, op, caller, step.effects)
        });
        match left {
            Ok(Stepped { value, until }) => gated(Reply::LeaveGroup(value), until),
            Err(not_ready) => refused(not_ready.code()),
        }
    }

    /// Which groups there are.
    pub(crate) fn list(&self, org: OrgId, op: &op::ListGroups) -> Answer {
        let mut groups = Vec::new();
        let mut waiting = Vec::new();
        for shard in self.of(org).iter() {
            match shard.look(|machine| machine.list(op, &mut groups)) {
                Ok(Stepped { until, .. }) => waiting.extend(until),
                Err(NotReady::Loading) => {
                    let result = Err(ErrorCode::CoordinatorLoadInProgress);
                    return Reply::ListGroups(reply::ListGroups { result }).into();
                }
                // As in Kafka, what is not coordinated here is not listed here.
                Err(NotReady::Gone) => {}
            }
        }
        groups.sort_by(|a, b| a.group.cmp(&b.group));
        let reply = Reply::ListGroups(reply::ListGroups { result: Ok(groups) });
        if waiting.is_empty() {
            return reply.into();
        }
        Answer::Later(Box::pin(async move {
            for until in waiting {
                if until.await.is_err() {
                    return not_coordinator(reply);
                }
            }
            reply
        }))
    }

    /// Groups with their members.
    pub(crate) fn describe(&self, org: OrgId, op: op::DescribeGroups) -> Answer {
        let mut waiting = Vec::new();
        let mut groups = Vec::with_capacity(op.groups.len());
        let mut telling = Telling::new(&self.shared);
        for group in op.groups {
            let described = match self.shard(org, &group) {
                _ if telling.is_over() => Err(ErrorCode::PolicyViolation),
                Some(shard) => {
                    shard.look(|machine| machine.describe(&group)).map_err(|not_ready| not_ready.code())
                }
                None => Err(ErrorCode::NotCoordinator),
            };
            match described {
                Ok(Stepped { value, .. }) if !telling.may_describe(&value) => {
                    groups.push(describe_refused(group, ErrorCode::PolicyViolation));
                }
                Ok(Stepped { value, until }) => {
                    waiting.extend(until.map(|until| (groups.len(), until)));
                    groups.push(value);
                }
                Err(code) => groups.push(describe_refused(group, code)),
            }
        }
        all_gated(
            groups,
            waiting,
            |groups| Reply::DescribeGroups(reply::DescribeGroups { groups }),
            |group| {
                *group = describe_refused(std::mem::take(&mut group.group), ErrorCode::NotCoordinator);
            },
        )
    }

    /// Groups to remove.
    pub(crate) fn delete(&self, org: OrgId, op: op::DeleteGroups) -> Answer {
        let mut waiting = Vec::new();
        let mut groups: Vec<(String, Option<ErrorCode>)> = Vec::with_capacity(op.groups.len());
        let mut seen = std::collections::BTreeSet::new();
        for group in op.groups {
            if !seen.insert(group.clone()) {
                continue;
            }
            let deleted = match self.shard(org, &group) {
                Some(shard) => shard
                    .step(Split::Anywhere, |step| {
                        step.machine.handle_delete_group(step.now, &group, step.effects)
                    })
                    .map_err(|not_ready| not_ready.code()),
                None => Err(ErrorCode::NotCoordinator),
            };
            let error = match deleted {
                Ok(Stepped { value, until }) => {
                    waiting.extend(until.map(|until| (groups.len(), until)));
                    value
                }
                Err(code) => Some(code),
            };
            groups.push((group, error));
        }
        all_gated(
            groups,
            waiting,
            |groups| Reply::DeleteGroups(reply::DeleteGroups { groups }),
            |(_, error)| {
                error.get_or_insert(ErrorCode::NotCoordinator);
            },
        )
    }

    /// Hands a request that may have to wait to the machine, under a new ticket.
    fn park(
        &self,
        shard: &Arc<GroupShard>,
        refusal: Reply,
        work: impl FnOnce(&mut Step<'_>, Ticket),
    ) -> Result<Answer, ErrorCode> {
        // A broker that ends begins no rebalance: those who waited have been sent away, and the machine does not know.
        if self.shared.is_draining() {
            return Err(ErrorCode::NotCoordinator);
        }
        let ticket = self.shared.next_ticket();
        let (sender, mut receiver) = oneshot::channel();
        shard
            .step(Split::Anywhere, |step| {
                step.park(ticket, sender, refusal);
                work(step, ticket);
            })
            .map_err(|not_ready| not_ready.code())?;
        Ok(match receiver.try_recv() {
            Ok(reply) => Answer::Now(reply),
            Err(_) => Answer::Later(Box::pin(ParkedReply { shard: Arc::clone(shard), ticket, receiver })),
        })
    }

    /// Logs which limit is met, the organisation's or the broker's, if that is why a request was refused: the answers to
    /// joins and commits have no room for words.
    pub(super) fn tell_limit(&self, share: &Share, code: ErrorCode, broker: Room) {
        let room = share.within(broker);
        let now = Duration::from_millis(self.shared.clock.at().as_millis());
        match code {
            ErrorCode::PolicyViolation if broker.groups == 0 => {
                self.shared.tell_broker_limit(now, BrokerLimit::Groups);
            }
            ErrorCode::PolicyViolation if room.groups == 0 => share.tell(now, Limit::Groups),
            ErrorCode::PolicyViolation => self.shared.tell_broker_limit(now, BrokerLimit::Bytes),
            ErrorCode::GroupMaxSizeReached if room.members == 0 => share.tell(now, Limit::Members),
            _ => {}
        }
    }

    /// Whether Kafka refuses the session timeout before it looks for the group.
    fn bad_session(&self, session_timeout_ms: i32) -> Option<ErrorCode> {
        let settings = self.shared.settings.read();
        let machine = &settings.machine;
        let asked = Duration::from_millis(u64::try_from(session_timeout_ms).unwrap_or(0));
        let bounds = machine.session_timeout_min..=machine.session_timeout_max;
        (session_timeout_ms < 0 || !bounds.contains(&asked)).then_some(ErrorCode::InvalidSessionTimeout)
    }
}

/// The answer to a request that the machine has not answered yet.
struct ParkedReply {
    shard: Arc<GroupShard>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Reply>,
}

impl Future for ParkedReply {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|reply| reply.expect("a parked request is answered, by the machine or with a refusal"))
    }
}

impl Drop for ParkedReply {
    /// The client has gone: nothing of it is kept here, but it stays a member until its session ends.
    fn drop(&mut self) {
        if !self.receiver.is_terminated() {
            self.shard.forget(self.ticket);
        }
    }
}

/// What is wrong with the id of a group that is to have members.
pub(super) fn bad_id(group: &str) -> Option<ErrorCode> {
    // Kafka's records have no room for longer ones.
    (group.is_empty() || group.len() > KAFKA_TEXT_MAX).then_some(ErrorCode::InvalidGroupId)
}

pub(super) fn mint_group(wall_ms: i64) -> GroupId {
    Ulid::from_parts(u64::try_from(wall_ms).unwrap_or(0), rand::random()).into()
}

/// The reply, when what it rests on is durable.
pub(super) fn gated(reply: Reply, until: Option<Durable>) -> Answer {
    match until {
        None => Answer::Now(reply),
        Some(until) => Answer::Gated(Gated::new(until, reply, not_coordinator)),
    }
}

/// The reply about several groups, when what it says of each is durable. Those whose shard is dropped before are
/// refused one by one.
pub(super) fn all_gated<T: Send + 'static>(
    mut groups: Vec<T>,
    waiting: Vec<(usize, Durable)>,
    reply: fn(Vec<T>) -> Reply,
    refuse: fn(&mut T),
) -> Answer {
    if waiting.is_empty() {
        return reply(groups).into();
    }
    Answer::Later(Box::pin(async move {
        for (place, until) in waiting {
            if until.await.is_err() {
                refuse(&mut groups[place]);
            }
        }
        reply(groups)
    }))
}
