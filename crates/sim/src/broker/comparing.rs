//! Memory against the disk, and counts against what is counted.

use coordination::group::{GroupRecord, Shard};
use coordination::op;
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

/// Fails unless the machine's running count of groups and members is right.
pub(super) fn check_usage(machine: &Shard) -> Result<(), String> {
    let mut listed = Vec::new();
    machine.list(&op::ListGroups { states: Vec::new(), types: Vec::new() }, &mut listed);
    let members: usize = listed.iter().map(|it| machine.describe(&it.group).members.len()).sum();
    let usage = machine.usage();
    if (usage.groups, usage.members) == (listed.len(), members) {
        return Ok(());
    }
    Err(format!("the usage is {usage:?}, and there are {} groups with {members} members", listed.len()))
}
