//! What administrators do to groups, and what the broker does to all of them now and then.

use coordination::group::{Caller, Effects, GroupRecord, GroupSettings, Room};
use coordination::ids::TopicId;
use coordination::op;

use crate::consumer_protocol::Partition;
use crate::disk::Split;
use crate::message::{Request, Response};

use super::asking::now;
use super::{Broker, Context};

/// What an administrator may do.
#[derive(Clone, Debug)]
pub enum Deed {
    /// DeleteGroups.
    DeleteGroup(String),
    /// OffsetDelete.
    DeleteOffsets(String, Partition),
    /// DeleteTopics, as far as groups see it.
    DeleteTopic(String),
    /// LeaveGroup for a static member by somebody else.
    Remove(String, String),
    /// The time for the expiry of offsets has come.
    Expire,
    /// Settings are changed.
    Configure(GroupSettings),
}

/// Why a step may forget offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgetting {
    /// It may not.
    Nothing,
    /// Somebody has asked for it.
    Asked,
    /// They may be old enough.
    Expired,
    /// A crash has left a deletion half done.
    Leftovers,
}

impl Broker {
    /// Has an administrator do something to a group, or the broker to all.
    pub fn administer(&mut self, context: &mut Context<'_>, deed: &Deed) -> Result<(), String> {
        for shard in 0..self.shards.len() {
            let concerned = match deed {
                Deed::DeleteGroup(group) | Deed::DeleteOffsets(group, _) | Deed::Remove(group, _) => {
                    self.shard_of(group) == shard
                }
                Deed::DeleteTopic(_) | Deed::Expire | Deed::Configure(_) => true,
            };
            let Some(live) = self.shards[shard].live.as_mut().filter(|_| concerned) else { continue };
            let now = now(context.now);
            let mut effects = Effects::default();
            let (outcome, forgetting) = match deed {
                Deed::DeleteGroup(group) => {
                    let error = live.machine.handle_delete_group(now, group, &mut effects);
                    (format!("{error:?}"), Forgetting::Asked)
                }
                Deed::DeleteOffsets(group, (topic, partition)) => {
                    let op = op::OffsetDelete {
                        group: group.clone(),
                        topics: vec![(topic.clone(), vec![*partition])],
                    };
                    let reply = live.machine.handle_delete_offsets(now, &op, &mut effects);
                    (format!("{:?}", reply.result), Forgetting::Asked)
                }
                Deed::DeleteTopic(topic) => {
                    let id = self.topic_ids.get(topic).copied().unwrap_or(TopicId::ZERO);
                    live.machine.handle_topic_deleted(now, topic, id, &mut effects);
                    (String::new(), Forgetting::Asked)
                }
                Deed::Remove(group, instance_id) => {
                    let member = op::LeavingMember {
                        member_id: String::new(),
                        instance_id: Some(instance_id.clone()),
                        reason: Some("an administrator removes it".to_owned()),
                    };
                    let op = op::LeaveGroup { group: group.clone(), members: vec![member] };
                    let caller = Caller { client_id: "admin", host: "/10.0.0.1" };
                    let reply = live.machine.handle_leave(now, &op, caller, &mut effects);
                    let outcome = format!("{:?}", reply.result);
                    let (request, response) = (Request::Leave(op), Response::Leave(reply));
                    context.checker.see_answer(context.now, &request, &response)?;
                    (outcome, Forgetting::Nothing)
                }
                Deed::Expire => {
                    live.machine.handle_expiry(now, &mut effects);
                    (String::new(), Forgetting::Expired)
                }
                Deed::Configure(settings) => {
                    live.machine.configure(settings.clone());
                    (String::new(), Forgetting::Nothing)
                }
            };
            context.trace.note(|| format!("     admin: {deed:?}: {outcome}"));
            self.take_up(context, shard, &mut effects, forgetting, Split::Anywhere)?;
        }
        if let Deed::Configure(settings) = deed {
            self.settings = settings.clone();
        }
        Ok(())
    }
}

/// Tells the checker what a step has forgotten, unless it should not have.
pub(super) fn see_forgotten(
    context: &mut Context<'_>,
    settings: &GroupSettings,
    limits: Room,
    records: &[GroupRecord],
    forgetting: Forgetting,
) -> Result<(), String> {
    for record in records.iter().filter(|record| record.is_tombstone()) {
        // Where there is no room, old stories make place for new ones.
        let makes_room = matches!(record, GroupRecord::Event { .. }) && limits.bytes < usize::MAX;
        if forgetting == Forgetting::Nothing && !makes_room {
            return Err(format!("{record:?} for no reason"));
        }
        match record {
            GroupRecord::Offset { group, topic, partition, .. } => {
                let partition = (topic.to_string(), *partition);
                let retention = u64::try_from(settings.offsets_retention.as_millis()).unwrap_or(u64::MAX);
                if forgetting == Forgetting::Expired
                    && let Some(at) = context.checker.newest_commit(group, &partition)
                    && at + retention > context.now
                {
                    return Err(format!(
                        "{group}: an offset of {partition:?} expires {} ms after its commit",
                        context.now - at
                    ));
                }
                context.checker.see_forgotten(context.now, group, &partition);
            }
            GroupRecord::Group { group, .. } => context.checker.see_group_removed(group),
            GroupRecord::Identity(_) | GroupRecord::IdentityDeleted(_) | GroupRecord::Event { .. } => {}
        }
    }
    Ok(())
}
