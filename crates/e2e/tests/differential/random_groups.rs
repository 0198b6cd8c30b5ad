//! Requests of members that nobody directs: they join, sync, commit and leave as they like, mostly as who they are.

use bytes::Bytes;
use wire::api::*;
use wire::{AnyRequest, ApiKey};

use crate::group_requests::{self as requests, LONG, NOBODY};
use crate::names::Names;
use crate::pair::Pair;
use crate::random::Dice;
use crate::seats::Said;

/// Members of a group, each with a connection of its own; one more than a group may have.
const SEATS: usize = 5;

/// Some groups, whose members act in turn.
pub(crate) struct Crowd {
    groups: Vec<Circle>,
    /// How many groups there were.
    founded: usize,
}

/// One group and the connections of its members.
struct Circle {
    name: String,
    first: usize,
}

/// Whom a request names.
#[derive(Clone, Copy)]
struct Who {
    seat: usize,
    /// The id it was given so many ids ago.
    ago: usize,
    unknown: bool,
    /// How far its generation is off.
    off: i32,
    instance: Option<&'static str>,
}

impl Who {
    fn id(&self, names: &Names) -> String {
        if self.unknown { NOBODY.to_owned() } else { names.former_id(self.seat, self.ago) }
    }

    fn generation(&self, names: &Names) -> i32 {
        names.generation(self.seat).saturating_add(self.off)
    }

    fn instance(&self) -> Option<String> {
        self.instance.map(str::to_owned)
    }
}

impl Crowd {
    pub(crate) fn gather(pair: &mut Pair) -> Self {
        let mut crowd = Self { groups: Vec::new(), founded: 0 };
        for place in 0..3 {
            let circle = crowd.found(1 + place * SEATS);
            circle.vacate(pair);
            crowd.groups.push(circle);
        }
        crowd
    }

    fn found(&mut self, first: usize) -> Circle {
        self.founded += 1;
        Circle { name: format!("random-{}", self.founded), first }
    }

    /// One request of somebody, or a look at everything.
    pub(crate) fn step(&mut self, pair: &mut Pair, dice: &mut Dice) {
        let place = dice.below(self.groups.len());
        if dice.below(10) == 0 {
            self.look(place, pair, dice);
            return;
        }
        let is_full = self.groups[place].step(pair, dice).iter().any(|(_, code)| *code == 81);
        // Which of several members follows a leader that is gone is up to Kafka's hash map of random ids: from there
        // on the two groups are not the same.
        let is_over = std::mem::take(&mut pair.parted) || dice.below(100) == 0;
        // One that is full of members who hung up gets nowhere.
        if is_over || is_full && dice.below(4) == 0 {
            let first = self.groups[place].first;
            self.groups[place].vacate(pair);
            self.groups[place] = self.found(first);
        }
    }

    fn look(&self, place: usize, pair: &mut Pair, dice: &mut Dice) {
        let name = self.groups[place].name.clone();
        let all: Vec<&str> = self.groups.iter().map(|circle| circle.name.as_str()).collect();
        match dice.below(6) {
            0 => {
                let version = dice.version(ApiKey::ListGroups);
                let states: &[&str] = dice.pick(&[&[], &["Stable"], &["empty", "preparingrebalance"]]);
                pair.ask("random list", version, |_| {
                    AnyRequest::ListGroups(list_groups::ListGroupsRequest {
                        states_filter: states.iter().map(|&state| state.to_owned()).collect(),
                        types_filter: Vec::new(),
                    })
                });
            }
            1 => {
                let version = dice.version(ApiKey::DescribeGroups);
                pair.ask("random description", version, |_| requests::describe_groups(&all));
            }
            2 | 3 => {
                let version = dice.version(ApiKey::OffsetFetch);
                let everything = version >= 2 && dice.below(2) == 0;
                let topics: &[(&str, &[i32])] = &[("t", &[0, 1, 2, 3]), ("u", &[1])];
                let groups = if version >= 8 { &all[..] } else { &[name.as_str()][..] };
                pair.ask("random offsets", version, |names| {
                    requests::fetch(names, groups, (!everything).then_some(topics), true)
                });
            }
            4 => {
                let topics: &[(&str, &[i32])] = dice.pick(&[&[("t", &[0])], &[("u", &[0, 1]), ("t", &[2])]]);
                pair.ask("random forgetting", 0, |_| requests::forget(&name, topics));
            }
            _ => {
                let version = dice.version(ApiKey::DeleteGroups);
                pair.ask("random deletion", version, |_| requests::delete_groups(&[&name]));
            }
        }
    }
}

