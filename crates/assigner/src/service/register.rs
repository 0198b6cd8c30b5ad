//! Consumers that register, say that they live, and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use assigner_client::proto;
use coordination::handoff::{
    Change, Consumer, ConsumerName, Deregistered, Entry, Key, Refusal, SessionId, Step, TopicName,
    check_consumer, deregister, gone, register,
};
use etcd::LeaseId;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::clock::now_ms;
use crate::groups::{Group, GroupId, SettleError};
use crate::settings::millis;
use crate::topics::TopicError;

use super::limits::{GROUPS_MAX, LEASE_MS_MAX};
use super::message::{self, VERSION_WITH_SESSIONS};
use super::stream::{CommandStream, Follower};
use super::waiting::{Begun, Waiting};
use super::{Service, refusal};

/// A consumer that is registered.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub(super) group: GroupId,
    pub(super) name: ConsumerName,
    pub(super) session: SessionId,
    pub(super) protocol_version: u32,
    pub(super) lease: Lease,
    /// When the lease was asked for.
    pub(super) granted: Instant,
    /// When all processes that had the name before must have stopped.
    pub(super) alone_at: Instant,
}

/// The lease of a consumer's key.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) ttl: Duration,
    /// How often it is renewed.
    pub(super) keep_alive_interval: Duration,
}

impl Registration {
    /// Whether its lease is renewed by its own calls and by nothing else.
    pub(super) fn renews_by_itself(&self) -> bool {
        self.protocol_version >= VERSION_WITH_SESSIONS
    }
}

