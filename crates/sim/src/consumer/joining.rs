//! Joining, assigning and taking what was assigned.

use std::collections::{BTreeMap, BTreeSet};

use coordination::error_code::ErrorCode;
use coordination::{op, reply};

use crate::consumer_protocol;
use crate::message::Request;

use super::{Action, Consumer, Phase, Surroundings, What, millis};

impl Consumer {
    pub(super) fn join(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        self.assigned = false;
        self.owned.clear();
        self.positions_known = false;
        self.wants_rejoin = false;
        self.phase = Phase::Joining;
        self.send_join(around, actions);
    }

    pub(super) fn send_join(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        let note = if self.profile.restless { around.random.number() | 1 } else { 0 };
        let metadata = consumer_protocol::encode_subscription(&self.profile.topics, note);
        let request = op::JoinGroup {
            group: self.profile.group.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.profile.instance_id.clone(),
            session_timeout_ms: millis(self.profile.session_ms),
            rebalance_timeout_ms: millis(self.profile.rebalance_timeout_ms()),
            protocol_type: "consumer".to_owned(),
            protocols: self.profile.protocols.iter().map(|name| (name.clone(), metadata.clone())).collect(),
            reason: None,
            takes_member_id_first: !self.profile.old,
            can_skip_assignment: self.profile.can_skip_assignment,
        };
        self.joined_for = self.profile.topics.clone();
        self.send(around.now, What::Join, Request::Join(request), actions);
    }

    pub(super) fn joined(
        &mut self,
        around: &mut Surroundings<'_>,
        reply: reply::JoinGroup,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let now = around.now;
        match reply.result {
            Ok(joined) => {
                self.member_id = reply.member_id;
                self.generation = joined.generation;
                self.protocol = joined.protocol.unwrap_or_default();
                self.leader = joined.leader == self.member_id;
                self.heartbeat_at = now + self.profile.heartbeat_ms;
                let mut assignments = Vec::new();
                if self.leader {
                    let mut members = BTreeMap::new();
                    for member in joined.members {
                        let topics = consumer_protocol::decode_subscription(&member.metadata)
                            .ok_or_else(|| format!("{} has no subscription", member.member_id))?;
                        members.insert(member.member_id, topics);
                    }
                    if !members.contains_key(&self.member_id) {
                        return Err(format!("the leader {} is not among its members", self.member_id));
                    }
                    let read: BTreeSet<&String> = members.values().flatten().collect();
                    self.dealt = around
                        .topics
                        .iter()
                        .filter(|(topic, _)| read.contains(topic))
                        .map(|(topic, count)| (topic.clone(), *count))
                        .collect();
                    if !joined.skip_assignment {
                        assignments = consumer_protocol::assign(&self.protocol, &members, &self.dealt)
                            .into_iter()
                            .map(|(member, partitions)| {
                                (member, consumer_protocol::encode_assignment(&partitions))
                            })
                            .collect();
                    }
                }
                let request = op::SyncGroup {
                    group: self.profile.group.clone(),
                    generation: self.generation,
                    member_id: self.member_id.clone(),
                    instance_id: self.profile.instance_id.clone(),
                    protocol_type: (!self.profile.old).then(|| "consumer".to_owned()),
                    protocol: (!self.profile.old).then(|| self.protocol.clone()),
                    must_name_protocol: !self.profile.old,
                    assignments,
                };
                self.phase = Phase::Syncing;
                self.send(now, What::Sync, Request::Sync(request), actions);
            }
            Err(ErrorCode::MemberIdRequired) => {
                self.member_id = reply.member_id;
                self.send_join(around, actions);
            }
            Err(ErrorCode::RebalanceInProgress) => self.pause(now),
            Err(error) => self.member_error(now, error, actions),
        }
        Ok(())
    }

    pub(super) fn synced(
        &mut self,
        around: &mut Surroundings<'_>,
        reply: reply::SyncGroup,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let now = around.now;
        match reply.result {
            Ok(synced) => {
                let partitions = consumer_protocol::decode_assignment(&synced.assignment)
                    .ok_or_else(|| "an assignment that is none".to_owned())?;
                self.owned = partitions.into_iter().map(|partition| (partition, 0)).collect();
                self.assigned = true;
                self.wants_rejoin = self.joined_for != self.profile.topics;
                self.phase = Phase::Stable;
                self.commit_at = now + self.profile.commit_ms;
                self.metadata_at = now + self.profile.metadata_ms;
                self.fetch(now, actions);
            }
            Err(ErrorCode::RebalanceInProgress) => self.join(around, actions),
            Err(error) => self.member_error(now, error, actions),
        }
        Ok(())
    }
}
