//! Requests, records and answers as words of a script.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use coordination::error_code::ErrorCode;
use coordination::group::{Cause, Culprit, Event, GroupRecord, Underway, consumer_protocol};
use coordination::reply::{self, Reply};

use crate::stage::WALL;

/// `name=value` words of a command, and the others.
pub(crate) struct Words<'a> {
    pub(crate) named: BTreeMap<&'a str, &'a str>,
    pub(crate) plain: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.named.get(name).map(|value| if *value == "\"\"" { "" } else { value })
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or(default).to_owned()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T
    where
        T::Err: std::fmt::Debug,
    {
        self.get(name).map_or(default, |value| value.parse().unwrap())
    }
}

pub(crate) fn shown_record(record: &GroupRecord) -> String {
    match record {
        GroupRecord::Identity(identity) => {
            format!("record identity {} generation={}", identity.name, identity.generation)
        }
        GroupRecord::IdentityDeleted(_) => "record identity gone".to_owned(),
        GroupRecord::Event { event: Some(event), .. } => format!("record {}", shown_event(event)),
        GroupRecord::Event { slot, event: None, .. } => format!("record event {slot} gone"),
        GroupRecord::Group { group, value: None } => format!("record group {group} gone"),
        GroupRecord::Group { group, value: Some(value) } => {
            let mut line = format!(
                "record group {group} generation={} type={:?} protocol={} leader={}",
                value.generation,
                value.protocol_type,
                value.protocol.as_deref().unwrap_or("-"),
                value.leader.as_deref().unwrap_or("-")
            );
            for member in &value.members {
                write!(line, " {}={}", member.member_id, assignment_text(&member.assignment)).unwrap();
            }
            line
        }
        GroupRecord::Offset { group, topic, partition, value: None } => {
            format!("record offset {group} {topic}-{partition} gone")
        }
        GroupRecord::Offset { group, topic, partition, value: Some(value) } => {
            let mut line = format!("record offset {group} {topic}-{partition} {}", value.offset);
            if value.leader_epoch != -1 {
                write!(line, " epoch={}", value.leader_epoch).unwrap();
            }
            if !value.metadata.is_empty() {
                write!(line, " metadata={:?}", value.metadata).unwrap();
            }
            if let Some(expire_ms) = value.expire_ms {
                write!(line, " expires={}", expire_ms - WALL).unwrap();
            }
            write!(line, " at={} id={}", value.commit_ms - WALL, value.topic_id.as_u128()).unwrap();
            line
        }
    }
}

pub(crate) fn shown_underway(underway: &Underway) -> String {
    let Underway { members_before, members, stage, waits_for_more, newcomers, .. } = underway;
    let waits_for: Vec<&str> = underway.waits_for.iter().map(|who| &*who.member).collect();
    format!(
        "{}: {stage:?}, members {members_before} to {members}, waits for {waits_for:?} and {waits_for_more} more, \
         {newcomers} newcomers",
        shown_cause(&underway.cause, underway.who.as_ref()),
    )
}

fn shown_cause(cause: &Cause, who: Option<&Culprit>) -> String {
    let cause = serde_json::to_string(cause).unwrap().replace(['"', '{', '}'], "");
    let who = who.map(|who| format!(" by {}", who.member)).unwrap_or_default();
    format!("{}{who}", cause.trim_end_matches(':'))
}

pub(crate) fn shown_event(event: &Event) -> String {
    let cause = shown_cause(&event.cause, event.who.as_ref());
    let moved = event.partitions_moved.map(|count| format!(", {count} moved")).unwrap_or_default();
    format!(
        "event {}: {cause}, {:?} generation={}, members {} to {}, join {} ms, sync {} ms{moved}",
        event.number,
        event.outcome,
        event.generation,
        event.members_before,
        event.members_after,
        event.join_ms,
        event.sync_ms
    )
}