impl Circle {
    fn vacate(&self, pair: &mut Pair) {
        (self.first..self.first + SEATS).for_each(|seat| pair.vacate(seat));
    }

    fn step(&self, pair: &mut Pair, dice: &mut Dice) -> Said {
        let seat = self.first + dice.below(SEATS);
        if pair.owed.contains_key(&seat) {
            // It waits. As a rule it goes on waiting; sometimes it loses patience.
            if dice.below(12) == 0 {
                pair.hang_up(seat);
            }
            return Said::new();
        }
        let said = match dice.below(20) {
            0..=7 => self.join(seat, pair, dice),
            8..=12 => self.sync(seat, pair, dice),
            13..=15 => self.heartbeat(seat, pair, dice),
            16 => self.leave(seat, pair, dice),
            _ => self.commit(seat, pair, dice),
        };
        // Whom nobody knows any more begins again, as clients do.
        if said.contains(&(seat, 25)) && dice.below(2) == 0 {
            pair.vacate(seat);
        }
        said
    }

    /// The member itself, mostly.
    ///
    /// Who may have to wait takes nobody else's id: of two that wait as one Kafka forgets the first.
    fn somebody(&self, seat: usize, may_wait: bool, dice: &mut Dice) -> Who {
        let me = Who { seat, ago: 0, unknown: false, off: 0, instance: instance_of(seat - self.first) };
        if dice.below(5) > 0 {
            return me;
        }
        let other = self.first + dice.below(SEATS);
        match dice.below(6) {
            0 if !may_wait => Who { seat: other, ..me },
            1 => Who { ago: 1, ..me },
            2 => Who { unknown: true, ..me },
            3 => Who { off: dice.pick(&[-1, 1, -1000, i32::MAX]), ..me },
            4 => Who { instance: instance_of(other - self.first), ..me },
            _ => Who { instance: None, ..me },
        }
    }

    fn join(&self, seat: usize, pair: &mut Pair, dice: &mut Dice) -> Said {
        let who = self.somebody(seat, true, dice);
        let versions: &[i16] = if who.instance.is_some() { &[5, 6, 7, 8, 9] } else { &[0, 2, 3, 4, 6, 9] };
        let version = dice.pick(versions);
        let anew = dice.below(40) == 0;
        let kind = if dice.below(30) == 0 { "other" } else { "consumer" };
        let offered: &[&str] = match dice.below(10) {
            0 => &["sticky", "range"],
            1 => &["range", "sticky"],
            2 => dice.pick(&[&["other"][..], &[], &["sticky"]]),
            _ => &["range"],
        };
        let topics: &[&str] = if dice.below(8) == 0 { &["u", "t"] } else { &["t"] };
        pair.act("random join", seat, version, &self.name, |names| {
            let metadata = Bytes::from(requests::subscription(topics, seat));
            AnyRequest::JoinGroup(join_group::JoinGroupRequest {
                group_id: self.name.clone(),
                session_timeout_ms: LONG,
                rebalance_timeout_ms: LONG,
                member_id: if anew { String::new() } else { who.id(names) },
                group_instance_id: who.instance(),
                protocol_type: kind.to_owned(),
                protocols: offered.iter().map(|name| requests::protocol(name, &metadata)).collect(),
                reason: None,
            })
        })
    }

