//! What consumers did with a partition, from what they have written down, and what must be true of it.

use serde_json::Value;

/// One process, from its journal.
pub(crate) struct Life {
    pub(crate) tenures: Vec<Tenure>,
}

/// The time in which one process worked on one partition.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    pub(crate) owner: String,
    pub(crate) partition: usize,
    pub(crate) epoch: u64,
    /// The first offset it works on.
    pub(crate) first: i64,
    pub(crate) began_us: u64,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It let go; `next` is the first offset that it has not worked on.
    Released { at_us: u64, next: i64 },
    /// It was told that the partition is not its own any more.
    Revoked { at_us: u64, next: i64 },
    /// The process was dead at that time.
    Killed { at_us: u64 },
    /// The process ended without a word, though nobody has killed it.
    Unknown,
    /// It is still at work.
    Open,
}

/// Records that somebody says it has worked on.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) records: i64,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    pub(crate) at_us: u64,
}

impl Life {
    pub(crate) fn read(owner: &str, journal: &str, killed_us: Option<u64>, has_ended: bool) -> Self {
        let mut tenures: Vec<Tenure> = Vec::new();
        // A kill leaves at most a part of the last line.
        for line in journal.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let line: Value = serde_json::from_str(line).unwrap();
            let partition = usize::try_from(line["partition"].as_u64().unwrap()).unwrap();
            let (at_us, epoch) = (line["at_us"].as_u64().unwrap(), line["epoch"].as_u64().unwrap());
            let offset = line["offset"].as_i64().unwrap();
            let is_open = |tenure: &&mut Tenure| tenure.partition == partition && tenure.end == End::Open;
            let open = tenures.iter_mut().find(is_open);
            let event = line["event"].as_str().unwrap();
            if event == "begins" {
                assert!(open.is_none(), "{owner} begins a second time: {line}");
                let (owner, began_us) = (owner.to_owned(), at_us);
                tenures.push(Tenure { owner, partition, epoch, first: offset, began_us, end: End::Open });
                continue;
            }
            let open = open.unwrap_or_else(|| panic!("{owner} ends what it has not begun: {line}"));
            assert_eq!(open.epoch, epoch, "{owner} ends another epoch");
            open.end = match event {
                "releases" => End::Released { at_us, next: offset },
                "revoked" => End::Revoked { at_us, next: offset },
                _ => panic!("{owner} does what nobody knows: {line}"),
            };
        }
        for open in tenures.iter_mut().filter(|tenure| tenure.end == End::Open) {
            open.end = match killed_us {
                Some(at_us) => End::Killed { at_us },
                None if has_ended => End::Unknown,
                None => End::Open,
            };
        }
        Self { tenures }
    }
}

impl Tenure {
    fn ended_us(&self) -> u64 {
        match self.end {
            End::Released { at_us, .. } | End::Revoked { at_us, .. } | End::Killed { at_us } => at_us,
            End::Unknown | End::Open => u64::MAX,
        }
    }
}

impl Run {
    /// Reads the results of one partition, in the order in which they were written by whomever.
    pub(crate) fn read_all(results: &str) -> Vec<Self> {
        // What follows the last line break is being written at this moment.
        let lines = results.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        lines
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                let number = |name: &str| line[name].as_i64().unwrap();
                Self {
                    first: number("first"),
                    last: number("last"),
                    records: number("records"),
                    owner: line["owner"].as_str().unwrap().to_owned(),
                    epoch: line["epoch"].as_u64().unwrap(),
                    at_us: line["at_us"].as_u64().unwrap(),
                }
            })
            .collect()
    }
}

/// How a partition went from one process to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// The former owner let go in good order.
    pub(crate) handed_over: usize,
    /// It was fenced, or had heard nothing of the assigner for too long.
    pub(crate) after_revocation: usize,
    /// It was killed while it worked on the partition.
    pub(crate) after_kill: usize,
}

impl Moves {
    pub(crate) fn all(self) -> usize {
        self.handed_over + self.after_revocation + self.after_kill
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.handed_over += other.handed_over;
        self.after_revocation += other.after_revocation;
        self.after_kill += other.after_kill;
    }
}

