//! A shard on stage: what a line of a script does to it, and what comes of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordination::group::{
    Caller, Commit, CommitOffset, Effects, GroupLog, GroupRecord, GroupSettings, GroupValue, MemberValue,
    Minted, Now, Room, Shard, Ticket, Timestamp, WantedOffsets,
};
use coordination::ids::{GroupId, OrgId, TopicId};
use coordination::op::{self, LeavingMember};
use coordination::reply::{self, Reply};

use crate::promises::{recovered, stored};
use crate::text::{
    Words, assignment, assignment_text, full, metadata_text, partition, protocol, said, short, shown_event,
    shown_record, shown_reply, shown_underway,
};

pub(crate) struct Stage {
    pub(crate) settings: GroupSettings,
    pub(crate) shard: Shard,
    /// All records so far, as bytes.
    pub(crate) log: Vec<Stored>,
    pub(crate) now_ms: u64,
    pub(crate) minted: u128,
    pub(crate) room: Room,
    /// The names of the requests that have been sent, by ticket, and whether they have been answered.
    pub(crate) tickets: Vec<(String, bool)>,
    /// What was last shown of each group.
    pub(crate) shown: BTreeMap<String, String>,
    /// Generations that clients of group `g` have seen: how long the log was, which group it was, the generation.
    pub(crate) given_out: Vec<(usize, GroupId, i32)>,
}

#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) log: GroupLog,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

pub(crate) const WALL: i64 = 1_000_000;

