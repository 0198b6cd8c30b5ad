//! Groups: listed, shown, emptied of members, deleted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use coordination::error_code::ErrorCode;
use coordination::group::consumer_protocol::assigned_partitions;
use tokio::time::{Instant, sleep};
use wire::api::consumer_group_describe::{self, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::api::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use wire::api::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse};
use wire::api::list_groups::ListGroupsRequest;
use wire::{ApiKey, RequestMessage};

use crate::cluster::Client;
use crate::error::{ClientError, accepted};

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its name.
    pub group: String,
    /// What kind of members it has: `consumer`, `connect` …; empty for one that only has offsets.
    pub protocol_type: String,
    /// Its state; none if the broker is too old to tell.
    pub state: Option<String>,
    /// `classic` or `consumer` and the like, as the broker spells it; none if it is too old to tell.
    pub kind: Option<String>,
}

/// A group with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its name.
    pub group: String,
    /// Its state; [`GroupDescription::DEAD`] for one that does not exist or is not shown.
    pub state: String,
    /// How partitions are assigned: `range` and the like; empty unless the group is stable or of the newer protocol.
    pub protocol: String,
    /// The broker that coordinates it.
    pub coordinator: Coordinator,
    /// Its members, by id.
    pub members: Vec<GroupMember>,
    /// How far its assignments have come, if it is of the newer protocol (KIP-848).
    pub epochs: Option<GroupEpochs>,
    /// Why it is not shown, if it is of the newer protocol and the broker withholds it.
    pub withheld: Option<ErrorCode>,
}

/// How far the assignments of a group of the newer protocol (KIP-848) have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEpochs {
    /// Grows with everything that asks for another assignment.
    pub group: i32,
    /// What it was when the broker last found out who is to have what.
    pub target: i32,
}

impl GroupDescription {
    /// The state of a group that does not exist or is not shown.
    pub const DEAD: &str = "Dead";

    /// Whether somebody is in it, or about to be.
    pub fn is_live(&self) -> bool {
        !matches!(self.state.as_str(), Self::DEAD | "Empty")
    }

    /// How many members it has; none if there are some that are not shown, as of groups of which only the list tells.
    pub fn member_count(&self) -> Option<usize> {
        (!self.is_live() || !self.members.is_empty()).then_some(self.members.len())
    }
}

/// The broker that coordinates a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinator {
    /// Its number.
    pub node: i32,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: i32,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The id that the coordinator gave it.
    pub member_id: String,
    /// The name that a static member keeps over restarts.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// The client's address as the broker writes it, with a slash in front.
    pub host: String,
    /// Its partitions, by topic; empty also if they are not written as consumers write them.
    pub assignment: BTreeMap<String, Vec<i32>>,
    /// Where it is on its way to other partitions, if its group is of the newer protocol (KIP-848).
    pub progress: Option<MemberProgress>,
}

/// Where a member of a group of the newer protocol (KIP-848) is on its way to other partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProgress {
    /// The epoch it has come to; negative while it is away.
    pub epoch: i32,
    /// The partitions that it is to have, by topic.
    pub target: BTreeMap<String, Vec<i32>>,
    /// Whether it speaks the newer protocol itself; none if the broker is too old to tell.
    pub is_upgraded: Option<bool>,
}

/// Who shall leave a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaver {
    /// The member with this id.
    Member(String),
    /// The static member with this name, whatever its id.
    Instance(String),
}

impl Leaver {
    /// Whether this is the member with this id and name.
    pub fn is(&self, member_id: &str, instance_id: Option<&str>) -> bool {
        match self {
            Self::Member(id) => member_id == id,
            Self::Instance(name) => instance_id == Some(name),
        }
    }

    /// The id or the name.
    pub fn text(&self) -> &str {
        let (Self::Member(text) | Self::Instance(text)) = self;
        text
    }
}

/// How long to leave a coordinator in peace that is loading, moving or not there yet.
const PAUSE: Duration = Duration::from_millis(50);

/// The first version of ListGroups that tells states.
const LIST_STATES: i16 = 4;

/// The first version of LeaveGroup that names several members, by id or by instance.
const LEAVE_BY_NAME: i16 = 3;