pub(crate) fn shown_reply(reply: &Reply) -> String {
    match reply {
        Reply::JoinGroup(reply::JoinGroup { member_id, result: Err(code) }) => {
            format!("{} member={member_id:?}", said(Some(*code))).replace('"', "")
        }
        Reply::JoinGroup(reply::JoinGroup { member_id, result: Ok(joined) }) => {
            let mut line =
                format!("joined {member_id} generation={} leader={}", joined.generation, joined.leader);
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            write!(line, " {}/{}", text(&joined.protocol_type), text(&joined.protocol)).unwrap();
            if joined.skip_assignment {
                line.push_str(" skip-assignment");
            }
            if !joined.members.is_empty() {
                line.push_str(" members");
                for member in &joined.members {
                    let instance =
                        member.instance_id.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
                    write!(line, " {}{instance}{}", member.member_id, metadata_text(&member.metadata))
                        .unwrap();
                }
            }
            line
        }
        Reply::SyncGroup(reply::SyncGroup { result: Err(code) }) => said(Some(*code)),
        Reply::SyncGroup(reply::SyncGroup { result: Ok(synced) }) => {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let names = format!("{}/{}", text(&synced.protocol_type), text(&synced.protocol));
            format!("synced {names} {}", assignment_text(&synced.assignment))
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn said(error: Option<ErrorCode>) -> String {
    error.map_or("ok".to_owned(), |code| format!("{} {}", code.number(), code.name()))
}

/// `range`, `range@t1+t2`, `range@t1+t2/t1-0+t2-0` with partitions that the member has, or `range:text`.
pub(crate) fn protocol(text: &str) -> (String, Bytes) {
    if let Some((name, topics)) = text.split_once('@') {
        let (topics, owned) =
            topics.split_once('/').map_or((topics, None), |(topics, owned)| (topics, Some(owned)));
        let mut bytes = vec![0, u8::from(owned.is_some())];
        let topics: Vec<&str> = topics.split('+').filter(|topic| !topic.is_empty()).collect();
        bytes.extend(i32::try_from(topics.len()).unwrap().to_be_bytes());
        for topic in topics {
            bytes.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1_i32).to_be_bytes());
        if let Some(owned) = owned {
            put_partitions(&mut bytes, owned);
        }
        return (name.to_owned(), bytes.into());
    }
    let (name, metadata) = text.split_once(':').unwrap_or((text, ""));
    (name.to_owned(), Bytes::from(metadata.to_owned()))
}

/// `a~1:text` or `a~1@t-0+t-1`.
pub(crate) fn assignment(text: &str) -> (String, Bytes) {
    if let Some((id, partitions)) = text.split_once('@') {
        let mut bytes = vec![0, 0];
        put_partitions(&mut bytes, partitions);
        bytes.extend((-1_i32).to_be_bytes());
        return (id.to_owned(), bytes.into());
    }
    let (id, assigned) = text.split_once(':').unwrap_or((text, ""));
    (id.to_owned(), Bytes::from(assigned.to_owned()))
}

/// Appends `t-0+t-1` as subscriptions and assignments have it.
fn put_partitions(bytes: &mut Vec<u8>, partitions: &str) {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for place in partitions.split('+').filter(|place| !place.is_empty()) {
        let (topic, partition) = partition(place);
        topics.entry(topic).or_default().push(partition);
    }
    bytes.extend(i32::try_from(topics.len()).unwrap().to_be_bytes());
    for (topic, partitions) in topics {
        bytes.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_bytes());
        bytes.extend(i32::try_from(partitions.len()).unwrap().to_be_bytes());
        bytes.extend(partitions.iter().flat_map(|partition| partition.to_be_bytes()));
    }
}

pub(crate) fn metadata_text(metadata: &Bytes) -> String {
    if metadata.is_empty() {
        return String::new();
    }
    match consumer_protocol::subscribed_topics(metadata) {
        Some(topics) => format!("@{}", topics.join("+")),
        None => format!(":{}", String::from_utf8_lossy(metadata)),
    }
}

pub(crate) fn assignment_text(assignment: &Bytes) -> String {
    if assignment.is_empty() {
        return "nothing".to_owned();
    }
    match consumer_protocol::assigned_partitions(assignment) {
        Some(topics) => {
            let places = topics.iter().flat_map(|(topic, partitions)| {
                partitions.iter().map(move |partition| format!("{topic}-{partition}"))
            });
            format!("@{}", places.collect::<Vec<_>>().join("+"))
        }
        None => String::from_utf8_lossy(assignment).into_owned(),
    }
}

/// `t-0`: the topic and the partition.
pub(crate) fn partition(text: &str) -> (&str, i32) {
    let (topic, partition) = text.rsplit_once('-').unwrap();
    (topic, partition.parse().unwrap())
}

/// How every id that the stage mints ends, but for its number.
pub(crate) const UUID: &str = "-00000000-0000-4000-8000-";

/// `a~1` becomes the member id that it stands for.
pub(crate) fn full(text: &str) -> String {
    let mut parts = text.split('~');
    let mut full = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|character: char| !character.is_ascii_digit()).unwrap_or(part.len());
        let number: u128 = part[..end].parse().unwrap();
        write!(full, "{UUID}{number:012x}{}", &part[end..]).unwrap();
    }
    full
}

/// The opposite of [`full`].
pub(crate) fn short(text: &str) -> String {
    let mut parts = text.split(UUID);
    let mut short = parts.next().unwrap().to_owned();
    for part in parts {
        write!(short, "~{}{}", u128::from_str_radix(&part[..12], 16).unwrap(), &part[12..]).unwrap();
    }
    short
}
