//! What operators ask and tell.

use std::collections::BTreeMap;

use assigner_client::proto;
use coordination::handoff::{
    Change, ConsumerName, ConsumerState, Entry, Handoff, Key, Mode, Phase, Refusal, State, Step, Topic,
    TopicPartition, Write, cancel, check_topic,
};
use tonic::Status;

use crate::clock::now_ms;
use crate::groups::{Group, GroupId, SettleError};
use crate::settings::millis;

use super::message::{self, group_text, place};
use super::{Service, refusal};

impl Service {
    /// How this instance and the groups are.
    pub(super) fn describe(&self, request: &proto::StatusRequest) -> Result<proto::StatusResponse, Status> {
        let groups = &self.instance.groups;
        let ids = match message::group(&request.group)? {
            Some(group) => vec![Some(group)],
            None => groups.ids(),
        };
        Ok(proto::StatusResponse {
            instance: self.instance.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leader: self.instance.leader_name().unwrap_or_default(),
            revision: *groups.revisions().borrow(),
            etcd_behind_ms: millis(groups.behind()),
            kafka_problem: self.instance.topics.problem().unwrap_or_default(),
            groups: ids.iter().map(|id| group_status(id, &groups.get(id).state)).collect(),
        })
    }

    /// The handoffs that are under way or were given up a short while ago.
    pub(super) fn handoffs(
        &self,
        request: &proto::ListHandoffsRequest,
    ) -> Result<proto::ListHandoffsResponse, Status> {
        let groups = &self.instance.groups;
        let group = message::group(&request.group)?;
        let ids = if request.all_groups { groups.ids() } else { vec![group] };
        let now_ms = now_ms();
        let settings = self.instance.settings.plan();
        let mut handoffs = Vec::new();
        for id in &ids {
            for (partition, stored) in &groups.get(id).state.handoffs {
                let deadline_ms = stored.value.deadline_ms(&settings);
                handoffs.push(handoff_status(id, partition, &stored.value, now_ms, deadline_ms));
            }
        }
        Ok(proto::ListHandoffsResponse { handoffs })
    }

    /// Gives a handoff up.
    pub(super) async fn give_up(
        &self,
        request: &proto::CancelHandoffRequest,
    ) -> Result<proto::CancelHandoffResponse, Status> {
        let group = message::group(&request.group)?;
        let partition = message::partition("partition", request.partition.as_ref())?;
        let id = message::handoff(&request.handoff_id)?;
        let decide = |known: &Group| {
            let step = cancel(&known.state, now_ms(), &partition, id)?;
            let handoff = known.state.handoffs.get(&partition).map(|stored| stored.value.id);
            Ok((step.clone(), (handoff, step.is_some())))
        };
        let settled = self.instance.groups.settle(&group, None, decide).await;
        let (handoff, is_new) = settled.map_err(|error| match error {
            // No consumer asks for this, so there is nobody who would take it for a reason to register.
            SettleError::Refused(refusal @ Refusal::UnknownHandoff { .. }) => {
                Status::not_found(refusal.to_string())
            }
            error => refusal::unsettled(&error),
        })?;
        let handoff_id = handoff.map(|id| id.to_string()).unwrap_or_default();
        if is_new {
            self.instance.groups.metrics().count_cancellation("operator");
            tracing::info!(handoff = handoff_id, %partition, "given up by an operator");
        }
        Ok(proto::CancelHandoffResponse { handoff_id })
    }

    /// Sets how heavy partitions are.
    pub(super) async fn weigh(
        &self,
        request: &proto::SetTopicRequest,
    ) -> Result<proto::SetTopicResponse, Status> {
        let group = message::group(&request.group)?;
        let topic = message::topic("topic", &request.topic)?;
        let decide = |known: &Group| {
            let Some(stored) = known.state.topics.get(&topic) else {
                return Err(Status::not_found(format!("the group does not work on topic {topic}")));
            };
            let next = weighed(&stored.value, request);
            check_topic(&next).map_err(|error| Status::invalid_argument(error.to_string()))?;
            let change = Change::Put(Entry::Topic(topic.clone(), next.clone()));
            let write = Write { change, read_at: known.state.read_at(&Key::Topic(topic.clone())) };
            let step = Step { writes: vec![write], guards: Vec::new() };
            Ok(((next != stored.value).then_some(step), ()))
        };
        match self.instance.groups.settle(&group, None, decide).await {
            Ok(()) => {}
            Err(SettleError::Refused(status)) => return Err(status),
            Err(SettleError::Etcd(error)) => return Err(refusal::etcd(&error)),
            Err(error @ (SettleError::Contended | SettleError::Behind(_))) => {
                return Err(Status::unavailable(error.to_string()));
            }
        }
        tracing::info!(
            weight = request.weight,
            partitions = request.partition_weights.len(),
            "weights were set"
        );
        Ok(proto::SetTopicResponse {})
    }
}

