//! What can be measured, one file each.

pub(crate) mod churn;
pub(crate) mod commit;
pub(crate) mod connections;
pub(crate) mod consume;
pub(crate) mod echo;
pub(crate) mod first_record;
pub(crate) mod groups;
pub(crate) mod handoff;
pub(crate) mod heartbeat;
pub(crate) mod join;
pub(crate) mod latency;
pub(crate) mod produce;
pub(crate) mod recovery;
pub(crate) mod start;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::compare::Target;
use crate::figure::Outcome;
use crate::members::Habits;
use crate::misuse::Misuse;
use crate::options::Common;
use crate::setting::Setting;

/// One thing that can be measured.
pub(crate) trait Scenario {
    /// What it is called on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What can be said to every scenario.
    fn common(&self) -> &Common;

    /// What tells this run from others.
    fn settings(&self) -> Vec<Setting>;

    /// The numbers that `--sweep` may change, by the names of their flags.
    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)>;

    /// Refuses what cannot be measured so, before anything is.
    fn check(&self) -> Result<(), Misuse> {
        Ok(())
    }

    /// What is measured, in turn; ratios refer to the first.
    fn targets(&self) -> Result<Vec<Target>> {
        Target::all(self.common())
    }

    /// Measures once. Any wrong reply is an error: a run with errors is no result.
    fn measure(&self, target: &Target) -> Result<Outcome>;
}

/// How long members may take until all groups that a load needs are stable.
pub(crate) const SETTLES_WITHIN: Duration = Duration::from_secs(120);

/// A name that no earlier run has used, so that what one left behind does not meet the next.
pub(crate) fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("bench-{what}-{:x}-{}", since.as_millis(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Names of groups, and how many of the members each gets; there must be as many members as groups.
pub(crate) fn spread(what: &str, members: usize, groups: usize) -> Vec<(String, usize)> {
    let run = unique(what);
    let size = |group: usize| members * (group + 1) / groups - members * group / groups;
    (0..groups).map(|group| (format!("{run}-{group}"), size(group))).collect()
}

/// Members that stay when a load keeps them waiting, and have nothing to read.
pub(crate) fn habits() -> Habits {
    Habits {
        session_timeout: Duration::from_secs(300),
        rebalance_timeout: Duration::from_secs(300),
        heartbeat_interval: Duration::from_secs(3),
        topic: "bench".to_owned(),
        partitions: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_spread_evenly() {
        let sizes = |members, groups| -> Vec<usize> {
            spread("test", members, groups).into_iter().map(|(_, size)| size).collect()
        };
        assert_eq!(sizes(64, 1), [64]);
        assert_eq!(sizes(7, 3), [2, 2, 3]);
        assert_eq!(sizes(3, 3), [1, 1, 1]);
    }

    #[test]
    fn names_are_never_used_twice() {
        assert_ne!(unique("a"), unique("a"));
    }
}
