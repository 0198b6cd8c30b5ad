//! Members of groups that live through rebalances by the rules of a consumer, one connection each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::group::consumer_protocol::{assigned_partitions, encode_assignment, encode_subscription};
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::{ApiKey, RequestMessage, decode_response, encode_request};

use crate::dialogue::{Dialogue, Versions, accepted};
use crate::lines::{Arrival, Lines};
use crate::scenario::unique;
use crate::template::CLIENT_ID;

/// How members behave.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    /// How often a stable member asks whether it must rejoin.
    pub(crate) heartbeat_interval: Duration,
    /// What they subscribe to; nobody reads it.
    pub(crate) topic: String,
    /// How many partitions the leader has to give out.
    pub(crate) partitions: usize,
}

/// A member as others need to know it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) generation: i32,
}

impl Identity {
    /// One that no server knows, with names as long as those of real ones.
    pub(crate) fn sample(what: &str) -> Self {
        Self {
            group: unique(&format!("{what}-0")),
            member: format!("{CLIENT_ID}-00000000-0000-0000-0000-000000000000"),
            generation: 1,
        }
    }
}

/// Members with a connection each. Member n has connection n.
#[derive(Debug)]
pub(crate) struct Crowd {
    habits: Habits,
    versions: GroupVersions,
    lines: Lines,
    groups: Vec<Group>,
    members: Vec<Member>,
    times: Times,
}

#[derive(Debug)]
struct Group {
    name: String,
    /// The highest that a member was told.
    generation: i32,
}

#[derive(Debug)]
struct Member {
    group: usize,
    /// Empty until the coordinator has given it one.
    id: String,
    generation: i32,
    phase: Phase,
    correlation_id: i32,
    heartbeat_due: Instant,
    /// Since when it may not work, though it could before: from the first news of a rebalance to its assignment.
    idle_since: Option<Instant>,
    partitions: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Outside,
    Joining,
    Syncing,
    Stable { asking: bool },
    Leaving,
}

/// When things happened since the last reset.
#[derive(Clone, Debug, Default)]
struct Times {
    last_join_sent: Option<Instant>,
    last_join_answered: Option<Instant>,
    last_sync_answered: Option<Instant>,
    /// Generations that were given out, over all groups.
    generations: BTreeSet<(usize, i32)>,
    /// How long each member had to stand still, once for each time.
    idle: Vec<Duration>,
    joins: usize,
}

/// How a crowd came to rest.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// From the call to the last member's assignment.
    pub(crate) took: Duration,
    /// Generations that were given out on the way, over all groups.
    pub(crate) generations: usize,
    /// From the last JoinGroup that was sent to the last answer to one.
    pub(crate) last_join_to_last_answer: Duration,
    /// From the last JoinGroup that was sent to the last member's assignment.
    pub(crate) last_join_to_settled: Duration,
    /// How long each disturbed member had no assignment that it could trust, shortest first.
    pub(crate) idle: Vec<Duration>,
    /// JoinGroup requests that were sent.
    pub(crate) joins: usize,
}

#[derive(Clone, Copy, Debug)]
struct GroupVersions {
    join: i16,
    sync: i16,
    heartbeat: i16,
    leave: i16,
}

impl Crowd {
    /// Makes a connection for each member; nobody joins yet. `sizes` has a name and a number of members for each group.
    pub(crate) fn connect(
        address: SocketAddr,
        versions: &Versions,
        habits: Habits,
        sizes: &[(String, usize)],
    ) -> Result<Self> {
        let versions = GroupVersions {
            join: versions.of(ApiKey::JoinGroup, 9)?,
            sync: versions.of(ApiKey::SyncGroup, 5)?,
            heartbeat: versions.of(ApiKey::Heartbeat, 4)?,
            leave: versions.of(ApiKey::LeaveGroup, 5)?,
        };
        let mut crowd = Self {
            habits,
            versions,
            lines: Lines::new()?,
            groups: Vec::new(),
            members: Vec::new(),
            times: Times::default(),
        };
        for (name, size) in sizes {
            crowd.groups.push(Group { name: name.clone(), generation: -1 });
            for _ in 0..*size {
                crowd.add(address, crowd.groups.len() - 1)?;
            }
        }
        Ok(crowd)
    }

    /// One more member of a group, with a connection of its own, which has not joined yet.
    pub(crate) fn add(&mut self, address: SocketAddr, group: usize) -> Result<usize> {
        let number = self.lines.dial(address)?;
        self.members.push(Member {
            group,
            id: String::new(),
            generation: -1,
            phase: Phase::Outside,
            correlation_id: 0,
            heartbeat_due: Instant::now(),
            idle_since: None,
            partitions: Vec::new(),
        });
        Ok(number)
    }