impl Service {
    /// Registers a consumer and begins to tell it what it has to know.
    pub(super) async fn admit(&self, request: &proto::RegisterRequest) -> Result<CommandStream, Status> {
        let (group, name, consumer) = newcomer(request)?;
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            return Err(Status::resource_exhausted(
                "this instance has too many consumers; register with another",
            ));
        };
        if *self.stop.borrow() {
            return Err(Status::unavailable("this instance of the assigner stops; register with another"));
        }
        if !self.instance.groups.is_current() {
            return Err(Status::unavailable(
                "this instance does not see the state of etcd; register with another",
            ));
        }
        if !self.instance.groups.has_room_for(&group, GROUPS_MAX) {
            return Err(Status::resource_exhausted(format!("there are {GROUPS_MAX} groups already")));
        }
        let ensured = self.instance.topics.ensure(&self.instance.groups, &group, &consumer.topics).await;
        ensured.map_err(|error| no_topic(&error))?;
        let registration = self.write(group, name, request.protocol_version, consumer).await?;
        let follower = Follower {
            groups: self.instance.groups.clone(),
            registration,
            channel_size: self.instance.settings.stream_channel_size,
            stop: self.stop.clone(),
        };
        Ok(follower.start(place))
    }

    /// Writes the consumer under a new lease. If it is not known whether that was done, the lease is not ended, but made to
    /// last: nobody may get what a process with this name still works on before it has stopped.
    async fn write(
        &self,
        group: GroupId,
        name: ConsumerName,
        protocol_version: u32,
        mut consumer: Consumer,
    ) -> Result<Registration, Status> {
        // A process may have been promised a longer lease, by an instance with other settings.
        let promised = |known: &Group| {
            let before = known.state.consumers.get(&name);
            Duration::from_millis(before.map_or(0, |stored| stored.value.lease_ttl_ms).min(LEASE_MS_MAX))
        };
        let ttl = self.instance.settings.consumer_lease_ttl.max(self.instance.groups.with(&group, promised));
        consumer.lease_ttl_ms = millis(ttl);
        let mut granted = Instant::now();
        let id = self.instance.groups.grant(ttl).await.map_err(|error| refusal::etcd(&error))?;
        // Several attempts to renew it have to fit into the time after which a client goes elsewhere.
        let keep_alive_interval = self.instance.settings.consumer_keepalive_interval.min(ttl / 6);
        let decide = |known: &Group| {
            let before = known.state.consumers.get(&name).map(|stored| &stored.value);
            if before.is_some_and(|before| before.has_fenced(consumer.session)) {
                return Err(Unwritten::Refused(Refusal::Fenced { consumer: name.clone() }));
            }
            if promised(known) > ttl {
                return Err(Unwritten::LongerLease);
            }
            let registered = register(&known.state, &name, consumer.clone());
            let after = consumer_after(&registered.step);
            let written = Written {
                // If etcd was asked twice, it may be that this is written already.
                former: known.leases.get(&name).copied().filter(|former| *former != id),
                registered_ms: after.map_or(consumer.registered_ms, |after| after.registered_ms),
                predecessors: after.map(|after| after.predecessors.clone()).unwrap_or_default(),
                is_back: before.is_some_and(|before| before.session == consumer.session),
                fenced: registered.fenced,
            };
            Ok((Some(registered.step), written))
        };
        let settled = self.instance.groups.settle(&group, Some(id), decide).await;
        let written = match settled {
            Ok(written) => written,
            Err(error) => return Err(self.not_written(id, error)),
        };
        // A process that was registered under the name until now may have been allowed to work for two thirds of a lease
        // from now on. If this one is never heard of again, its lease must last at least as long.
        if granted.elapsed() > ttl / 4 {
            granted = Instant::now();
            let renewed = self.instance.groups.keep_alive(id).await;
            let renewed = renewed.map_err(|error| {
                self.make_last(id);
                refusal::etcd(&error)
            })?;
            if renewed.is_none() {
                return Err(Status::unavailable(
                    "the lease has ended before it could be used; register again",
                ));
            }
        }
        let registered = Instant::now();
        match written.fenced {
            Some(fenced) => {
                tracing::warn!(%fenced, session = %consumer.session, "registered; another process was fenced");
            }
            None if written.is_back => tracing::info!(session = %consumer.session, "registered again"),
            None => tracing::info!(session = %consumer.session, "registered"),
        }
        self.forget(written.former);
        let lease = Lease { id, ttl, keep_alive_interval };
        let waiting = Waiting { group, name, session: consumer.session };
        let Written { registered_ms, predecessors, .. } = &written;
        let begun = Begun { at: registered, registered_ms: *registered_ms, predecessors };
        let since = self.waits.since(&waiting, begun, ttl);
        let Waiting { group, name, session } = waiting;
        let alone_at = since + ttl;
        Ok(Registration { group, name, session, protocol_version, lease, granted, alone_at })
    }

    /// What becomes of a lease that a registration was to be written under.
    fn not_written(&self, id: LeaseId, error: SettleError<Unwritten>) -> Status {
        let error = match error {
            SettleError::Refused(unwritten) => {
                self.forget(Some(id));
                return match unwritten {
                    Unwritten::Refused(refusal) => refusal::status(&refusal),
                    Unwritten::LongerLease => {
                        Status::unavailable("another instance grants longer leases; register again")
                    }
                };
            }
            SettleError::Contended => {
                self.forget(Some(id));
                SettleError::Contended
            }
            // Perhaps it is written all the same, or will be when etcd comes to it. The process that has the name until
            // then may have been told that it lives by another lease, just before.
            SettleError::Behind(error) => {
                self.make_last(id);
                SettleError::Behind(error)
            }
            SettleError::Etcd(error) => {
                self.make_last(id);
                SettleError::Etcd(error)
            }
        };
        refusal::unsettled(&error)
    }

    /// Renews a lease now, and when etcd has had the time to carry out what it was asked to.
    fn make_last(&self, lease: LeaseId) {
        let (groups, pause) = (self.instance.groups.clone(), self.instance.settings.etcd_timeout());
        tokio::spawn(async move {
            for pause in [Duration::ZERO, pause] {
                tokio::time::sleep(pause).await;
                if let Err(error) = groups.keep_alive(lease).await {
                    tracing::debug!(%error, "could not renew a lease that may be in use");
                }
            }
        });
    }

    /// Ends a lease by which nothing lives any more. It would end by itself, only later.
    fn forget(&self, lease: Option<LeaseId>) {
        let Some(lease) = lease else { return };
        let groups = self.instance.groups.clone();
        tokio::spawn(async move {
            if let Err(error) = groups.revoke(lease).await {
                tracing::debug!(%error, "could not end a lease that is not needed any more");
            }
        });
    }

    /// Renews the lease of a consumer.
    ///
    /// This asks etcd, not the mirror, whether the caller is still who is registered. As soon as another process is,
    /// no instance may renew anything for the former one, not even one whose mirror is late: the newcomer counts the
    /// time that is left to its predecessor from its own registration.
    pub(super) async fn renew(
        &self,
        request: &proto::KeepAliveRequest,
    ) -> Result<proto::KeepAliveResponse, Status> {
        let group = message::group(&request.group)?;
        let name = message::consumer("consumer_name", &request.consumer_name)?;
        let session = message::speaker(&request.session)?;
        let key = Key::Consumer(name.clone());
        let stored = self.instance.groups.read(&group, &key).await.map_err(|error| refusal::etcd(&error))?;
        let unknown = || refusal::status(&Refusal::UnknownConsumer { consumer: name.clone() });
        let stored = stored.filter(|stored| stored.lease != 0).ok_or_else(unknown)?;
        match Entry::decode(key, &stored.value) {
            Ok(Entry::Consumer(_, consumer)) if consumer.session == session => {}
            Ok(_) => return Err(refusal::status(&Refusal::Fenced { consumer: name })),
            Err(error) => {
                return Err(Status::failed_precondition(format!("{name} is not readable: {error}")));
            }
        }
        match self.instance.groups.keep_alive(stored.lease).await {
            Ok(Some(ttl)) => {
                // It may have been granted by an instance with other settings.
                let ttl = ttl.min(self.instance.settings.consumer_lease_ttl);
                Ok(proto::KeepAliveResponse { lease_ttl_ms: millis(ttl) })
            }
            Ok(None) => Err(unknown()),
            Err(error) => Err(refusal::etcd(&error)),
        }
    }

    /// Says what a consumer that wants to leave is to do, and takes it out once it has stopped.
    pub(super) async fn take_leave(
        &self,
        request: &proto::DeregisterRequest,
    ) -> Result<proto::DeregisterResponse, Status> {
        let group = message::group(&request.group)?;
        let name = message::consumer("consumer_name", &request.consumer_name)?;
        let session = message::speaker(&request.session)?;
        let action = if request.has_stopped {
            self.take_out(&group, &name, session).await?;
            proto::DeregisterAction::ShutdownNow
        } else {
            let decide = |known: &Group| {
                Ok(match deregister(&known.state, &name, session)? {
                    Deregistered::WaitForDrain { step } => (step, proto::DeregisterAction::WaitForDrain),
                    Deregistered::ShutdownNow { step } => (step, proto::DeregisterAction::ShutdownNow),
                })
            };
            let settled = self.instance.groups.settle(&group, None, decide).await;
            settled.map_err(|error| refusal::unsettled(&error))?
        };
        tracing::info!(?action, has_stopped = request.has_stopped, "deregistering");
        Ok(proto::DeregisterResponse { action: action.into() })
    }

    /// A process has stopped. If nothing is known of it any more, that has been said before.
    async fn take_out(&self, group: &GroupId, name: &ConsumerName, session: SessionId) -> Result<(), Status> {
        let decide = |known: &Group| {
            let lease = known.leases.get(name).copied();
            let is_deleted = known.state.consumers.get(name).is_some_and(|stored| {
                stored.value.session == session && stored.value.predecessors.is_empty()
            });
            gone(&known.state, name, session).map(|step| (step, lease.filter(|_| is_deleted)))
        };
        match self.instance.groups.settle(group, None, decide).await {
            Ok(lease) => self.forget(lease),
            Err(SettleError::Refused(Refusal::UnknownConsumer { .. } | Refusal::Fenced { .. })) => {}
            Err(error) => return Err(refusal::unsettled(&error)),
        }
        Ok(())
    }
}

