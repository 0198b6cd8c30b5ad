//! Names for what differs from broker to broker: ids, times, addresses, directories.

use std::collections::{BTreeMap, BTreeSet};

use wire::api::describe_configs::DescribeConfigsResourceResult;
use wire::api::describe_groups::DescribedGroupMember;
use wire::api::fetch::FetchResponse;
use wire::api::join_group::JoinGroupResponseMember;
use wire::api::offset_fetch::OffsetFetchResponse;
use wire::{AnyRequest, AnyResponse, ApiKey, Records, Uuid};

use crate::differences;
use crate::pair::Outcome;
use crate::words::{first_uuid, is_shared, shown_batches, without_bounds, without_nonce, without_requests};

/// What one broker calls things, and the names they have here.
#[derive(Default)]
pub(crate) struct Names {
    /// Ids and numbers of partitions of all topics that it told of, gone ones included.
    topics: BTreeMap<String, (Uuid, i32)>,
    /// Ids of any kind, numbered in the order in which they were first seen.
    numbered: BTreeMap<(Kind, u128), u128>,
    producer_ids: Vec<i64>,
    session_id: i32,
    /// Topics that had a codec of their own at some time.
    recompressed: BTreeSet<String>,
    /// Topics of which records were deleted at some time.
    shortened: BTreeSet<String>,
    /// The random parts of member ids, numbered in the order in which they were first seen.
    members: BTreeMap<String, usize>,
    /// What the brokers told who sits at each connection.
    seats: BTreeMap<usize, Seated>,
}

/// What a member knows of itself.
#[derive(Default)]
struct Seated {
    /// The ids it was given, the newest last.
    ids: Vec<String>,
    generation: i32,
    /// The members that it was told as the leader, in the order of their names here.
    led: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Topic,
    Producer,
    Session,
}

impl Names {
    /// The id this broker gave the topic; one that no topic has if it gave none.
    pub(crate) fn topic_id(&self, name: &str) -> Uuid {
        self.topics.get(name).map_or(Uuid(0xdead_beef), |(id, _)| *id)
    }

