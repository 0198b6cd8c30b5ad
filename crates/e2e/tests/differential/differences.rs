//! Differences that are meant, each with its reason; docs/compatibility.md tells them to users.

use wire::AnyRequest;

use crate::names::Names;

/// Kafka's controller sets this property for the whole cluster when it is formatted; in Kohort it has its default.
pub(crate) const SET_BY_KAFKA: &str = "min.insync.replicas";

/// What stands for a batch that is not there to its end.
pub(crate) const PART_OF_A_BATCH: &str = "a part of a batch";

/// What stands for an answer that did not come.
pub(crate) const NO_ANSWER: &str = "there is no answer";

/// What stands for a connection that was closed.
pub(crate) const CLOSED: &str = "the connection is closed";

/// The topic for batches whose records do not count up from 0, so that what is not excused never meets them.
pub(crate) const RECOUNTED: &str = "recounted";

/// Whether a setting of a group is one of share or streams groups, which Kohort does not have.
pub(crate) fn is_of_other_groups(setting: &str) -> bool {
    setting.starts_with("share.") || setting.starts_with("streams.")
}

/// A request and what came of it at both, in their normal form.
pub(crate) struct Answered<'a> {
    pub(crate) request: &'a AnyRequest,
    pub(crate) version: i16,
    pub(crate) names: &'a Names,
    pub(crate) kafka: &'a str,
    pub(crate) kohort: &'a str,
}