    /// Lets everybody who is outside join, and lives on until every group is stable in one generation.
    pub(crate) fn settle(&mut self, within: Duration) -> Result<Settled> {
        self.times = Times::default();
        let begun = Instant::now();
        for number in 0..self.members.len() {
            if self.members[number].phase == Phase::Outside {
                let frame = self.join(number);
                self.send(number, &frame)?;
            }
        }
        self.live_until(begun, within, Self::is_settled)?;
        self.check_assignments()?;
        self.settled(begun)
    }

    /// Lets one member leave and lives on until the others are stable without it; it is outside afterwards, with
    /// its connection.
    pub(crate) fn leave(&mut self, number: usize, within: Duration) -> Result<Settled> {
        // What is in flight must be answered first: answers are told apart by the phase.
        let stable = |crowd: &Self| crowd.members[number].phase == (Phase::Stable { asking: false });
        self.live_until(Instant::now(), within, stable)?;
        let request = LeaveGroupRequest {
            group_id: self.group_of(number),
            member_id: self.members[number].id.clone(),
            members: vec![MemberIdentity {
                member_id: self.members[number].id.clone(),
                reason: Some("the benchmark lets it go".to_owned()),
                ..Default::default()
            }],
        };
        self.times = Times::default();
        let begun = Instant::now();
        let frame = self.encode(number, &request, self.versions.leave);
        self.members[number].phase = Phase::Leaving;
        self.send(number, &frame)?;
        // Heartbeats bring the news; until one has come, all look stable in the old generation.
        let group = self.members[number].group;
        let left = self.groups[group].generation;
        self.live_until(begun, within, |crowd| crowd.groups[group].generation > left && crowd.is_settled())?;
        self.check_assignments()?;
        self.settled(begun)
    }

    fn live_until(&mut self, begun: Instant, within: Duration, done: impl Fn(&Self) -> bool) -> Result<()> {
        while !done(self) {
            ensure!(begun.elapsed() < within, "not stable after {within:?}: {}", self.whereabouts());
            self.turn()?;
        }
        Ok(())
    }

    fn settled(&mut self, begun: Instant) -> Result<Settled> {
        let times = std::mem::take(&mut self.times);
        let sent = times.last_join_sent.context("nobody joined")?;
        let answered = times.last_join_answered.context("nobody joined")?;
        let synced = times.last_sync_answered.context("nobody joined")?;
        let mut idle = times.idle;
        idle.sort();
        Ok(Settled {
            took: synced - begun,
            generations: times.generations.len(),
            last_join_to_last_answer: answered.saturating_duration_since(sent),
            last_join_to_settled: synced.saturating_duration_since(sent),
            idle,
            joins: times.joins,
        })
    }

