//! From the disk to memory, and what has to be there then.

use std::collections::VecDeque;

use coordination::group::{Effects, GroupRecord, GroupSettings, Shard};
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::GroupState;

use crate::disk::{ReadOrder, Split};

use super::admin::Forgetting;
use super::asking::{fetch_all, now};
use super::comparing::check_same;
use super::{Broker, Context, Live};

impl Broker {
    /// Which shards have to be loaded.
    pub fn unloaded(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|at| self.shards[*at].live.is_none()).collect()
    }

    /// Reads a shard back from its disk and puts it to work.
    pub fn load(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        if self.shards[shard].live.is_some() {
            return Ok(());
        }
        let machine = self.read_back(shard, ReadOrder::Loaded)?;
        context
            .trace
            .note(|| format!("     shard {shard} is loaded from {} records", self.shards[shard].disk.size()));
        self.check_read_back(context, shard, &machine)?;
        self.next_life += 1;
        let hosted = &mut self.shards[shard];
        hosted.life = self.next_life;
        hosted.live = Some(Live {
            machine,
            durable_machine: Shard::new(OrgId::DEFAULT, self.settings.clone()),
            gathering: Vec::new(),
            flushing: None,
            emitted: 0,
            durable: 0,
            under_way: 0,
            held: VecDeque::new(),
            deadline: None,
            is_unloaded: false,
        });
        let durable_machine = self.read_back(shard, ReadOrder::Loaded)?;
        let live = self.shards[shard].live.as_mut().expect("it was just put there");
        live.durable_machine = durable_machine;
        let mut effects = Effects::default();
        live.machine.handle_loaded(now(context.now), &mut effects);
        self.take_up(context, shard, &mut effects, Forgetting::Leftovers, Split::Anywhere)
    }

    fn read_back(&self, shard: usize, order: ReadOrder) -> Result<Shard, String> {
        let mut machine = Shard::new(OrgId::DEFAULT, self.settings.clone());
        for record in self.shards[shard].disk.read(order)? {
            machine.apply(&record);
        }
        Ok(machine)
    }

    /// Holds what came back against what was seen, and against other ways of reading the same logs.
    fn check_read_back(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        machine: &Shard,
    ) -> Result<(), String> {
        let again = self.read_back(shard, ReadOrder::OffsetsFirst)?;
        check_same(machine, &again, || format!("shard {shard} read the other way round"))?;
        if context.random.per_mille(300) {
            self.shards[shard].disk.compact(context.random.per_mille(500));
            let again = self.read_back(shard, ReadOrder::Loaded)?;
            check_same(machine, &again, || format!("shard {shard} after compaction"))?;
        }
        self.check_still_members(context, shard)?;
        let groups: Vec<String> = context.checker.groups().map(str::to_owned).collect();
        for group in groups.iter().filter(|group| self.shard_of(group) == shard) {
            let found = fetch_all(machine, group);
            context.checker.check_restored(group, &found)?;
            let highest = machine.identity(group).map_or(0, |identity| identity.generation);
            context.checker.check_highest(group, highest)?;
            context.checker.see_restored(context.now, group);
        }
        Ok(())
    }

    /// A restart is not noticed by members that heartbeat: those of the last stable generation are in it still.
    fn check_still_members(&self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let mut machine = self.read_back(shard, ReadOrder::Loaded)?;
        machine.handle_loaded(now(context.now), &mut Effects::default());
        for record in machine.durable() {
            let GroupRecord::Group { group, value: Some(value) } = record else { continue };
            if value.members.len() > self.settings.members_max {
                continue;
            }
            for member in value.members {
                let op = op::Heartbeat {
                    group: group.to_string(),
                    generation: value.generation,
                    member_id: member.member_id,
                    instance_id: member.instance_id,
                };
                context.checker.checks += 1;
                if let Some(error) = machine.handle_heartbeat(now(context.now), &op).error {
                    return Err(format!("{group}: after a restart {op:?} is answered {error}"));
                }
            }
        }
        Ok(())
    }

    /// Fails unless the machines' running count of bytes is what reading them back comes to. That holds when all
    /// groups are at rest and every member offers the one protocol that is written down.
    pub fn check_bytes(&self, at: u64) -> Result<(), String> {
        for (shard, hosted) in self.shards.iter().enumerate() {
            let Some(live) = hosted.live.as_ref().filter(|live| live.durable == live.emitted) else {
                continue;
            };
            let mut read = self.read_back(shard, ReadOrder::Loaded)?;
            // A group that has become too large would rebalance.
            read.configure(GroupSettings { members_max: usize::MAX, ..self.settings.clone() });
            read.handle_loaded(now(at), &mut Effects::default());
            // A group that had only offsets and has lost them is in memory until it expires, and nowhere else.
            let is_forgotten = |group: &str| {
                read.describe(group).state == GroupState::Dead
                    && live.machine.describe(group).state == GroupState::Empty
                    && fetch_all(&live.machine, group).is_empty()
            };
            let mut listed = Vec::new();
            live.machine.list(&op::ListGroups { states: Vec::new(), types: Vec::new() }, &mut listed);
            if listed.iter().any(|it| is_forgotten(&it.group)) {
                continue;
            }
            let (usage, counted) = (live.machine.usage(), read.usage());
            if usage != counted {
                return Err(format!("shard {shard} counts {usage:?} and holds {counted:?}"));
            }
        }
        Ok(())
    }

    /// Whether all shards are at work.
    pub fn is_loaded(&self) -> bool {
        self.shards.iter().all(|it| it.live.is_some())
    }
}
