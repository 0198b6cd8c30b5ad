//! Memory against the disk, and growth against the room that there was.

use coordination::group::{GroupRecord, Room, Shard, Usage};
use coordination::reply::GroupState;

/// Fails unless `read`, which was read back from a log, knows all that `machine` says is durable, and nothing else.
///
/// Who is in a group in mid-rebalance is not written down: what the log has of it then is the generation before.
pub(super) fn check_same(machine: &Shard, read: &Shard, what: impl Fn() -> String) -> Result<(), String> {
    let (known, came_back) = (machine.durable(), read.durable());
    let mut known = known.iter().peekable();
    for record in &came_back {
        if known.next_if_eq(&record).is_some() {
            continue;
        }
        let rebalancing = match record {
            GroupRecord::Group { group, .. } => matches!(
                machine.describe(group).state,
                GroupState::PreparingRebalance | GroupState::CompletingRebalance
            ),
            _ => false,
        };
        if !rebalancing {
            return Err(format!("{}: there is\n{record:?}\nwhere memory has\n{:?}", what(), known.peek()));
        }
    }
    match known.next() {
        Some(record) => Err(format!("{}: there is no\n{record:?}", what())),
        None => Ok(()),
    }
}

/// Fails if a request took more than there was room for. A rebalance keeps once more what the members had before it,
/// for its story, and does not ask for that: what is there already bounds it.
pub(super) fn check_growth(before: Usage, after: Usage, room: Room) -> Result<(), String> {
    let groups = after.groups.saturating_sub(before.groups);
    let members = after.members.saturating_sub(before.members);
    let bytes = after.bytes.saturating_sub(before.bytes);
    if groups <= room.groups && members <= room.members && bytes <= room.bytes.saturating_add(before.bytes) {
        return Ok(());
    }
    Err(format!(
        "{groups} groups, {members} members and {bytes} bytes were added where there was room for {room:?}"
    ))
}