    /// Who everybody is, by number.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        let identity = |member: &Member| Identity {
            group: self.groups[member.group].name.clone(),
            member: member.id.clone(),
            generation: member.generation,
        };
        self.members.iter().map(identity).collect()
    }

    /// Whether every member that takes part has its assignment in its group's latest generation.
    fn is_settled(&self) -> bool {
        self.members.iter().all(|member| match member.phase {
            Phase::Stable { .. } => member.generation == self.groups[member.group].generation,
            Phase::Outside => true,
            Phase::Joining | Phase::Syncing | Phase::Leaving => false,
        })
    }

    fn check_assignments(&self) -> Result<()> {
        for (number, group) in self.groups.iter().enumerate() {
            let members = self.members.iter().filter(|member| member.group == number);
            let mut owned: Vec<i32> = members.flat_map(|member| member.partitions.iter().copied()).collect();
            owned.sort_unstable();
            let all = owned.iter().enumerate().all(|(place, &partition)| {
                usize::try_from(partition).is_ok_and(|partition| partition == place)
            });
            ensure!(
                all && owned.len() == self.habits.partitions,
                "in group {} not every partition has exactly one owner",
                group.name
            );
        }
        Ok(())
    }

    fn whereabouts(&self) -> String {
        let count = |wanted: fn(Phase) -> bool| self.members.iter().filter(|it| wanted(it.phase)).count();
        format!(
            "{} wait for JoinGroup, {} for SyncGroup, {} are stable",
            count(|phase| phase == Phase::Joining),
            count(|phase| phase == Phase::Syncing),
            count(|phase| matches!(phase, Phase::Stable { .. }))
        )
    }

    /// Lives for one turn: answers what comes in and sends the heartbeats that are due.
    fn turn(&mut self) -> Result<()> {
        let mut arrived: Vec<(Arrival, Bytes)> = Vec::new();
        self.lines.turn(Duration::from_millis(5), |arrival, frame, _| {
            arrived.push((arrival, Bytes::copy_from_slice(frame)));
            Ok(())
        })?;
        for (arrival, frame) in arrived {
            if let Some(next) = self.answer(arrival, frame)? {
                self.send(arrival.line, &next)?;
            }
        }
        let now = Instant::now();
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            if member.phase == (Phase::Stable { asking: false }) && member.heartbeat_due <= now {
                member.phase = Phase::Stable { asking: true };
                member.heartbeat_due = now + self.habits.heartbeat_interval;
                let request = HeartbeatRequest {
                    group_id: self.groups[member.group].name.clone(),
                    generation_id: member.generation,
                    member_id: member.id.clone(),
                    group_instance_id: None,
                };
                let frame = self.encode(number, &request, self.versions.heartbeat);
                self.send(number, &frame)?;
            }
        }
        Ok(())
    }

    /// Handles an answer by the member's phase; the next request, if one follows.
    fn answer(&mut self, arrival: Arrival, frame: Bytes) -> Result<Option<Bytes>> {
        let number = arrival.line;
        let expected = self.members[number].correlation_id;
        match self.members[number].phase {
            Phase::Joining => {
                let response = open::<JoinGroupRequest>(frame, self.versions.join, expected)?;
                self.joined(number, response, arrival.at).map(Some)
            }
            Phase::Syncing => {
                let response = open::<SyncGroupRequest>(frame, self.versions.sync, expected)?;
                if response.error_code == ErrorCode::RebalanceInProgress.number() {
                    return Ok(Some(self.join(number)));
                }
                accepted(response.error_code, "SyncGroup")?;
                self.times.last_sync_answered = Some(arrival.at);
                let total = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
                let place = u32::try_from(number).unwrap_or(u32::MAX);
                let member = &mut self.members[number];
                member.partitions = assigned(&response.assignment)?;
                member.phase = Phase::Stable { asking: false };
                // Spread over the interval, as the heartbeats of processes are that have run for a while.
                member.heartbeat_due = arrival.at + self.habits.heartbeat_interval * (place + 1) / total;
                if let Some(since) = member.idle_since.take() {
                    self.times.idle.push(arrival.at - since);
                }
                Ok(None)
            }
            Phase::Stable { asking: true } => {
                let response = open::<HeartbeatRequest>(frame, self.versions.heartbeat, expected)?;
                if response.error_code == ErrorCode::RebalanceInProgress.number() {
                    self.members[number].idle_since = Some(arrival.at);
                    return Ok(Some(self.join(number)));
                }
                accepted(response.error_code, "Heartbeat")?;
                self.members[number].phase = Phase::Stable { asking: false };
                Ok(None)
            }
            Phase::Leaving => {
                let response = open::<LeaveGroupRequest>(frame, self.versions.leave, expected)?;
                accepted(response.error_code, "LeaveGroup")?;
                response.members.iter().try_for_each(|left| accepted(left.error_code, "LeaveGroup"))?;
                let member = &mut self.members[number];
                (member.phase, member.id, member.generation) = (Phase::Outside, String::new(), -1);
                member.partitions.clear();
                Ok(None)
            }
            Phase::Outside | Phase::Stable { asking: false } => bail!("an answer came that nobody asked for"),
        }
    }

    fn joined(&mut self, number: usize, response: JoinGroupResponse, at: Instant) -> Result<Bytes> {
        if response.error_code == ErrorCode::MemberIdRequired.number() {
            self.members[number].id = response.member_id;
            return Ok(self.join(number));
        }
        if response.error_code == ErrorCode::RebalanceInProgress.number() {
            return Ok(self.join(number));
        }
        accepted(response.error_code, "JoinGroup")?;
        self.times.last_join_answered = Some(at);
        let group = self.members[number].group;
        self.times.generations.insert((group, response.generation_id));
        self.groups[group].generation = self.groups[group].generation.max(response.generation_id);
        let member = &mut self.members[number];
        member.generation = response.generation_id;
        member.id = response.member_id;
        member.phase = Phase::Syncing;
        let is_leader = response.leader == member.id;
        let mut assignments = Vec::new();
        if is_leader && !response.skip_assignment {
            let (count, partitions) = (response.members.len(), self.habits.partitions);
            for (place, other) in response.members.into_iter().enumerate() {
                let share = partitions * place / count..partitions * (place + 1) / count;
                let assignment = assignment(&self.habits.topic, share);
                assignments.push(SyncGroupRequestAssignment { member_id: other.member_id, assignment });
            }
        }
        let request = SyncGroupRequest {
            group_id: self.group_of(number),
            generation_id: response.generation_id,
            member_id: self.members[number].id.clone(),
            group_instance_id: None,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(PROTOCOL.to_owned()),
            assignments,
        };
        Ok(self.encode(number, &request, self.versions.sync))
    }

    fn join(&mut self, number: usize) -> Bytes {
        let request = join_request(&self.habits, self.group_of(number), self.members[number].id.clone());
        self.members[number].phase = Phase::Joining;
        self.times.last_join_sent = Some(Instant::now());
        self.times.joins += 1;
        self.encode(number, &request, self.versions.join)
    }

    fn group_of(&self, number: usize) -> String {
        self.groups[self.members[number].group].name.clone()
    }

    fn encode<R: RequestMessage>(&mut self, number: usize, request: &R, version: i16) -> Bytes {
        let member = &mut self.members[number];
        member.correlation_id = member.correlation_id.wrapping_add(1);
        encode_request(request, version, member.correlation_id, Some(CLIENT_ID)).into_bytes()
    }

    fn send(&mut self, number: usize, frame: &[u8]) -> Result<()> {
        self.lines.outbox(number).extend_from_slice(frame);
        self.lines.flush(number)
    }
}