    fn sync(&self, seat: usize, pair: &mut Pair, dice: &mut Dice) -> Said {
        let who = self.somebody(seat, true, dice);
        let version = dice.version(ApiKey::SyncGroup);
        let protocol = dice.pick(&["range", "range", "range", "sticky"]);
        let nobody = dice.below(10) == 0;
        pair.act("random sync", seat, version, &self.name, |names| {
            let assignment = |member_id: &String| sync_group::SyncGroupRequestAssignment {
                member_id: member_id.clone(),
                assignment: format!("the work of generation {}", names.generation(seat)).into(),
            };
            let assigned = if nobody { &[] } else { names.led(seat) };
            AnyRequest::SyncGroup(sync_group::SyncGroupRequest {
                group_id: self.name.clone(),
                generation_id: who.generation(names),
                member_id: who.id(names),
                group_instance_id: who.instance(),
                protocol_type: Some("consumer".to_owned()),
                protocol_name: Some(protocol.to_owned()),
                assignments: assigned.iter().map(assignment).collect(),
            })
        })
    }

    fn heartbeat(&self, seat: usize, pair: &mut Pair, dice: &mut Dice) -> Said {
        let who = self.somebody(seat, false, dice);
        let version = dice.version(ApiKey::Heartbeat);
        pair.act("random heartbeat", seat, version, &self.name, |names| {
            AnyRequest::Heartbeat(heartbeat::HeartbeatRequest {
                group_id: self.name.clone(),
                generation_id: who.generation(names),
                member_id: who.id(names),
                group_instance_id: who.instance(),
            })
        })
    }

    fn leave(&self, seat: usize, pair: &mut Pair, dice: &mut Dice) -> Said {
        let who = self.somebody(seat, false, dice);
        let version = dice.version(ApiKey::LeaveGroup);
        let others: Vec<usize> = (0..dice.below(4)).map(|_| self.first + dice.below(SEATS)).collect();
        let by_name = dice.below(4) == 0;
        pair.act("random leave", seat, version, &self.name, |names| {
            let mut members = vec![requests::leaver(&who.id(names), who.instance)];
            for &other in &others {
                let instance = instance_of(other - self.first);
                if by_name && instance.is_some() {
                    members.push(requests::leaver("", instance));
                } else {
                    members.extend((1..4).map(|ago| requests::leaver(&names.former_id(other, ago), None)));
                }
            }
            AnyRequest::LeaveGroup(leave_group::LeaveGroupRequest {
                group_id: self.name.clone(),
                member_id: who.id(names),
                members,
            })
        })
    }

    fn commit(&self, seat: usize, pair: &mut Pair, dice: &mut Dice) -> Said {
        let who = self.somebody(seat, false, dice);
        let version = dice.version(ApiKey::OffsetCommit);
        let offset = i64::try_from(dice.below(1000)).expect("a small number");
        let topics: &[(&str, &[i32])] =
            dice.pick(&[&[("t", &[0])], &[("t", &[1, 2]), ("u", &[0])], &[("nosuch", &[0]), ("t", &[0, 9])]]);
        let nobody = dice.below(6) == 0;
        pair.act("random commit", seat, version, &self.name, |names| {
            let mut request = requests::commit(&self.name, seat, names, topics);
            request.generation_id_or_member_epoch = who.generation(names);
            request.member_id = who.id(names);
            request.group_instance_id = who.instance();
            if nobody {
                requests::simple(names, &mut request);
                request.group_instance_id = None;
            }
            for partition in request.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.committed_offset = offset;
            }
            AnyRequest::OffsetCommit(request)
        })
    }
}

/// Two members of each group are static.
fn instance_of(place: usize) -> Option<&'static str> {
    [None, None, None, Some("a"), Some("b")].get(place).copied().flatten()
}