/// Why Kohort may answer otherwise than Kafka here, if it may.
pub(crate) fn reason(answered: &Answered<'_>) -> Option<&'static str> {
    let Answered { request, version, names, kafka, kohort } = *answered;
    match request {
        AnyRequest::FindCoordinator(request) if matches!(request.key_type, 1 | 2) => {
            Some("there are no transactions and no share groups: their coordinators are refused at once")
        }
        AnyRequest::Metadata(request)
            if (request.allow_auto_topic_creation || version < 4) && kafka.contains("error_code: 3,") =>
        {
            Some("a topic that is made because it was asked for is shown at once, not as unknown first")
        }
        AnyRequest::CreateTopics(request)
            if request
                .topics
                .iter()
                .flat_map(|topic| &topic.configs)
                .any(|config| is_odd_list(&config.name, config.value.as_deref())) =>
        {
            Some(ODD_LISTS)
        }
        AnyRequest::IncrementalAlterConfigs(request)
            if request
                .resources
                .iter()
                .flat_map(|resource| &resource.configs)
                .any(|config| is_odd_list(&config.name, config.value.as_deref())) =>
        {
            Some(ODD_LISTS)
        }
        AnyRequest::Produce(request) if request.topic_data.iter().all(|topic| topic.name == RECOUNTED) => {
            Some("records whose offsets do not count up are refused, not stored at offsets of others")
        }
        AnyRequest::ListOffsets(request)
            if request.topics.iter().all(|topic| {
                names.is_shortened(&topic.name) && topic.partitions.iter().all(|part| part.timestamp == -3)
            }) =>
        {
            Some("the record with the highest timestamp is looked for among those that are not deleted")
        }
        AnyRequest::DescribeLogDirs(_) if same_but_for_emptied_partitions(kafka, kohort) => {
            Some("a partition whose records are all deleted takes no space at once")
        }
        AnyRequest::Fetch(request)
            if version >= 13
                && request.session_epoch > 0
                && (kafka.contains("error_code: 3,") || kafka.contains("error_code: 103,"))
                && kohort.contains("error_code: 100,") =>
        {
            // 103 where its name has become another topic's. Clients ask for metadata after any of the three.
            Some("a topic that was deleted during a session is an unknown id there, not an unknown name")
        }
        AnyRequest::JoinGroup(_) | AnyRequest::SyncGroup(_)
            if kafka == NO_ANSWER && kohort.contains("error_code: 27,") =>
        {
            Some("a member that asks again while it waits is told so on the connection where it waited")
        }
        AnyRequest::SyncGroup(_) if kafka == NO_ANSWER && kohort.contains("error_code: 25,") => {
            Some("a member that is removed while it waits for its assignment is told so")
        }
        AnyRequest::Fetch(_) if without_parts_of_batches(kafka) == without_spaces(kohort) => {
            Some("an answer ends with a whole batch; Kafka's may end within one, which clients pass over")
        }
        AnyRequest::CreateAcls(_) | AnyRequest::DeleteAcls(_) | AnyRequest::DescribeAcls(_)
            if kafka == CLOSED && kohort.contains("error_code: 42,") =>
        {
            Some("a zero where rules have a number is refused, and the connection stays")
        }
        AnyRequest::CreateAcls(_)
            if kafka.contains("error_code: -1,") && kohort.contains("error_code: 42,") =>
        {
            Some("a rule about any kind, pattern, operation or permission is refused in words, and it alone")
        }
        AnyRequest::CreateAcls(request)
            if request.creations.iter().any(|rule| rule.resource_name.is_empty() && rule.operation == 99) =>
        {
            Some("of several things that are wrong another one may be named")
        }
        AnyRequest::DescribeAcls(_)
            if kafka.contains("resources: [],")
                && ["Unknown patternFilter.", "Unknown entryFilter."]
                    .iter()
                    .any(|said| kohort.contains(said)) =>
        {
            Some("a filter for rules with an unknown number is refused, as Kafka does where they are deleted")
        }
        AnyRequest::DescribeUserScramCredentials(_)
            if kafka.contains("error_code: 31,") && kohort.contains("error_code: 31,") =>
        {
            Some("who may not see passwords is told so once, and not again for each user without a name")
        }
        AnyRequest::SaslAuthenticate(_)
            if kafka.contains("error_code: 58,")
                && kohort.contains("due to invalid credentials with SASL mechanism PLAIN") =>
        {
            Some("what is wrong with the form of a message of PLAIN is not told")
        }
        AnyRequest::SaslAuthenticate(request)
            if request.auth_bytes.starts_with(b"y,,") && kafka.contains("error_code: 58,")
                || request.auth_bytes.starts_with(b"n,,m=") && kohort.contains("error_code: 58,") =>
        {
            Some("SCRAM is read as its RFC says: `y` is taken, an extension that must be known is not")
        }
        AnyRequest::SaslAuthenticate(request)
            if request.auth_bytes.starts_with(b"n,,n=")
                && kafka.contains("error_code: 58,")
                && kohort.contains("r=a nonce,") =>
        {
            Some("whoever does not exist, or has no such password, is asked for a proof like everybody else")
        }
        _ if kafka.contains("error_code: 34,") && kohort == CLOSED => {
            Some("what does not belong into a login ends it without an answer")
        }
        AnyRequest::ApiVersions(_) if kafka == CLOSED && kohort.contains("error_code: 0,") => {
            Some("who asks for the versions twice before a login is told them twice")
        }
        _ => None,
    }
}

/// Whether only partitions differ that are empty in Kohort and still on disk in Kafka.
fn same_but_for_emptied_partitions(kafka: &str, kohort: &str) -> bool {
    let freed = |(kafka, kohort): (&str, &str)| {
        kafka == kohort
            || kafka.trim().starts_with("partition_size: ") && kohort.trim() == "partition_size: 0,"
    };
    kafka.lines().count() == kohort.lines().count() && kafka.lines().zip(kohort.lines()).all(freed)
}

const ODD_LISTS: &str = "a list of nothing but spaces is empty, and an empty item in a list is none";

/// Whether a setting that is a list is given without items, or with an empty one at its end.
fn is_odd_list(name: &str, value: Option<&str>) -> bool {
    let lists = [
        "cleanup.policy",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
    ];
    lists.contains(&name) && matches!(value, Some(" " | "compact,"))
}

fn without_parts_of_batches(text: &str) -> String {
    without_spaces(text).replace(&without_spaces(&format!("b\"{PART_OF_A_BATCH}\",")), "")
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}
