//! How long partitions stood still, from what was worked on when.

use std::time::Duration;

use crate::station::Seen;

/// A partition stood still when its next record lay there for longer than this.
pub(crate) const STANDS_STILL: Duration = Duration::from_millis(100);

/// What one change of the members did to all partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disturbance {
    /// For each partition that another member has now: from the last record of the one to the first of the other.
    pub(crate) pauses_us: Vec<u64>,
    /// How many partitions stood still at any time.
    pub(crate) stood_still: usize,
    /// For how long all partitions together stood still.
    pub(crate) total_us: u64,
    /// From the change until all members had their share and no partition was behind.
    pub(crate) settled_us: u64,
    /// Records that were worked on by two members.
    pub(crate) twice: usize,
    /// Records that were worked on by nobody.
    pub(crate) lost: i64,
}

impl Disturbance {
    /// Of what was worked on between two moments, in partitions whose records were there at these times.
    pub(crate) fn of(partitions: &[Vec<Seen>], there_us: &[Vec<u64>], from_us: u64, to_us: u64) -> Self {
        let mut it = Self { settled_us: to_us - from_us, ..Self::default() };
        for (seen, there_us) in partitions.iter().zip(there_us) {
            let mut stood_still = 0;
            for pair in seen.windows(2) {
                let [before, after] = pair else { continue };
                if after.at_us < from_us || after.at_us > to_us {
                    continue;
                }
                let gap_us = after.at_us.saturating_sub(before.at_us);
                if before.who != after.who {
                    it.pauses_us.push(gap_us);
                }
                // The acknowledgement may come after the record was worked on.
                let there_us = usize::try_from(after.offset).ok().and_then(|offset| there_us.get(offset));
                let since_us = there_us.map_or(after.at_us, |there_us| before.at_us.max(*there_us));
                let waited_us = after.at_us.saturating_sub(since_us);
                if u128::from(waited_us) > STANDS_STILL.as_micros() {
                    stood_still += waited_us;
                }
                if after.offset <= before.offset {
                    it.twice += usize::try_from(before.offset - after.offset + 1).unwrap();
                } else {
                    it.lost += after.offset - before.offset - 1;
                }
            }
            it.stood_still += usize::from(stood_still > 0);
            it.total_us += stood_still;
        }
        it
    }
}

/// A row of the table: several changes of the same kind.
pub(crate) fn row(name: &str, change: &str, all: &[Disturbance]) -> String {
    let mut pauses: Vec<u64> = all.iter().flat_map(|it| it.pauses_us.iter().copied()).collect();
    pauses.sort_unstable();
    let pause =
        |share: usize| milliseconds(pauses.get((pauses.len() * share / 100).min(pauses.len().max(1) - 1)));
    let each = |figure: &dyn Fn(&Disturbance) -> f64, digits: usize| {
        let mut figures: Vec<f64> = all.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let (low, high) = (figures.first().unwrap_or(&0.0), figures.last().unwrap_or(&0.0));
        let median = figures.get(figures.len() / 2).unwrap_or(&0.0);
        format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
    };
    format!(
        "| {name} | {change} | {} | {} | {} | {} | {} | {} | {} |",
        each(&|it| it.pauses_us.len() as f64, 0),
        pause(50),
        pause(99),
        milliseconds(pauses.last()),
        each(&|it| it.stood_still as f64, 0),
        each(&|it| it.total_us as f64 / 1e6, 2),
        each(&|it| it.settled_us as f64 / 1e6, 1),
    )
}

pub(crate) const HEAD: &str = "\
| partitions are given by | change | partitions that changed member | their pause p50, ms | p99, ms | longest, ms | \
partitions that stood still | stood still in all, partition-seconds | settled after, s |
|---|---|---|---|---|---|---|---|---|";

fn milliseconds(us: Option<&u64>) -> String {
    us.map_or_else(String::new, |us| format!("{:.0}", *us as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_what_stood_still_are_told_apart() {
        let seen = |offset, who, at_ms: u64| Seen { offset, who, at_us: at_ms * 1_000 };
        let moved = vec![seen(0, 0, 0), seen(1, 0, 10), seen(2, 1, 310), seen(3, 1, 320)];
        let stopped = vec![seen(0, 2, 0), seen(1, 2, 500), seen(2, 2, 505)];
        let well = vec![seen(0, 3, 5), seen(1, 3, 95)];
        let idle = vec![seen(0, 3, 5), seen(1, 3, 905)];
        let there_ms: [&[u64]; 4] = [&[0, 10, 20, 30], &[0, 10, 505], &[0, 10], &[0, 900]];
        let there_us: Vec<Vec<u64>> =
            there_ms.iter().map(|times| times.iter().map(|ms| ms * 1_000).collect()).collect();
        let it = Disturbance::of(&[moved, stopped, well, idle], &there_us, 1, 1_000_000);
        assert_eq!(it.pauses_us, [300_000]);
        assert_eq!((it.stood_still, it.total_us), (2, 290_000 + 490_000));
        assert_eq!((it.twice, it.lost), (0, 0));
        let bad = vec![seen(0, 0, 1), seen(1, 0, 2), seen(1, 1, 3), seen(3, 1, 4)];
        let it = Disturbance::of(&[bad], &[vec![0; 4]], 1, 1_000_000);
        assert_eq!((it.twice, it.lost), (1, 1));
    }
}