impl Client {
    /// All groups whose state and type are among those given, by name; an empty list lets all pass.
    ///
    /// Every broker lists the groups that it coordinates, so all of them are asked. One that is too old to tell states
    /// is an error when it is asked for some; one that is too old to tell types lists groups whatever their type.
    pub async fn list_groups(
        &mut self,
        states: &[String],
        types: &[String],
    ) -> Result<Vec<GroupListing>, ClientError> {
        let request = ListGroupsRequest { states_filter: states.to_vec(), types_filter: types.to_vec() };
        let mut found = BTreeMap::new();
        let metadata = self.metadata(Some(&[])).await?;
        for broker in &metadata.brokers {
            let started = Instant::now();
            let response = loop {
                let connection = self.node(broker.node_id, &metadata).await?;
                if !states.is_empty()
                    && connection.version(ApiKey::ListGroups, i16::MAX).is_some_and(|it| it < LIST_STATES)
                {
                    let address = connection.address().to_owned();
                    return Err(ClientError::TooOld { address, wish: "tell the states of groups" });
                }
                let response = connection.call(&request).await?;
                if !is_passing(response.error_code) || started.elapsed() >= self.options.patience {
                    break response;
                }
                sleep(PAUSE).await;
            };
            accepted(response.error_code, None)?;
            for group in response.groups {
                let listing = GroupListing {
                    protocol_type: group.protocol_type,
                    state: told(group.group_state),
                    kind: told(group.group_type),
                    group: group.group_id,
                };
                found.insert(listing.group.clone(), listing);
            }
        }
        Ok(found.into_values().collect())
    }

    /// A group with its members, of the classic or the newer protocol (KIP-848). One that does not exist, or is of a type
    /// that has its own way to be described, is [`GroupDescription::DEAD`].
    pub async fn describe_group(&mut self, group: &str) -> Result<GroupDescription, ClientError> {
        let request = DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() };
        let passes = |response: &DescribeGroupsResponse| {
            response.groups.iter().any(|group| is_passing(group.error_code))
        };
        let (coordinator, response) = self.ask_coordinator(group, &request, i16::MAX, passes).await?;
        let described = response.groups.into_iter().next().ok_or_else(unknown_group)?;
        // Since version 6 it is an error besides a state.
        if described.error_code != ErrorCode::GroupIdNotFound.number() {
            accepted(described.error_code, described.error_message.clone())?;
        }
        let described = description(described, coordinator);
        if described.state == GroupDescription::DEAD {
            return self.describe_newer_group(described).await;
        }
        Ok(described)
    }

    /// What there is to know of a group that is `dead` as a classic one: those of the newer protocol (KIP-848) are shown so
    /// where classic groups are.
    async fn describe_newer_group(
        &mut self,
        dead: GroupDescription,
    ) -> Result<GroupDescription, ClientError> {
        let request =
            ConsumerGroupDescribeRequest { group_ids: vec![dead.group.clone()], ..Default::default() };
        let passes = |response: &ConsumerGroupDescribeResponse| {
            response.groups.iter().any(|group| is_passing(group.error_code))
        };
        let (coordinator, response) =
            match self.ask_coordinator(&dead.group, &request, i16::MAX, passes).await {
                Err(ClientError::Unsupported { .. }) => return Ok(dead),
                asked => asked?,
            };
        let described = response.groups.into_iter().next().ok_or_else(unknown_group)?;
        newer_description(described, GroupDescription { coordinator, ..dead })
    }

    /// Deletes a group with its offsets; it must have no members.
    pub async fn delete_group(&mut self, group: &str) -> Result<(), ClientError> {
        let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()] };
        let passes = |response: &DeleteGroupsResponse| {
            response.results.iter().any(|result| is_passing(result.error_code))
        };
        let (_, response) = self.ask_coordinator(group, &request, i16::MAX, passes).await?;
        let result = response.results.into_iter().next().ok_or_else(unknown_group)?;
        accepted(result.error_code, None)
    }

    /// Makes members leave, saying why; the answers are in the order of `leavers`.
    ///
    /// A member that still runs notices at its next heartbeat and joins again.
    pub async fn remove_members(
        &mut self,
        group: &str,
        leavers: &[Leaver],
        reason: &str,
    ) -> Result<Vec<Result<(), ClientError>>, ClientError> {
        let identity = |leaver: &Leaver| {
            let (member_id, group_instance_id) = match leaver {
                Leaver::Member(id) => (id.clone(), None),
                Leaver::Instance(name) => (String::new(), Some(name.clone())),
            };
            MemberIdentity { member_id, group_instance_id, reason: Some(reason.to_owned()) }
        };
        let request = LeaveGroupRequest {
            group_id: group.to_owned(),
            members: leavers.iter().map(identity).collect(),
            ..Default::default()
        };
        self.require(ApiKey::LeaveGroup, LEAVE_BY_NAME)?;
        let passes = |response: &LeaveGroupResponse| is_passing(response.error_code);
        let (_, response) = self.ask_coordinator(group, &request, i16::MAX, passes).await?;
        if response.members.is_empty() {
            // Kafka answers a request for a single member that is not there at the top, with nothing below.
            accepted(response.error_code, None)?;
        }
        let mut answers = VecDeque::from(response.members);
        let answer = |leaver: &Leaver| {
            // They come in the order of the request, so this is the first one of those that are left.
            let is_meant =
                |answer: &MemberResponse| leaver.is(&answer.member_id, answer.group_instance_id.as_deref());
            let place = answers.iter().position(is_meant);
            match place.and_then(|place| answers.remove(place)) {
                Some(answer) => accepted(answer.error_code, None),
                None => Err(ClientError::Unanswered { request: ApiKey::LeaveGroup.name() }),
            }
        };
        Ok(leavers.iter().map(answer).collect())
    }

    /// Asks the broker that coordinates `group`, again while it is loading, moving or not there yet.
    ///
    /// `passes` finds out whether an answer has an error, of whatever part of it, that says so.
    pub(crate) async fn ask_coordinator<R: RequestMessage>(
        &mut self,
        group: &str,
        request: &R,
        at_most: i16,
        passes: impl Fn(&R::Response) -> bool,
    ) -> Result<(Coordinator, R::Response), ClientError> {
        let started = Instant::now();
        loop {
            let last = started.elapsed() >= self.options.patience;
            match self.find_coordinator(group).await {
                Ok(coordinator) => {
                    let metadata = self.metadata(Some(&[])).await?;
                    let connection = self.node(coordinator.node, &metadata).await?;
                    let response = connection.call_up_to(request, at_most).await?;
                    if last || !passes(&response) {
                        return Ok((coordinator, response));
                    }
                }
                Err(ClientError::Refused { code, .. }) if !last && is_passing(code) => {}
                Err(error) => return Err(error),
            }
            sleep(PAUSE).await;
        }
    }

    async fn find_coordinator(&mut self, group: &str) -> Result<Coordinator, ClientError> {
        let request = FindCoordinatorRequest {
            key: group.to_owned(),
            coordinator_keys: vec![group.to_owned()],
            ..Default::default()
        };
        let response = self.call(&request).await?;
        // Since version 4 there is an answer for each key; before there was one.
        let Some(found) = response.coordinators.into_iter().next() else {
            accepted(response.error_code, response.error_message)?;
            return Ok(Coordinator { node: response.node_id, host: response.host, port: response.port });
        };
        accepted(found.error_code, found.error_message)?;
        Ok(Coordinator { node: found.node_id, host: found.host, port: found.port })
    }
}