    /// The names and numbers of partitions of all topics this broker has told of, gone ones included.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics.iter().map(|(name, (_, partitions))| (name.as_str(), *partitions))
    }

    /// The `n`-th producer id that this broker gave out.
    pub(crate) fn producer_id(&self, n: usize) -> i64 {
        self.producer_ids.get(n).copied().unwrap_or(-1)
    }

    /// Whether records of the topic were deleted at some time.
    pub(crate) fn is_shortened(&self, topic: &str) -> bool {
        self.shortened.contains(topic)
    }

    /// The newest fetch session.
    pub(crate) fn session_id(&self) -> i32 {
        self.session_id
    }

    /// The id that the member at `seat` was given last; none if it was given none.
    pub(crate) fn member_id(&self, seat: usize) -> String {
        self.former_id(seat, 0)
    }

    /// The id that the member at `seat` had `ago` ids ago.
    pub(crate) fn former_id(&self, seat: usize, ago: usize) -> String {
        self.seats.get(&seat).and_then(|seated| seated.ids.iter().nth_back(ago)).cloned().unwrap_or_default()
    }

    /// The generation that the member at `seat` is in.
    pub(crate) fn generation(&self, seat: usize) -> i32 {
        self.seats.get(&seat).map_or(0, |seated| seated.generation)
    }

    /// The ids of all members that the one at `seat` was told of when it became the leader.
    pub(crate) fn led(&self, seat: usize) -> &[String] {
        self.seats.get(&seat).map_or(&[], |seated| &seated.led)
    }

    /// The member at `seat` forgets who it is.
    pub(crate) fn forget(&mut self, seat: usize) {
        self.seats.remove(&seat);
    }

    /// Remembers what the member at `seat` was told.
    pub(crate) fn learn_at(&mut self, seat: usize, response: &AnyResponse) {
        let AnyResponse::JoinGroup(response) = response else { return self.learn(response) };
        if !matches!(response.error_code, 0 | 79) {
            return;
        }
        let seated = self.seats.entry(seat).or_default();
        if seated.ids.last() != Some(&response.member_id) {
            seated.ids.push(response.member_id.clone());
        }
        if response.error_code == 0 {
            seated.generation = response.generation_id;
            let mut led: Vec<&JoinGroupResponseMember> = response.members.iter().collect();
            led.sort_by(|a, b| (&a.group_instance_id, &a.metadata).cmp(&(&b.group_instance_id, &b.metadata)));
            seated.led = led.into_iter().map(|member| member.member_id.clone()).collect();
        }
    }

    /// Remembers ids that later requests may use.
    pub(crate) fn learn(&mut self, response: &AnyResponse) {
        match response {
            AnyResponse::Metadata(response) => {
                for topic in response
                    .topics
                    .iter()
                    .filter(|topic| topic.error_code == 0 && topic.topic_id.0 != 0 && !topic.is_internal)
                {
                    let partitions = i32::try_from(topic.partitions.len()).expect("few partitions");
                    self.topics.extend(topic.name.clone().map(|name| (name, (topic.topic_id, partitions))));
                }
            }
            AnyResponse::DeleteRecords(response) => {
                for topic in &response.topics {
                    if topic.partitions.iter().any(|partition| partition.low_watermark > 0) {
                        self.shortened.insert(topic.name.clone());
                    }
                }
            }
            AnyResponse::InitProducerId(response) if response.error_code == 0 => {
                self.producer_ids.push(response.producer_id);
            }
            AnyResponse::DescribeConfigs(response) => {
                for result in response.results.iter().filter(|result| result.resource_type == 2) {
                    let own_codec = |config: &DescribeConfigsResourceResult| {
                        config.name == "compression.type" && config.value.as_deref() != Some("producer")
                    };
                    if result.configs.iter().any(own_codec) {
                        self.recompressed.insert(result.resource_name.clone());
                    }
                }
            }
            AnyResponse::Fetch(response) if response.session_id != 0 => self.session_id = response.session_id,
            _ => {}
        }
    }

    /// What a broker did, in a form that must be the same for both.
    pub(crate) fn normal(&mut self, request: &AnyRequest, outcome: Outcome) -> String {
        match outcome {
            Outcome::Closed => differences::CLOSED.to_owned(),
            Outcome::Silent => differences::NO_ANSWER.to_owned(),
            Outcome::Answer(mut response) => {
                if let (AnyRequest::CreateTopics(request), AnyResponse::CreateTopics(response)) =
                    (request, &mut response)
                    && request.validate_only
                {
                    // Nothing has this id, and nothing will.
                    response.topics.iter_mut().for_each(|topic| topic.topic_id.0 = topic.topic_id.0.min(1));
                }
                self.rename(&mut response);
                without_requests(&self.without_random_ids(&format!("{response:#?}")))
            }
        }
    }

    fn number(&mut self, kind: Kind, id: u128) -> u128 {
        let next = 1 + self.numbered.keys().filter(|(known, _)| *known == kind).count() as u128;
        *self.numbered.entry((kind, id)).or_insert(next)
    }

    /// A member id is what the client chose and a random UUID, which may stand in any text.
    fn without_random_ids(&mut self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((at, uuid)) = first_uuid(rest) {
            named.push_str(&rest[..at]);
            let number = self.member_number(uuid);
            named.push_str(&format!("member-{number}"));
            rest = &rest[at + uuid.len()..];
        }
        named + rest
    }

    fn member_number(&mut self, uuid: &str) -> usize {
        let next = 1 + self.members.len();
        *self.members.entry(uuid.to_owned()).or_insert(next)
    }

    /// The number of a member id, or what is more than any if it was not seen yet.
    fn known_member(&self, id: &str) -> usize {
        first_uuid(id).and_then(|(_, uuid)| self.members.get(uuid)).copied().unwrap_or(usize::MAX)
    }

    fn rename_topic(&mut self, id: &mut Uuid) {
        if !matches!(id.0, 0 | 1 | 0xdead_beef) {
            *id = Uuid(self.number(Kind::Topic, id.0));
        }
    }

    fn rename(&mut self, response: &mut AnyResponse) {
        match response {
            AnyResponse::ApiVersions(response) => {
                response.throttle_time_ms = 0;
                response.api_keys.retain(|api| ApiKey::from_number(api.api_key).is_some());
                response.supported_features.clear();
                response.finalized_features.clear();
                response.finalized_features_epoch = -1;
            }
            AnyResponse::Metadata(response) => {
                response.throttle_time_ms = 0;
                response.cluster_id = response.cluster_id.take().map(|_| "a cluster".to_owned());
                for broker in &mut response.brokers {
                    (broker.host, broker.port) = (String::new(), 0);
                }
                response.topics.retain(|topic| topic.name.as_deref().is_none_or(is_shared));
                response.topics.sort_by(|a, b| (&a.name, a.topic_id.0).cmp(&(&b.name, b.topic_id.0)));
                for topic in &mut response.topics {
                    self.rename_topic(&mut topic.topic_id);
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
                // Those whose names are not told are in the order of their ids here.
                response.topics.sort_by(|a, b| (&a.name, a.topic_id.0).cmp(&(&b.name, b.topic_id.0)));
            }
            AnyResponse::CreateTopics(response) => {
                response.throttle_time_ms = 0;
                response.topics.sort_by(|a, b| a.name.cmp(&b.name));
                for topic in &mut response.topics {
                    self.rename_topic(&mut topic.topic_id);
                    if let Some(configs) = &mut topic.configs {
                        configs.sort_by(|a, b| a.name.cmp(&b.name));
                        for config in
                            configs.iter_mut().filter(|config| differences::SET_BY_KAFKA == config.name)
                        {
                            config.config_source = 5;
                        }
                    }
                }
            }
            AnyResponse::DeleteTopics(response) => {
                response.throttle_time_ms = 0;
                for topic in &mut response.responses {
                    self.rename_topic(&mut topic.topic_id);
                }
                response.responses.sort_by(|a, b| {
                    (&a.name, a.topic_id.0, a.error_code).cmp(&(&b.name, b.topic_id.0, b.error_code))
                });
            }
            AnyResponse::CreatePartitions(response) => {
                response.throttle_time_ms = 0;
                response.results.sort_by(|a, b| a.name.cmp(&b.name));
            }
            AnyResponse::DescribeConfigs(response) => {
                response.throttle_time_ms = 0;
                response.results.sort_by(|a, b| {
                    (a.resource_type, &a.resource_name).cmp(&(b.resource_type, &b.resource_name))
                });
                for result in &mut response.results {
                    if result.resource_type == 32 {
                        result.configs.retain(|config| !differences::is_of_other_groups(&config.name));
                    }
                    result.configs.sort_by(|a, b| a.name.cmp(&b.name));
                    // What a property means is told in our own words.
                    for config in &mut result.configs {
                        config.documentation = config.documentation.take().map(|_| "words".to_owned());
                        if config.name == differences::SET_BY_KAFKA && config.config_source == 3 {
                            config.config_source = 5;
                            config.synonyms.retain(|synonym| synonym.source != 3);
                        }
                    }
                }
            }
            AnyResponse::AlterConfigs(response) => {
                response.throttle_time_ms = 0;
                response.responses.sort_by(|a, b| {
                    (a.resource_type, &a.resource_name).cmp(&(b.resource_type, &b.resource_name))
                });
            }
            AnyResponse::IncrementalAlterConfigs(response) => {
                response.throttle_time_ms = 0;
                response.responses.sort_by(|a, b| {
                    (a.resource_type, &a.resource_name).cmp(&(b.resource_type, &b.resource_name))
                });
            }
            AnyResponse::DescribeTopicPartitions(response) => {
                response.throttle_time_ms = 0;
                response.topics.retain(|topic| topic.name.as_deref().is_none_or(is_shared));
                response.topics.iter_mut().for_each(|topic| self.rename_topic(&mut topic.topic_id));
                // Kafka gathers those that may not be seen in a hash set.
                response.topics.sort_by_key(|topic| (topic.error_code == 29).then(|| topic.name.clone()));
            }
            AnyResponse::DescribeCluster(response) => {
                response.throttle_time_ms = 0;
                response.cluster_id.clear();
                for broker in &mut response.brokers {
                    (broker.host, broker.port) = (String::new(), 0);
                }
            }
            AnyResponse::DescribeLogDirs(response) => {
                response.throttle_time_ms = 0;
                for directory in &mut response.results {
                    (directory.total_bytes, directory.usable_bytes) = (-1, -1);
                    directory.log_dir.clear();
                    directory.topics.retain(|topic| is_shared(&topic.name));
                    directory.topics.sort_by(|a, b| a.name.cmp(&b.name));
                    for topic in &mut directory.topics {
                        topic.partitions.sort_by_key(|partition| partition.partition_index);
                        if self.recompressed.contains(&topic.name) {
                            topic
                                .partitions
                                .iter_mut()
                                .for_each(|part| part.partition_size = part.partition_size.min(1));
                        }
                    }
                }
            }
            AnyResponse::SaslHandshake(response) => response.mechanisms.sort(),
            AnyResponse::SaslAuthenticate(response) => {
                response.auth_bytes = without_nonce(&response.auth_bytes).into();
            }
            AnyResponse::CreateAcls(response) => response.throttle_time_ms = 0,
            AnyResponse::DescribeAcls(response) => {
                response.throttle_time_ms = 0;
                for resource in &mut response.resources {
                    resource.acls.sort_by_key(|acl| format!("{acl:?}"));
                }
                response.resources.sort_by(|a, b| {
                    (a.resource_type, &a.resource_name, a.pattern_type).cmp(&(
                        b.resource_type,
                        &b.resource_name,
                        b.pattern_type,
                    ))
                });
            }
            AnyResponse::DeleteAcls(response) => {
                response.throttle_time_ms = 0;
                for result in &mut response.filter_results {
                    result.matching_acls.sort_by_key(|acl| format!("{acl:?}"));
                }
            }
            AnyResponse::DescribeClientQuotas(response) => response.throttle_time_ms = 0,
            // Nobody is asked for it.
            AnyResponse::ConsumerGroupDescribe(_) => {}
            AnyResponse::DescribeUserScramCredentials(response) => {
                response.throttle_time_ms = 0;
                response.results.sort_by(|a, b| a.user.cmp(&b.user));
                for result in &mut response.results {
                    result.credential_infos.sort_by_key(|info| info.mechanism);
                }
            }
            AnyResponse::AlterUserScramCredentials(response) => {
                response.throttle_time_ms = 0;
                response.results.sort_by(|a, b| a.user.cmp(&b.user));
            }
            AnyResponse::FindCoordinator(response) => {
                response.throttle_time_ms = 0;
                if response.port > 0 {
                    (response.host, response.port) = (String::new(), 0);
                }
                for coordinator in response.coordinators.iter_mut().filter(|coordinator| coordinator.port > 0)
                {
                    (coordinator.host, coordinator.port) = (String::new(), 0);
                }
            }
            AnyResponse::InitProducerId(response) => {
                response.throttle_time_ms = 0;
                if let Ok(id) = u128::try_from(response.producer_id) {
                    response.producer_id = i64::try_from(self.number(Kind::Producer, id)).unwrap_or(i64::MAX);
                }
            }
            AnyResponse::Produce(response) => {
                response.throttle_time_ms = 0;
                for topic in &mut response.responses {
                    self.rename_topic(&mut topic.topic_id);
                    topic.partition_responses.sort_by_key(|partition| partition.index);
                    for partition in &mut topic.partition_responses {
                        partition.log_append_time_ms = partition.log_append_time_ms.min(1);
                        for error in &mut partition.record_errors {
                            error.batch_index_error_message =
                                error.batch_index_error_message.take().map(without_bounds);
                        }
                    }
                }
                // Kafka gathers the answers in a map.
                response.responses.sort_by(|a, b| (&a.name, a.topic_id.0).cmp(&(&b.name, b.topic_id.0)));
            }
            AnyResponse::Fetch(response) => self.rename_fetch(response),
            AnyResponse::ListOffsets(response) => {
                response.throttle_time_ms = 0;
                // Kafka gathers these answers in a map, too.
                response.topics.sort_by(|a, b| a.name.cmp(&b.name));
                for topic in &mut response.topics {
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
            }
            AnyResponse::OffsetForLeaderEpoch(response) => response.throttle_time_ms = 0,
            AnyResponse::DeleteRecords(response) => {
                response.throttle_time_ms = 0;
                response.topics.sort_by(|a, b| a.name.cmp(&b.name));
                for topic in &mut response.topics {
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
            }
            AnyResponse::ListPartitionReassignments(response) => response.throttle_time_ms = 0,
            AnyResponse::JoinGroup(response) => {
                response.throttle_time_ms = 0;
                self.without_random_ids(&response.member_id);
                response.members.sort_by(|a, b| {
                    let key = |member: &JoinGroupResponseMember| {
                        let number = self.known_member(&member.member_id);
                        (number, member.group_instance_id.clone(), member.metadata.clone())
                    };
                    key(a).cmp(&key(b))
                });
            }
            AnyResponse::DescribeGroups(response) => {
                response.throttle_time_ms = 0;
                // Kafka asks its partitions one by one, in the order of a hash map.
                response.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
                for group in &mut response.groups {
                    group.members.sort_by(|a, b| {
                        let key = |member: &DescribedGroupMember| {
                            let number = self.known_member(&member.member_id);
                            (number, member.group_instance_id.clone(), member.client_id.clone())
                        };
                        key(a).cmp(&key(b))
                    });
                }
            }
            AnyResponse::SyncGroup(response) => response.throttle_time_ms = 0,
            AnyResponse::Heartbeat(response) => response.throttle_time_ms = 0,
            AnyResponse::LeaveGroup(response) => response.throttle_time_ms = 0,
            AnyResponse::ListGroups(response) => {
                response.throttle_time_ms = 0;
                response.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
            }
            AnyResponse::DeleteGroups(response) => {
                response.throttle_time_ms = 0;
                response.results.sort_by(|a, b| a.group_id.cmp(&b.group_id));
            }
            AnyResponse::OffsetCommit(response) => {
                response.throttle_time_ms = 0;
                response.topics.iter_mut().for_each(|topic| self.rename_topic(&mut topic.topic_id));
                response.topics.sort_by(|a, b| (&a.name, a.topic_id.0).cmp(&(&b.name, b.topic_id.0)));
                for topic in &mut response.topics {
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
            }
            AnyResponse::OffsetFetch(response) => self.rename_offsets(response),
            AnyResponse::OffsetDelete(response) => {
                response.throttle_time_ms = 0;
                response.topics.sort_by(|a, b| a.name.cmp(&b.name));
                for topic in &mut response.topics {
                    topic.partitions.sort_by_key(|partition| partition.partition_index);
                }
            }
        }
    }

    /// Kafka lists all offsets of a group in the order of a hash map.
    fn rename_offsets(&mut self, response: &mut OffsetFetchResponse) {
        response.throttle_time_ms = 0;
        response.topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut response.topics {
            topic.partitions.sort_by_key(|partition| partition.partition_index);
        }
        for group in &mut response.groups {
            group.topics.iter_mut().for_each(|topic| self.rename_topic(&mut topic.topic_id));
            group.topics.sort_by(|a, b| (&a.name, a.topic_id.0).cmp(&(&b.name, b.topic_id.0)));
            for topic in &mut group.topics {
                topic.partitions.sort_by_key(|partition| partition.partition_index);
            }
        }
    }

    fn rename_fetch(&mut self, response: &mut FetchResponse) {
        response.throttle_time_ms = 0;
        if let Ok(id @ 1..) = u128::try_from(response.session_id) {
            response.session_id = i32::try_from(self.number(Kind::Session, id)).unwrap_or(i32::MAX);
        }
        for topic in &mut response.responses {
            let id = topic.topic_id;
            let recompressed =
                self.recompressed.iter().any(|name| *name == topic.topic || self.topic_id(name) == id);
            self.rename_topic(&mut topic.topic_id);
            for partition in &mut topic.partitions {
                if let Some(records) = &mut partition.records {
                    let bytes: Vec<u8> = records.0.iter().flat_map(|chunk| chunk.iter().copied()).collect();
                    *records = Records(shown_batches(&bytes, recompressed));
                }
            }
        }
    }
}