impl Stage {
    pub(crate) fn new() -> Self {
        let settings = GroupSettings::default();
        Self {
            shard: Shard::new(OrgId::DEFAULT, settings.clone()),
            settings,
            log: Vec::new(),
            now_ms: 0,
            minted: 0,
            room: Room::UNLIMITED,
            tickets: Vec::new(),
            shown: BTreeMap::new(),
            given_out: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now { at: Timestamp::from_millis(self.now_ms), wall_ms: WALL + i64::try_from(self.now_ms).unwrap() }
    }

    pub(crate) fn mint(&mut self) -> u128 {
        self.minted += 1;
        self.minted
    }

    pub(crate) fn ticket(&mut self, name: &str) -> Ticket {
        self.tickets.push((name.to_owned(), false));
        Ticket(u64::try_from(self.tickets.len() - 1).unwrap())
    }

    pub(crate) fn step(&mut self, command: &str) -> String {
        let mut out = String::new();
        let mut effects = Effects::default();
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let rest = full(rest);
        let mut words = Words { named: BTreeMap::new(), plain: Vec::new() };
        for word in rest.split_whitespace() {
            // What is committed looks like a name and a value, too.
            match word.split_once('=') {
                Some((name, value)) if verb != "commit" || !name.contains('-') => {
                    words.named.insert(name, value);
                }
                _ => words.plain.push(word),
            }
        }
        let parked = self.tickets.len();
        self.run(verb, &words, &mut effects, &mut out);
        self.show(&effects, &mut out);
        for (name, answered) in &self.tickets[parked..] {
            if !answered {
                writeln!(out, "{name}: parked").unwrap();
            }
        }
        self.show_groups(&mut out);
        // What the log was given from outside is not in memory before the next restart.
        if verb != "stored" {
            self.check();
        }
        short(&out)
    }

    pub(crate) fn run(&mut self, verb: &str, words: &Words<'_>, effects: &mut Effects, out: &mut String) {
        let group = words.text("group", "g");
        let now = self.now();
        match verb {
            "settings" => self.set(words),
            "room" => {
                self.room = Room {
                    groups: words.number("groups", usize::MAX),
                    members: words.number("members", usize::MAX),
                    bytes: words.number("bytes", usize::MAX),
                };
            }
            "join" => self.join(words, effects),
            "sync" => self.sync(words, effects),
            "heartbeat" => {
                let op = op::Heartbeat {
                    group,
                    generation: words.number("generation", 1),
                    member_id: words.plain[0].to_owned(),
                    instance_id: words.get("instance").map(str::to_owned),
                };
                writeln!(out, "{}", said(self.shard.handle_heartbeat(now, &op).error)).unwrap();
            }
            "leave" => self.leave(words, effects, out),
            "members" => self.members(words),
            "wait" => {
                let until = self.now_ms + words.plain[0].parse::<u64>().unwrap();
                while let Some(next) = self.shard.next_deadline().filter(|next| next.as_millis() <= until) {
                    self.now_ms = self.now_ms.max(next.as_millis());
                    let mut effects = Effects::default();
                    self.shard.handle_deadlines(self.now(), &mut effects);
                    if !effects.is_empty() {
                        writeln!(out, "at {}", self.now_ms).unwrap();
                    }
                    self.show(&effects, out);
                    self.show_groups(out);
                }
                self.now_ms = until;
            }
            "stall" => self.now_ms += words.plain[0].parse::<u64>().unwrap(),
            "deadlines" => self.shard.handle_deadlines(now, effects),
            "commit" => self.commit(words, effects, out),
            "fetch" => self.fetch(words, out),
            "delete-offsets" => {
                let topics = words.plain.iter().map(|word| partition(word));
                let topics = topics.map(|(topic, partition)| (topic.to_owned(), vec![partition])).collect();
                let op = op::OffsetDelete { group, topics };
                match self.shard.handle_delete_offsets(now, &op, effects).result {
                    Err(code) => writeln!(out, "{}", said(Some(code))).unwrap(),
                    Ok(topics) => {
                        for (topic, partitions) in topics {
                            for (partition, error) in partitions {
                                writeln!(out, "{topic}-{partition}: {}", said(error)).unwrap();
                            }
                        }
                    }
                }
            }
            "delete-group" => {
                let error = self.shard.handle_delete_group(now, &group, effects);
                writeln!(out, "{}", said(error)).unwrap();
            }
            "topic-deleted" => {
                let id = TopicId::from_u128(words.number("id", 1));
                self.shard.handle_topic_deleted(now, words.plain[0], id, effects);
            }
            "expire" => self.shard.handle_expiry(now, effects),
            "list" => {
                let list = |name| -> Vec<String> {
                    words
                        .get(name)
                        .map(|list| list.split(',').map(|word| word.replace('_', " ")).collect())
                        .unwrap_or_default()
                };
                let mut listed = Vec::new();
                self.shard
                    .list(&op::ListGroups { states: list("states"), types: list("types") }, &mut listed);
                for reply::ListedGroup { group, protocol_type, state } in listed {
                    writeln!(out, "{group} type={protocol_type:?} {state}").unwrap();
                }
            }
            "describe" => self.describe(&group, out),
            "events" => {
                for event in self.shard.events(&group) {
                    writeln!(out, "{}", shown_event(&event)).unwrap();
                }
            }
            "underway" => {
                let underway = self.shard.underway(&group);
                writeln!(out, "{}", underway.map_or_else(|| "no".to_owned(), |it| shown_underway(&it)))
                    .unwrap();
            }
            "usage" => {
                let usage = self.shard.usage();
                writeln!(out, "{} groups, {} members", usage.groups, usage.members).unwrap();
            }
            "stored" => self.store(words),
            "restart" => {
                self.shard = recovered(self.settings.clone(), &self.log, GroupLog::Kohort);
                self.shown.clear();
                self.shard.handle_loaded(now, effects);
                // A crash takes the parked requests with it.
                for (_, answered) in &mut self.tickets {
                    *answered = true;
                }
            }
            "unload" => self.shard.handle_unload(effects),
            other => panic!("unknown command {other}"),
        }
    }

    pub(crate) fn set(&mut self, words: &Words<'_>) {
        for (name, value) in &words.named {
            let number: u64 = value.parse().unwrap();
            let time = Duration::from_millis(number);
            let size = usize::try_from(number).unwrap();
            match *name {
                "delay" => self.settings.initial_rebalance_delay = time,
                "quiet" => self.settings.initial_rebalance_quiet = time,
                "max-size" => self.settings.members_max = size,
                "min-session" => self.settings.session_timeout_min = time,
                "max-session" => self.settings.session_timeout_max = time,
                "metadata-max" => self.settings.offset_metadata_max = size,
                "retention" => self.settings.offsets_retention = time,
                other => panic!("unknown setting {other}"),
            }
        }
        self.shard.configure(self.settings.clone());
    }

    pub(crate) fn join(&mut self, words: &Words<'_>, effects: &mut Effects) {
        let name = words.plain[0];
        let version: i16 = words.number("v", 9);
        let session_timeout_ms = words.number("session", 10_000);
        let rebalance_timeout_ms =
            if version == 0 { session_timeout_ms } else { words.number("rebalance", 60_000) };
        let protocols = words.get("protocols").unwrap_or("range").split(',');
        let op = op::JoinGroup {
            group: words.text("group", "g"),
            member_id: words.text("member", ""),
            instance_id: words.get("instance").map(str::to_owned),
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type: words.text("type", "consumer"),
            protocols: protocols.filter(|protocol| !protocol.is_empty()).map(protocol).collect(),
            reason: words.get("reason").map(str::to_owned),
            takes_member_id_first: version >= 4,
            can_skip_assignment: version >= 9,
        };
        let member = self.mint();
        let minted = Minted { member, group: GroupId::from_u128(member) };
        let caller = Caller { client_id: name, host: "/127.0.0.1" };
        let ticket = self.ticket(name);
        self.shard.handle_join(self.now(), ticket, &op, caller, minted, self.room, effects);
    }

    pub(crate) fn sync(&mut self, words: &Words<'_>, effects: &mut Effects) {
        let name = words.plain[0];
        let version: i16 = words.number("v", 5);
        let named = |name, default: &str| match words.get(name) {
            Some("null") => None,
            Some(value) => Some(value.to_owned()),
            None => Some(default.to_owned()).filter(|_| version >= 5),
        };
        let op = op::SyncGroup {
            group: words.text("group", "g"),
            generation: words.number("generation", 1),
            member_id: words.text("member", name),
            instance_id: words.get("instance").map(str::to_owned),
            protocol_type: named("type", "consumer"),
            protocol: named("protocol", "range"),
            must_name_protocol: version >= 5,
            assignments: words
                .get("assign")
                .map(|list| list.split(',').map(assignment).collect())
                .unwrap_or_default(),
        };
        let ticket = self.ticket(name);
        self.shard.handle_sync(self.now(), ticket, &op, self.room, effects);
    }

    pub(crate) fn leave(&mut self, words: &Words<'_>, effects: &mut Effects, out: &mut String) {
        let leaving = |word: &&str| {
            let (id, instance) = word.split_once('/').map_or((*word, None), |(id, name)| (id, Some(name)));
            LeavingMember {
                member_id: if id == "\"\"" { String::new() } else { id.to_owned() },
                instance_id: instance.map(str::to_owned),
                reason: words.get("reason").map(str::to_owned),
            }
        };
        let op = op::LeaveGroup {
            group: words.text("group", "g"),
            members: words.plain.iter().map(leaving).collect(),
        };
        let first = words.plain.first().copied().unwrap_or_default();
        let own = first.rsplit_once("-00000000-").map_or(first, |(client, _)| client);
        let caller = Caller { client_id: words.get("client").unwrap_or(own), host: "/127.0.0.1" };
        match self.shard.handle_leave(self.now(), &op, caller, effects).result {
            Err(code) => writeln!(out, "{}", said(Some(code))).unwrap(),
            Ok(left) => {
                for left in left {
                    let instance = left.instance_id.map(|name| format!("/{name}")).unwrap_or_default();
                    writeln!(out, "{}{instance}: {}", left.member_id, said(left.error)).unwrap();
                }
            }
        }
    }

    /// Brings members into a group that has none, and does not show how.
    pub(crate) fn members(&mut self, words: &Words<'_>) {
        let mut hidden = Effects::default();
        let mut ids = Vec::new();
        let also = |name: &str| words.get(name).map(|value| format!(" {name}={value}")).unwrap_or_default();
        let group = also("group");
        let options =
            [group.clone(), also("session"), also("rebalance"), also("type"), also("protocols")].concat();
        let mut told = |stage: &mut Self, line: &str| {
            hidden.clear();
            let line = full(line);
            let (verb, rest) = line.split_once(' ').unwrap();
            let mut words = Words { named: BTreeMap::new(), plain: Vec::new() };
            for word in rest.split_whitespace() {
                match word.split_once('=') {
                    Some((name, value)) => drop(words.named.insert(name, value)),
                    None => words.plain.push(word),
                }
            }
            stage.run(verb, &words, &mut hidden, &mut String::new());
            stage.show(&hidden, &mut String::new());
        };
        for word in &words.plain {
            let (name, instance) =
                word.split_once('/').map_or((*word, ""), |(name, instance)| (name, instance));
            let prefix = if instance.is_empty() { name } else { instance };
            let instance = if instance.is_empty() { String::new() } else { format!(" instance={instance}") };
            told(self, &format!("join {name} v=5{instance}{options}"));
            let id = format!("{prefix}~{}", self.minted);
            if instance.is_empty() {
                told(self, &format!("join {name} v=5 member={id}{options}"));
            }
            ids.push((name, id));
        }
        let wait = self.settings.initial_rebalance_delay.as_millis() * 2;
        told(self, &format!("wait {wait}"));
        let assigned: Vec<String> = ids.iter().map(|(name, id)| format!("{id}:p-{name}")).collect();
        let assigned = words.get("assign").map(str::to_owned).unwrap_or_else(|| assigned.join(","));
        let generation = words.number("generation", 1);
        for (name, id) in &ids {
            let line =
                format!("sync {name} member={id} v=3 generation={generation} assign={assigned}{group}");
            told(self, &line);
        }
    }

    pub(crate) fn commit(&mut self, words: &Words<'_>, effects: &mut Effects, out: &mut String) {
        let topic_id = TopicId::from_u128(words.number("id", 1));
        let offsets: Vec<(Arc<str>, i32, Vec<&str>)> = words
            .plain
            .iter()
            .map(|word| {
                let (place, value) = word.split_once('=').unwrap();
                let (topic, partition) = partition(place);
                (Arc::from(topic), partition, value.splitn(3, '/').collect())
            })
            .collect();
        let offsets: Vec<CommitOffset<'_>> = offsets
            .iter()
            .map(|(topic, partition, value)| CommitOffset {
                topic,
                topic_id,
                partition: *partition,
                offset: value[0].parse().unwrap(),
                leader_epoch: value.get(1).map_or(-1, |epoch| epoch.parse().unwrap()),
                metadata: value.get(2).copied().unwrap_or_default(),
            })
            .collect();
        let group = words.text("group", "g");
        let member_id = words.text("member", "");
        let commit = Commit {
            group: &group,
            generation: words.number("generation", -1),
            member_id: &member_id,
            instance_id: words.get("instance"),
            retention_ms: words.get("retention").map(|ms| ms.parse().unwrap()),
            knows_missing_groups: words.number("v", 9) >= 9,
            offsets: &offsets,
        };
        let minted = GroupId::from_u128(self.mint());
        match self.shard.handle_commit(self.now(), &commit, minted, self.room, effects) {
            Err(code) => writeln!(out, "{}", said(Some(code))).unwrap(),
            Ok(refused) => {
                for (place, offset) in offsets.iter().enumerate() {
                    let error = refused.iter().find(|(refused, _)| *refused == place).map(|(_, code)| *code);
                    writeln!(out, "{}-{}: {}", offset.topic, offset.partition, said(error)).unwrap();
                }
            }
        }
    }

    pub(crate) fn fetch(&self, words: &Words<'_>, out: &mut String) {
        let group = words.text("group", "g");
        let id = TopicId::from_u128(words.number("id", 0));
        let places: Vec<(&str, [i32; 1])> = words
            .plain
            .iter()
            .filter(|word| **word != "all")
            .map(|word| partition(word))
            .map(|(topic, partition)| (topic, [partition]))
            .collect();
        let wanted: Vec<WantedOffsets<'_>> =
            places.iter().map(|(name, partitions)| WantedOffsets { name, id, partitions }).collect();
        let wanted = if words.plain.contains(&"all") { None } else { Some(wanted.as_slice()) };
        for topic in self.shard.fetch_offsets(&group, wanted) {
            for offset in topic.partitions {
                let error = offset.error.map(|code| format!(" {}", said(Some(code)))).unwrap_or_default();
                write!(out, "{}-{}: {}{error}", topic.name, offset.index, offset.offset).unwrap();
                writeln!(
                    out,
                    " epoch={} metadata={:?} id={}",
                    offset.leader_epoch,
                    offset.metadata,
                    topic.id.as_u128()
                )
                .unwrap();
            }
        }
    }

    pub(crate) fn describe(&self, group: &str, out: &mut String) {
        let described = self.shard.describe(group);
        writeln!(
            out,
            "{} type={:?} protocol={:?}",
            described.state, described.protocol_type, described.protocol
        )
        .unwrap();
        for member in described.members {
            let instance = member.instance_id.map(|name| format!(" instance={name}")).unwrap_or_default();
            writeln!(
                out,
                "{}{instance} client={} host={} metadata={} assignment={}",
                member.member_id,
                member.client_id,
                member.client_host,
                metadata_text(&member.metadata),
                assignment_text(&member.assignment)
            )
            .unwrap();
        }
    }

    /// Puts a record into the log that this shard did not write.
    pub(crate) fn store(&mut self, words: &Words<'_>) {
        let group: Arc<str> = words.text("group", "g").into();
        let members = words.get("members").unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let member = |word: &str| {
            let (id, instance) = word.split_once('/').map_or((word, None), |(id, name)| (id, Some(name)));
            MemberValue {
                member_id: id.to_owned(),
                instance_id: instance.map(str::to_owned),
                client_id: id.to_owned(),
                client_host: "/127.0.0.1".to_owned(),
                rebalance_timeout_ms: words.number("rebalance", 60_000),
                session_timeout_ms: words.number("session", 10_000),
                subscription: Bytes::from_static(b"stored"),
                assignment: Bytes::from(format!("p-{id}")),
            }
        };
        let value = GroupValue {
            protocol_type: words.text("type", "consumer"),
            generation: words.number("generation", 1),
            protocol: words.get("protocol").map(str::to_owned),
            leader: words.get("leader").map(str::to_owned),
            state_timestamp_ms: words.get("since").map(|ms| ms.parse().unwrap()),
            members: members.map(member).collect(),
        };
        let value = Some(Box::new(value)).filter(|_| !words.plain.contains(&"gone"));
        self.log.push(stored(&GroupRecord::Group { group, value }));
    }

    /// Writes what a step brought about, and keeps its records.
    pub(crate) fn show(&mut self, effects: &Effects, out: &mut String) {
        for record in &effects.records {
            writeln!(out, "{}", shown_record(record)).unwrap();
            self.log.push(stored(record));
        }
        for (ticket, reply) in &effects.replies {
            let (name, answered) = &mut self.tickets[usize::try_from(ticket.0).unwrap()];
            assert!(!*answered, "{name} is answered twice");
            *answered = true;
            writeln!(out, "{name}: {}", shown_reply(reply)).unwrap();
            if let Reply::JoinGroup(reply::JoinGroup { result: Ok(joined), .. }) = reply
                && let Some(identity) = self.shard.identity("g")
            {
                self.given_out.push((self.log.len(), identity.id, joined.generation));
            }
        }
    }

    /// Writes the groups that have another state or other members than before.
    pub(crate) fn show_groups(&mut self, out: &mut String) {
        let mut listed = Vec::new();
        self.shard.list(&op::ListGroups { states: Vec::new(), types: Vec::new() }, &mut listed);
        let mut shown = BTreeMap::new();
        for reply::ListedGroup { group, state, .. } in listed {
            let mut line = format!("{group:?} is {state}").replace('"', "");
            let members = self.shard.describe(&group).members;
            if !members.is_empty() {
                let ids: Vec<String> = members.into_iter().map(|member| member.member_id).collect();
                write!(line, ": {}", ids.join(" ")).unwrap();
            }
            if self.shown.get(&group) != Some(&line) {
                writeln!(out, "{line}").unwrap();
            }
            shown.insert(group, line);
        }
        for group in self.shown.keys().filter(|group| !shown.contains_key(*group)) {
            writeln!(out, "{group} is gone").unwrap();
        }
        self.shown = shown;
    }
}