/// Whether the error will pass by itself.
pub(crate) fn is_passing(code: i16) -> bool {
    matches!(
        ErrorCode::from_number(code),
        Some(
            ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
        )
    )
}

/// A name that older versions leave empty.
fn told(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}

fn description(described: DescribedGroup, coordinator: Coordinator) -> GroupDescription {
    let member = |member: DescribedGroupMember| GroupMember {
        member_id: member.member_id,
        instance_id: member.group_instance_id,
        client_id: member.client_id,
        host: member.client_host,
        assignment: assigned_to_consumer(&member.member_assignment),
        progress: None,
    };
    GroupDescription {
        group: described.group_id,
        state: described.group_state,
        protocol: described.protocol_data,
        coordinator,
        members: by_id(described.members.into_iter().map(member)),
        epochs: None,
        withheld: None,
    }
}

/// A group of the newer protocol (KIP-848), or still the `dead` one if there is none of that name.
fn newer_description(
    described: consumer_group_describe::DescribedGroup,
    dead: GroupDescription,
) -> Result<GroupDescription, ClientError> {
    match ErrorCode::from_number(described.error_code) {
        // A classic group may have the empty name, a newer one may not. And a broker that could speak the newer protocol
        // and shall not says that it does not support it.
        Some(ErrorCode::GroupIdNotFound | ErrorCode::InvalidGroupId | ErrorCode::UnsupportedVersion) => {
            return Ok(dead);
        }
        // Whoever may not describe each of its topics is told nothing of the group, not even its state, which the list of
        // groups tells.
        Some(code @ ErrorCode::TopicAuthorizationFailed) => {
            return Ok(GroupDescription { withheld: Some(code), ..dead });
        }
        _ => accepted(described.error_code, described.error_message)?,
    }
    let partitions = |assignment: consumer_group_describe::Assignment| {
        by_topic(assignment.topic_partitions.into_iter().map(|topic| (topic.topic_name, topic.partitions)))
    };
    let member = |member: consumer_group_describe::Member| GroupMember {
        member_id: member.member_id,
        instance_id: member.instance_id,
        client_id: member.client_id,
        host: member.client_host,
        assignment: partitions(member.assignment),
        progress: Some(MemberProgress {
            epoch: member.member_epoch,
            target: partitions(member.target_assignment),
            is_upgraded: match member.member_type {
                CLASSIC_MEMBER => Some(false),
                NEWER_MEMBER => Some(true),
                _ => None,
            },
        }),
    };
    Ok(GroupDescription {
        state: described.group_state,
        protocol: described.assignor_name,
        members: by_id(described.members.into_iter().map(member)),
        epochs: Some(GroupEpochs { group: described.group_epoch, target: described.assignment_epoch }),
        ..dead
    })
}