/// What becomes of those who were registered before.
struct Written {
    /// The lease of the consumer until now.
    former: Option<LeaseId>,
    /// When the process has first registered, if it has had the name ever since.
    registered_ms: u64,
    /// Processes that may still work under the name.
    predecessors: BTreeSet<SessionId>,
    /// Whether the same process was registered.
    is_back: bool,
    /// The process that was registered, if it was another.
    fenced: Option<SessionId>,
}

/// Why a registration was not written.
#[derive(Debug)]
enum Unwritten {
    Refused(Refusal),
    /// The former process may work for longer than the lease lasts that was granted.
    LongerLease,
}

/// The consumer as a step leaves it.
fn consumer_after(step: &Step) -> Option<&Consumer> {
    step.writes.iter().find_map(|write| match &write.change {
        Change::Put(Entry::Consumer(_, consumer)) => Some(consumer),
        Change::Put(_) | Change::Delete(_) => None,
    })
}

/// Reads who wants to register.
fn newcomer(request: &proto::RegisterRequest) -> Result<(GroupId, ConsumerName, Consumer), Status> {
    let group = message::group(&request.group)?;
    let name = message::consumer("consumer_name", &request.consumer_name)?;
    let session =
        match (message::session(&request.session)?, request.protocol_version >= VERSION_WITH_SESSIONS) {
            (Some(session), true) => session,
            (None, false) => SessionId::NIL,
            (None, true) => {
                let text = "session: it is missing; from protocol_version 2 on every process has one";
                return Err(Status::invalid_argument(text));
            }
            (Some(_), false) => {
                let text = "session: only those have one whose protocol_version is 2 or more";
                return Err(Status::invalid_argument(text));
            }
        };
    let mut topics: BTreeSet<TopicName> = BTreeSet::new();
    if !request.topic.is_empty() || request.topics.is_empty() {
        topics.insert(message::topic("topic", &request.topic)?);
    }
    for (index, topic) in request.topics.iter().enumerate() {
        topics.insert(message::topic(&format!("topics[{index}]"), topic)?);
    }
    let mut holds = BTreeSet::new();
    for (index, place) in request.holds.iter().enumerate() {
        holds.insert(message::partition(&format!("holds[{index}]"), Some(place))?);
    }
    let labels: BTreeMap<String, String> =
        request.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let consumer = Consumer {
        topics,
        capacity: request.capacity.max(1),
        rack: (!request.rack.is_empty()).then(|| request.rack.clone()),
        labels,
        holds,
        ..Consumer::new(session, now_ms())
    };
    check_consumer(&consumer).map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok((group, name, consumer))
}