/// Checks the history of one partition with so many records, and says how often it has moved.
///
/// - Each record was worked on once, by whomever: also after a kill, since the counters find the exact place in their
///   results and not in the committed offset, which may be half a second old.
/// - Nobody began before the one before had ended, on the clock that all of them share; kills end a tenure when the
///   process is dead.
/// - After a release the next owner went on with the very offset at which the one before had stopped.
/// - Epochs grow with each owner; the same name may go on under its epoch.
/// - Each run of records lies within the tenure of the owner who wrote it, in offsets and in time.
pub(crate) fn check(tenures: &[Tenure], runs: &[Run], records: i64) -> Result<Moves, String> {
    let mut next = 0;
    for run in runs {
        if run.first != next || run.records != run.last - run.first + 1 {
            return Err(format!("offset {next} was to be next, not {run:?}"));
        }
        next = run.last + 1;
    }
    if next != records {
        return Err(format!("{next} of {records} records were worked on"));
    }
    let mut tenures = tenures.to_vec();
    tenures.sort_by_key(|tenure| tenure.began_us);
    let mut moves = Moves::default();
    for pair in tenures.windows(2) {
        let [before, after] = pair else { continue };
        let wrong = |what: &str| Err(format!("{what}: {before:?}, then {after:?}"));
        if after.began_us < before.ended_us() {
            return wrong("two work at the same time");
        }
        if after.epoch < before.epoch || (after.epoch == before.epoch && after.owner != before.owner) {
            return wrong("the epoch does not grow");
        }
        match before.end {
            End::Released { next, .. } if next != after.first => return wrong("a gap, or records twice"),
            End::Released { .. } => moves.handed_over += 1,
            End::Revoked { next, .. } if next > after.first => return wrong("records twice"),
            End::Revoked { .. } => moves.after_revocation += 1,
            End::Killed { .. } => moves.after_kill += 1,
            End::Unknown | End::Open => return wrong("the end is not known"),
        }
    }
    let mut at = 0;
    for run in runs {
        let holds = |tenure: &Tenure| {
            let last = match tenure.end {
                End::Released { next, .. } | End::Revoked { next, .. } => next - 1,
                End::Killed { .. } | End::Unknown | End::Open => i64::MAX,
            };
            tenure.owner == run.owner
                && tenure.epoch == run.epoch
                && (tenure.first..=last).contains(&run.first)
                && (tenure.first..=last).contains(&run.last)
                && (tenure.began_us..=tenure.ended_us()).contains(&run.at_us)
        };
        // Runs and tenures are in the same order.
        match tenures[at..].iter().position(holds) {
            Some(further) => at += further,
            None => return Err(format!("{run:?} lies in no tenure of its owner: {tenures:?}")),
        }
    }
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenure(owner: &str, epoch: u64, first: i64, began_us: u64, end: End) -> Tenure {
        Tenure { owner: owner.to_owned(), partition: 0, epoch, first, began_us, end }
    }

    fn run(owner: &str, epoch: u64, offsets: [i64; 2], at_us: u64) -> Run {
        let [first, last] = offsets;
        Run { first, last, records: last - first + 1, owner: owner.to_owned(), epoch, at_us }
    }

    /// `a` works on 0 to 9 and lets go; `b` works on 10 to 19 and is killed; `a` works on 20 to 29.
    fn good() -> (Vec<Tenure>, Vec<Run>) {
        let tenures = vec![
            tenure("a", 3, 20, 600, End::Open),
            tenure("a", 1, 0, 100, End::Released { at_us: 200, next: 10 }),
            tenure("b", 2, 10, 300, End::Killed { at_us: 400 }),
        ];
        let runs = vec![run("a", 1, [0, 9], 150), run("b", 2, [10, 19], 350), run("a", 3, [20, 29], 700)];
        (tenures, runs)
    }

    fn refused(tenures: &[Tenure], runs: &[Run]) -> String {
        check(tenures, runs, 30).unwrap_err()
    }

    #[test]
    fn a_good_history_is_accepted_and_counted() {
        let (tenures, runs) = good();
        let moves = check(&tenures, &runs, 30).unwrap();
        assert_eq!(moves, Moves { handed_over: 1, after_revocation: 0, after_kill: 1 });
        assert!(check(&tenures, &runs, 31).unwrap_err().contains("30 of 31"));
    }

    #[test]
    fn records_that_are_left_out_or_done_twice_are_found() {
        let (tenures, mut runs) = good();
        runs[1].first = 11;
        assert!(refused(&tenures, &runs).contains("offset 10 was to be next"));
        runs[1].first = 9;
        assert!(refused(&tenures, &runs).contains("offset 10 was to be next"));
        let (mut tenures, runs) = good();
        tenures[2].first = 9;
        assert!(refused(&tenures, &runs).contains("records twice"));
    }

    #[test]
    fn two_at_work_at_the_same_time_are_found() {
        let (mut tenures, runs) = good();
        tenures[2].began_us = 199;
        assert!(refused(&tenures, &runs).contains("at the same time"));
        let (mut tenures, runs) = good();
        tenures[2].end = End::Unknown;
        assert!(refused(&tenures, &runs).contains("at the same time"));
    }

    #[test]
    fn epochs_that_do_not_grow_and_work_outside_of_a_tenure_are_found() {
        let (mut tenures, mut runs) = good();
        (tenures[2].epoch, runs[1].epoch) = (1, 1);
        assert!(refused(&tenures, &runs).contains("epoch"));
        let (tenures, mut runs) = good();
        runs[0].at_us = 201;
        assert!(refused(&tenures, &runs).contains("no tenure"));
    }

    #[test]
    fn a_journal_is_read_up_to_its_last_whole_line() {
        let journal = "{\"at_us\":5,\"event\":\"begins\",\"partition\":3,\"epoch\":2,\"offset\":7}\n\
                       {\"at_us\":6,\"event\":\"begins\",\"partition\":4,\"epoch\":1,\"offset\":0}\n\
                       {\"at_us\":9,\"event\":\"releases\",\"partition\":3,\"epoch\":2,\"offset\":8}\n{\"at_";
        let life = Life::read("a", journal, Some(10), true);
        let ends: Vec<_> = life.tenures.iter().map(|tenure| tenure.end).collect();
        assert_eq!(ends, [End::Released { at_us: 9, next: 8 }, End::Killed { at_us: 10 }]);
        assert_eq!((life.tenures[0].partition, life.tenures[0].first), (3, 7));
    }
}