/// A member of a group of the newer protocol that speaks the classic one still.
const CLASSIC_MEMBER: i8 = 0;
const NEWER_MEMBER: i8 = 1;

fn by_id(members: impl Iterator<Item = GroupMember>) -> Vec<GroupMember> {
    let mut members = Vec::from_iter(members);
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}

fn unknown_group() -> ClientError {
    ClientError::Refused { code: ErrorCode::GroupIdNotFound.number(), message: None }
}

/// What a consumer was assigned; nothing if other members than consumers wrote it.
fn assigned_to_consumer(assignment: &[u8]) -> BTreeMap<String, Vec<i32>> {
    let assigned = assigned_partitions(assignment).unwrap_or_default();
    by_topic(assigned.into_iter().map(|(topic, partitions)| (topic.into_owned(), partitions)))
}

/// Partitions by topic and in order, where a topic may come more than once.
fn by_topic(assigned: impl Iterator<Item = (String, Vec<i32>)>) -> BTreeMap<String, Vec<i32>> {
    let mut by_topic: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (topic, partitions) in assigned {
        by_topic.entry(topic).or_default().extend(partitions);
    }
    for partitions in by_topic.values_mut() {
        partitions.sort_unstable();
    }
    by_topic
}

#[cfg(test)]
mod tests {
    use wire::api::consumer_group_describe::{Assignment, DescribedGroup as Newer, Member, TopicPartitions};

    use super::*;

    fn dead() -> GroupDescription {
        let (group_id, group_state) = ("newer".to_owned(), GroupDescription::DEAD.to_owned());
        let coordinator = Coordinator { node: 1, host: "localhost".to_owned(), port: 9092 };
        description(DescribedGroup { group_id, group_state, ..Default::default() }, coordinator)
    }

    #[test]
    fn a_group_of_the_newer_protocol_has_epochs_and_members_with_targets() {
        let assignment = |topics: &[(&str, &[i32])]| {
            let topic = |&(topic, partitions): &(&str, &[i32])| TopicPartitions {
                topic_name: topic.to_owned(),
                partitions: partitions.to_vec(),
                ..Default::default()
            };
            Assignment { topic_partitions: topics.iter().map(topic).collect() }
        };
        let member = |id: &str, member_type| Member {
            member_id: id.to_owned(),
            member_epoch: 3,
            assignment: assignment(&[("orders", &[2]), ("users", &[0]), ("orders", &[1])]),
            target_assignment: assignment(&[("orders", &[1])]),
            member_type,
            ..Default::default()
        };
        let described = Newer {
            group_id: "newer".to_owned(),
            group_state: "Reconciling".to_owned(),
            group_epoch: 5,
            assignment_epoch: 4,
            assignor_name: "uniform".to_owned(),
            members: vec![member("c", -1), member("b", 0), member("a", 1)],
            ..Default::default()
        };
        let group = newer_description(described, dead()).unwrap();
        assert_eq!((group.state.as_str(), group.protocol.as_str()), ("Reconciling", "uniform"));
        assert_eq!(group.epochs, Some(GroupEpochs { group: 5, target: 4 }));
        assert_eq!(group.members.len(), 3);
        for (member, (id, is_upgraded)) in
            group.members.iter().zip([("a", Some(true)), ("b", Some(false)), ("c", None)])
        {
            let target = BTreeMap::from([("orders".to_owned(), vec![1])]);
            assert_eq!(member.member_id, id);
            assert_eq!(member.progress, Some(MemberProgress { epoch: 3, target, is_upgraded }));
            let assigned = [("orders".to_owned(), vec![1, 2]), ("users".to_owned(), vec![0])];
            assert_eq!(member.assignment, BTreeMap::from(assigned));
        }
    }

    #[test]
    fn a_group_that_is_of_no_protocol_stays_dead_and_one_that_is_withheld_says_why() {
        let described = |code: ErrorCode| {
            let described = Newer { error_code: code.number(), ..Default::default() };
            newer_description(described, dead())
        };
        for code in [ErrorCode::GroupIdNotFound, ErrorCode::InvalidGroupId, ErrorCode::UnsupportedVersion] {
            assert_eq!(described(code).unwrap(), dead(), "{code:?}");
        }
        let withheld = described(ErrorCode::TopicAuthorizationFailed).unwrap();
        assert_eq!(
            withheld,
            GroupDescription { withheld: Some(ErrorCode::TopicAuthorizationFailed), ..dead() }
        );
        let refused = described(ErrorCode::GroupAuthorizationFailed).unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::GroupAuthorizationFailed));
    }
}