/// Kafka's name for groups of consumers.
pub(crate) const PROTOCOL_TYPE: &str = "consumer";

/// The strategy that members offer.
pub(crate) const PROTOCOL: &str = "range";

/// The JoinGroup of a consumer; without an id, of one that is new.
pub(crate) fn join_request(habits: &Habits, group: String, member_id: String) -> JoinGroupRequest {
    let milliseconds = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
    JoinGroupRequest {
        group_id: group,
        session_timeout_ms: milliseconds(habits.session_timeout),
        rebalance_timeout_ms: milliseconds(habits.rebalance_timeout),
        member_id,
        group_instance_id: None,
        protocol_type: PROTOCOL_TYPE.to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: PROTOCOL.to_owned(),
            metadata: encode_subscription([habits.topic.as_str()], None),
        }],
        reason: None,
    }
}

/// An assignment of partitions of one topic.
pub(crate) fn assignment(topic: &str, partitions: Range<usize>) -> Bytes {
    let number = |partition| i32::try_from(partition).expect("partitions are counted in 31 bits");
    encode_assignment([(topic, partitions.map(number))])
}

/// The partitions in an assignment of one topic; none in an empty one.
pub(crate) fn assigned(bytes: &[u8]) -> Result<Vec<i32>> {
    let topics = assigned_partitions(bytes).context("an assignment is not as it was sent")?;
    Ok(topics.into_iter().flat_map(|(_, partitions)| partitions).collect())
}

/// At most so many members join over connections at the same time, unless one group alone has more.
pub(crate) const WAVE: usize = 2000;

/// Joins members into groups and closes their connections; they stay members until their session ends.
pub(crate) fn gather(
    address: SocketAddr,
    dialogue: &mut Dialogue,
    habits: &Habits,
    sizes: &[(String, usize)],
    within: Duration,
) -> Result<Vec<Identity>> {
    dialogue.await_coordinators(&sizes.iter().map(|(group, _)| group.clone()).collect::<Vec<_>>())?;
    let mut identities = Vec::new();
    let mut rest = sizes;
    while !rest.is_empty() {
        let mut members = 0;
        let fits = |(_, size): &&(String, usize)| {
            members += size;
            members <= WAVE
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (wave, later) = rest.split_at(count);
        let mut crowd = Crowd::connect(address, dialogue.versions(), habits.clone(), wave)?;
        crowd.settle(within)?;
        identities.extend(crowd.identities());
        rest = later;
    }
    Ok(identities)
}

/// Lets members go.
pub(crate) fn disperse(dialogue: &mut Dialogue, members: &[Identity]) -> Result<()> {
    let mut by_group: Vec<&Identity> = members.iter().collect();
    by_group.sort_by(|a, b| a.group.cmp(&b.group));
    for of_one in by_group.chunk_by(|a, b| a.group == b.group) {
        for some in of_one.chunks(1000) {
            let leaving = |identity: &&Identity| MemberIdentity {
                member_id: identity.member.clone(),
                ..Default::default()
            };
            let request = LeaveGroupRequest {
                group_id: some[0].group.clone(),
                member_id: some[0].member.clone(),
                members: some.iter().map(leaving).collect(),
            };
            let answer = dialogue.ask(&request, 5)?;
            accepted(answer.error_code, "LeaveGroup")?;
            answer.members.iter().try_for_each(|left| accepted(left.error_code, "LeaveGroup"))?;
        }
    }
    Ok(())
}

fn open<R: RequestMessage>(frame: Bytes, version: i16, expected: i32) -> Result<R::Response> {
    let (correlation_id, response) = decode_response::<R>(frame, version)
        .with_context(|| format!("read the answer to {}", R::API.name()))?;
    ensure!(correlation_id == expected, "the answer to {} is to another request", R::API.name());
    Ok(response)
}