fn no_topic(error: &TopicError) -> Status {
    match error {
        TopicError::Unknown { .. } | TopicError::NoKafka { .. } => {
            refusal::of_kind(Code::NotFound, "unknown-topic", error.to_string())
        }
        TopicError::Unreadable { .. } => Status::failed_precondition(error.to_string()),
        TopicError::Refused { .. } | TopicError::Unreachable(_) => Status::unavailable(error.to_string()),
        TopicError::Settle(SettleError::Refused(never)) => match *never {},
        TopicError::Settle(SettleError::Etcd(error)) => refusal::etcd(error),
        TopicError::Settle(SettleError::Contended | SettleError::Behind(_)) => {
            Status::unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "01KTB7WM5JVKBFGPZVFNK3KQQB";

    fn request() -> proto::RegisterRequest {
        proto::RegisterRequest {
            consumer_name: "a".to_owned(),
            topic: "t".to_owned(),
            ..proto::RegisterRequest::default()
        }
    }

    fn newer() -> proto::RegisterRequest {
        proto::RegisterRequest { protocol_version: 2, session: SESSION.to_owned(), ..request() }
    }

    fn refused(request: &proto::RegisterRequest) -> String {
        let status = newcomer(request).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    }

    #[test]
    fn a_client_of_the_original_contract_says_its_name_and_topic_and_nothing_else() {
        let (group, name, consumer) = newcomer(&request()).unwrap();
        assert_eq!((group, name.as_str()), (None, "a"));
        assert_eq!(consumer.session, SessionId::NIL);
        assert_eq!(consumer.topics, BTreeSet::from(["t".parse().unwrap()]));
        assert_eq!((consumer.capacity, consumer.rack), (1, None));
    }

    #[test]
    fn all_that_a_newer_client_says_is_taken_in() {
        let place = proto::TopicPartition { topic: "t".to_owned(), partition: 4 };
        let request = proto::RegisterRequest {
            group: "g".to_owned(),
            topics: vec!["u".to_owned(), "t".to_owned()],
            capacity: 3,
            rack: "r".to_owned(),
            labels: [("pod".to_owned(), "a-0".to_owned())].into(),
            holds: vec![place],
            ..newer()
        };
        let (group, _, consumer) = newcomer(&request).unwrap();
        assert_eq!(group.unwrap().as_str(), "g");
        assert_ne!(consumer.session, SessionId::NIL);
        assert_eq!(consumer.topics.iter().map(TopicName::as_str).collect::<Vec<_>>(), ["t", "u"]);
        assert_eq!((consumer.capacity, consumer.rack.as_deref()), (3, Some("r")));
        assert_eq!((consumer.labels.len(), consumer.holds.len()), (1, 1));
    }

    #[test]
    fn sessions_belong_to_those_who_know_them() {
        assert!(
            refused(&proto::RegisterRequest { session: String::new(), ..newer() }).starts_with("session: ")
        );
        assert!(refused(&proto::RegisterRequest { protocol_version: 1, ..newer() }).starts_with("session: "));
        assert!(newcomer(&proto::RegisterRequest { protocol_version: 9, ..newer() }).is_ok());
    }

    #[test]
    fn a_consumer_works_on_one_topic_at_least() {
        let none = proto::RegisterRequest { topic: String::new(), ..newer() };
        assert_eq!(refused(&none), "topic: `` is no name of a topic: it is empty");
        let other = proto::RegisterRequest { topics: vec!["u".to_owned()], ..none };
        assert_eq!(newcomer(&other).unwrap().2.topics.len(), 1);
    }

    #[test]
    fn names_are_refused_with_their_place() {
        let wrong = proto::RegisterRequest { topics: vec!["u".to_owned(), "u/v".to_owned()], ..newer() };
        assert!(refused(&wrong).starts_with("topics[1]: `u/v` "), "{}", refused(&wrong));
        let place = proto::TopicPartition { topic: "..".to_owned(), partition: 4 };
        let wrong = proto::RegisterRequest { holds: vec![place], ..newer() };
        assert!(refused(&wrong).starts_with("holds[0].topic: `..` "), "{}", refused(&wrong));
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let labels = (0..100_000).map(|number| (number.to_string(), String::new())).collect();
        assert!(refused(&proto::RegisterRequest { labels, ..newer() }).contains("labels"));
        assert!(refused(&proto::RegisterRequest { capacity: u32::MAX, ..newer() }).contains("capacity"));
        assert!(refused(&proto::RegisterRequest { rack: "r".repeat(1 << 20), ..newer() }).contains("rack"));
    }
}
