//! What goes wrong, and what people do besides.

use coordination::group::GroupSettings;
use coordination::op;

use crate::broker::Deed;
use crate::consumer::Profile;
use crate::consumer_protocol::Partition;
use crate::message::{Commit, Committed, Request};
use crate::plan;

use super::{Event, Turn, World};

impl World {
    pub(super) fn chaos(&mut self) -> Result<(), String> {
        if self.is_calm() {
            return self.calm_down();
        }
        let pause = self.random.between(1, self.faults.pause_ms);
        let until_calm = self.calm_at - self.now;
        self.after(pause.min(until_calm), Event::Chaos);
        let at = self.random.index(self.everybody.len());
        let profile = self.everybody[at].consumer.profile.clone();
        match self.random.between(0, if self.has_rail { 119 } else { 99 }) {
            0..=11 => {
                self.trace.note(|| format!("  c{at} crashes"));
                self.summary.counts.consumer_crashes += u64::from(self.everybody[at].consumer.lives());
                self.everybody[at].consumer.crash();
                self.hang_up(at);
                self.come_back(at);
            }
            12..=21 => {
                self.trace.note(|| format!("  c{at} leaves"));
                self.with(at, Turn::Leave)?;
                self.come_back(at);
            }
            22..=29 => {
                let until = (self.now + self.random.between(100, profile.session_ms * 2)).min(self.calm_at);
                self.trace.note(|| format!("  c{at} stalls until {until}"));
                let stalled = &mut self.everybody[at].consumer.stalled_until;
                *stalled = until.max(*stalled);
            }
            30..=37 => {
                let until = self.now + self.random.between(100, profile.rebalance_ms * 3 / 2);
                self.trace.note(|| format!("  c{at} is busy until {until}"));
                self.everybody[at].consumer.be_busy(self.now, until);
                self.with(at, Turn::Nothing)?;
            }
            38..=44 => {
                let topics = plan::plan_topics(&mut self.random, &self.topics);
                self.trace.note(|| format!("  c{at} subscribes to {topics:?}"));
                self.everybody[at].consumer.subscribe(topics);
                self.with(at, Turn::Nothing)?;
            }
            45..=49 => {
                let names: Vec<String> = self.topics.keys().cloned().collect();
                let name = self.random.pick(&names).clone();
                let count = self.topics.get_mut(&name).expect("it is one of them");
                if *count < 12 {
                    *count += 1;
                }
                let count = *count;
                self.trace.note(|| format!("     {name} has {count} partitions"));
            }
            50..=53 => {
                self.trace.note(|| format!("  c{at} seeks back"));
                self.everybody[at].consumer.seek_back(20);
            }
            54..=62 if self.faults.crashes && self.up => self.broker_ends()?,
            63..=68 if self.up => {
                let until = (self.now + self.random.between(10, 20_000)).min(self.calm_at);
                self.trace.note(|| format!("broker stalls until {until}"));
                self.stalled_until = until.max(self.stalled_until);
                self.rails_feel_stall();
            }
            69..=76 => self.come_back(at),
            77..=90 if self.up && self.stalled_until <= self.now => self.administer(&profile)?,
            54..=62 | 96..=99 if self.up => self.confuse(at),
            91..=95 => {
                if let Some(connection) = self.everybody[at].link {
                    self.trace.note(|| format!("  c{at} is disconnected"));
                    self.summary.counts.cut += 1;
                    self.after(0, Event::ConsumerSeesClosed(connection));
                    self.after(2, Event::GatewaySeesClosed(connection));
                }
            }
            100..=107 => self.cut_some_rail(),
            108..=113 => self.stall_some_rail(),
            114..=119 => self.kill_some_gateway(),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn come_back(&mut self, at: usize) {
        if self.random.per_mille(800) {
            let delay = self.random.between(0, 20_000);
            self.after(delay, Event::Started(at));
        }
    }

    pub(super) fn broker_ends(&mut self) -> Result<(), String> {
        if self.random.per_mille(300) && self.stalled_until <= self.now {
            self.trace.note(|| "broker shuts down".to_owned());
            self.summary.counts.shutdowns += 1;
            self.with_broker(|broker, context| broker.unload(context))?;
        } else {
            self.trace.note(|| "broker crashes".to_owned());
            self.summary.counts.crashes += 1;
        }
        self.broker.crash(&mut self.random, &mut self.summary.counts);
        self.up = false;
        self.stalled_until = 0;
        if self.has_rail {
            self.broker_leaves_rails();
        } else {
            let connections = self.gateways[0].kill();
            self.tell_closed(connections);
        }
        let delay = self.random.between(1, 15_000);
        self.after(delay, Event::BrokerStarts);
        Ok(())
    }

    /// Somebody sends what no client of this group would: it is nobody, or somebody else, or of another time.
    fn confuse(&mut self, at: usize) {
        let consumer = &self.everybody[at].consumer;
        let group = consumer.profile.group.clone();
        let (mut member_id, instance_id) = (consumer.member_id.clone(), consumer.profile.instance_id.clone());
        let mut generation = consumer.generation;
        match self.random.between(0, 3) {
            0 => generation -= 1,
            1 => generation += 1,
            2 => member_id = "nobody".to_owned(),
            _ => {}
        }
        let names: Vec<&String> = self.topics.keys().collect();
        let partition = ((*self.random.pick(&names)).clone(), 0);
        let request = match self.random.between(0, 5) {
            0 => Request::Heartbeat(op::Heartbeat { group, generation, member_id, instance_id }),
            1 => Request::Sync(op::SyncGroup {
                group,
                // Whoever leads the right generation is believed, even with an assignment of nothing to nobody.
                generation: consumer.generation - 1,
                member_id,
                instance_id,
                protocol_type: Some("consumer".to_owned()),
                protocol: None,
                must_name_protocol: false,
                assignments: Vec::new(),
            }),
            2 => Request::Leave(op::LeaveGroup {
                group,
                members: vec![op::LeavingMember { member_id, instance_id, reason: None }],
            }),
            // A tool that sets the offsets of a group that it is not in.
            3 => self.stray_commit(group, -1, String::new(), None, partition),
            4 => self.stray_commit(group, generation, member_id, instance_id, partition),
            _ => Request::Join(op::JoinGroup {
                group,
                // Under an id of its own it could make the group one of its kind.
                member_id: "nobody".to_owned(),
                instance_id,
                session_timeout_ms: 6_000,
                rebalance_timeout_ms: 6_000,
                protocol_type: "connect".to_owned(),
                protocols: vec![("other".to_owned(), bytes::Bytes::from_static(b"?"))],
                reason: None,
                takes_member_id_first: true,
                can_skip_assignment: false,
            }),
        };
        self.stray(at, request);
    }

    fn stray_commit(
        &mut self,
        group: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
        partition: Partition,
    ) -> Request {
        self.commits += 1;
        let metadata = format!("s{}", self.commits);
        let offset = i64::try_from(self.random.between(0, 1_000)).expect("a small number");
        let offsets = vec![Committed { partition, offset, metadata }];
        Request::Commit(Commit { group, generation, member_id, instance_id, offsets })
    }

    pub(super) fn administer(&mut self, profile: &Profile) -> Result<(), String> {
        let group = profile.group.clone();
        let names: Vec<String> = self.topics.keys().cloned().collect();
        let topic = self.random.pick(&names).clone();
        let deed = match (self.random.between(0, 9), &profile.instance_id) {
            (0..=2, _) => Deed::DeleteGroup(group),
            (3..=4, _) => Deed::DeleteOffsets(group, (topic, 0)),
            (5, _) => Deed::DeleteTopic(topic),
            (6..=7, Some(instance)) => Deed::Remove(group, instance.clone()),
            (8, _) => {
                let members_max =
                    if self.random.per_mille(500) { 1 + self.random.index(4) } else { usize::MAX };
                Deed::Configure(GroupSettings { members_max, ..self.broker.settings().clone() })
            }
            _ => Deed::Expire,
        };
        self.with_broker(|broker, context| broker.administer(context, &deed))
    }

    /// The faults are over: nobody is busy any more, everybody is started, and all shall settle.
    pub(super) fn calm_down(&mut self) -> Result<(), String> {
        self.trace.note(|| "calm".to_owned());
        if self.lifts_limits {
            self.broker.lift_limits();
        }
        self.start_gateways();
        for at in 0..self.everybody.len() {
            self.everybody[at].consumer.be_free(self.now);
            self.with(at, Turn::Nothing)?;
            if self.random.per_mille(700) {
                self.after(0, Event::Started(at));
            }
        }
        self.after(0, Event::Look);
        Ok(())
    }
}