fn weighed(topic: &Topic, request: &proto::SetTopicRequest) -> Topic {
    let mut topic = topic.clone();
    if request.weight != 0 {
        topic.weight = request.weight;
    }
    for (partition, weight) in &request.partition_weights {
        if *weight == 0 {
            topic.weights.remove(partition);
        } else {
            topic.weights.insert(*partition, *weight);
        }
    }
    topic
}

/// How many partitions a consumer has to do with.
#[derive(Default)]
struct Counts {
    owned: u32,
    warming: u32,
    releasing: u32,
}

fn group_status(id: &GroupId, state: &State) -> proto::GroupStatus {
    let mut counts: BTreeMap<&ConsumerName, Counts> = BTreeMap::new();
    let mut assigned: BTreeMap<&str, u32> = BTreeMap::new();
    for (partition, stored) in &state.assignments {
        counts.entry(&stored.value.owner).or_default().owned += 1;
        if state.consumers.contains_key(&stored.value.owner) {
            *assigned.entry(partition.topic.as_str()).or_default() += 1;
        }
    }
    for stored in state.handoffs.values() {
        let Handoff { from, to, phase, .. } = &stored.value;
        match phase {
            Phase::Warming => counts.entry(to).or_default().warming += 1,
            Phase::Ready | Phase::Complete => counts.entry(from).or_default().releasing += 1,
            Phase::Cancelled => {}
        }
    }
    let consumers = state.consumers.iter().map(|(name, stored)| {
        let consumer = &stored.value;
        let Counts { owned, warming, releasing } = counts.remove(name).unwrap_or_default();
        proto::ConsumerStatus {
            name: name.to_string(),
            state: match consumer.state {
                ConsumerState::Ready => "ready",
                ConsumerState::Draining => "draining",
            }
            .to_owned(),
            partitions: owned,
            warming,
            releasing,
            capacity: consumer.capacity,
            rack: consumer.rack.clone().unwrap_or_default(),
            labels: consumer.labels.clone().into_iter().collect(),
            registered_ms: consumer.registered_ms,
            topics: consumer.topics.iter().map(ToString::to_string).collect(),
        }
    });
    let topics = state.topics.iter().map(|(name, stored)| proto::TopicStatus {
        topic: name.to_string(),
        partitions: stored.value.partitions,
        assigned: assigned.get(name.as_str()).copied().unwrap_or_default(),
        weight: stored.value.weight,
        partition_weights: stored.value.weights.clone().into_iter().collect(),
    });
    proto::GroupStatus {
        group: group_text(id),
        consumers: consumers.collect(),
        topics: topics.collect(),
        handoffs: u32::try_from(state.handoffs.len()).unwrap_or(u32::MAX),
    }
}

fn handoff_status(
    group: &GroupId,
    partition: &TopicPartition,
    handoff: &Handoff,
    now_ms: u64,
    deadline_ms: u64,
) -> proto::HandoffStatus {
    let Handoff { id, epoch, from, to, mode, phase, phase_since_ms, progress, .. } = handoff;
    let (phase, waits_for) = match phase {
        Phase::Warming => ("warming", to.as_str()),
        Phase::Ready => ("ready", from.as_str()),
        Phase::Complete => ("complete", from.as_str()),
        Phase::Cancelled => ("cancelled", ""),
    };
    proto::HandoffStatus {
        group: group_text(group),
        partition: Some(place(partition)),
        handoff_id: id.to_string(),
        epoch: epoch.0,
        from: from.to_string(),
        to: to.to_string(),
        mode: match mode {
            Mode::Exclusive => "exclusive",
            Mode::Overlap => "overlap",
        }
        .to_owned(),
        phase: phase.to_owned(),
        phase_age_ms: now_ms.saturating_sub(*phase_since_ms),
        deadline_in_ms: deadline_ms.saturating_sub(now_ms),
        waits_for: waits_for.to_owned(),
        done: progress.map_or(0, |progress| progress.done),
        total: progress.map_or(0, |progress| progress.total),
    }
}
