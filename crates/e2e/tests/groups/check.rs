//! What must be true of a group's whole life, told by what its members printed.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use crate::events::{Event, Moment, What};
use crate::flow::Seen;

/// How long after an outage a commit may fail because of it: the client connects anew, asks again for as long as its
/// member program lets it, or learns that its generation was not yet written down.
const FAILS_WITHIN: Moment = 4_000_000_000;

/// How a member begins when it tells of a commit that failed.
const COMMIT_FAILED: &str = "commit:";

/// Everything that was seen from outside.
#[derive(Debug)]
pub(crate) struct Story<'a> {
    pub(crate) members: Vec<Log<'a>>,
    /// From when to when the broker was away.
    pub(crate) outages: Vec<(Moment, Moment)>,
    /// What the broker said was committed.
    pub(crate) seen: Vec<Seen>,
    pub(crate) partitions: usize,
    /// Where each partition ends; it begins at 0.
    pub(crate) ends: Vec<i64>,
    /// Whether the value of each record is its offset.
    pub(crate) values_are_offsets: bool,
    /// Whether this client can commit what it processed before it gives a partition up.
    pub(crate) commits_when_revoked: bool,
    /// Whether its members print which commits were acknowledged and which failed.
    pub(crate) reports_commits: bool,
}

/// What one member printed, and when it was killed if it was.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    pub(crate) name: &'a str,
    pub(crate) events: &'a [Event],
    pub(crate) killed: Option<Moment>,
    /// Whether another took its place while it was there, which it learnt too late.
    pub(crate) fenced: bool,
}

/// What a story without fault amounts to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) processed: usize,
    pub(crate) repeated: usize,
}

/// How a member came to own a partition no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    GivenUp,
    Lost,
    Killed,
    /// It still owned it when the story ended.
    Open,
}

/// The time for which one member owned one partition.
#[derive(Debug)]
struct Stint {
    member: String,
    from: Moment,
    to: Moment,
    end: End,
    first: Option<i64>,
    last: Option<i64>,
    /// When the last of its records was processed.
    last_at: Moment,
    /// When a commit failed after which none was acknowledged.
    failed_at: Option<Moment>,
}

/// Where the next owner of a partition must begin.
#[derive(Debug, Clone, Copy)]
enum Due<'a> {
    /// Where the one before ended: it gave the partition up in good order, or it is the first.
    Exactly(i64, Option<&'a Stint>),
    /// Nowhere before what was committed, and nowhere beyond what was processed.
    BetweenCommittedAnd(i64),
}

impl Story<'_> {
    /// Every record is processed; none twice unless a crash, a lost session or an outage lies between, and then only
    /// what was not committed; no partition has two owners at a time; committed offsets never go back.
    pub(crate) fn check(&self) -> Result<Findings> {
        let mut stints: Vec<Vec<Stint>> = (0..self.partitions).map(|_| Vec::new()).collect();
        let mut processed = BTreeMap::new();
        for log in &self.members {
            read(log, self.values_are_offsets, &mut stints, &mut processed)?;
        }
        self.check_watch()?;
        for (partition, stints) in stints.iter_mut().enumerate() {
            stints.sort_by_key(|it| it.from);
            check_owners(partition, stints)?;
            self.check_handovers(partition, stints)?;
            for offset in 0..self.ends[partition] {
                ensure!(
                    processed.contains_key(&(partition, offset)),
                    "nobody processed record {offset} of partition {partition}; {}",
                    told(stints)
                );
            }
        }
        let all: usize = processed.values().sum();
        Ok(Findings { processed: processed.len(), repeated: all - processed.len() })
    }

    fn check_watch(&self) -> Result<()> {
        let mut last = vec![0; self.partitions];
        for seen in &self.seen {
            ensure!(
                seen.offset >= last[seen.partition],
                "the committed offset of partition {} went back from {} to {}",
                seen.partition,
                last[seen.partition],
                seen.offset
            );
            last[seen.partition] = seen.offset;
        }
        Ok(())
    }

    fn check_handovers(&self, partition: usize, stints: &[Stint]) -> Result<()> {
        let mut due = Due::Exactly(0, None);
        let mut reached = 0;
        for stint in stints {
            let (Some(first), Some(last)) = (stint.first, stint.last) else { continue };
            let committed = self.committed(partition, stint.from);
            let place = || format!("partition {partition}: {} begins at {first}", stint.member);
            match due {
                Due::Exactly(next, before) => {
                    let cut_off = before.is_some_and(|before| self.is_cut_off(before, stint));
                    let fine = first == next || (cut_off && (committed..=next).contains(&first));
                    ensure!(fine, "{} and {next} is due; {}", place(), told(stints));
                }
                Due::BetweenCommittedAnd(reached) => {
                    ensure!(
                        first >= committed,
                        "{} and {committed} was committed; {}",
                        place(),
                        told(stints)
                    );
                    ensure!(first <= reached, "{} and {reached} is due; {}", place(), told(stints));
                }
            }
            reached = reached.max(last + 1);
            due = match stint.end {
                End::GivenUp if self.commits_when_revoked => Due::Exactly(last + 1, Some(stint)),
                End::GivenUp | End::Lost | End::Killed | End::Open => Due::BetweenCommittedAnd(reached),
            };
        }
        Ok(())
    }

    /// Whether an outage took the commit with which `one` gave up what `next` begins with.
    fn is_cut_off(&self, one: &Stint, next: &Stint) -> bool {
        let (earliest, latest) = match (self.reports_commits, one.failed_at) {
            (true, None) => return false,
            (true, Some(failed_at)) => (failed_at, failed_at),
            // It commits when it has processed its last record, and before it joins again.
            (false, _) => (one.last_at, next.from),
        };
        self.outages.iter().any(|(gone, back)| *gone <= latest && earliest <= back + FAILS_WITHIN)
    }

    /// The highest offset that anybody knew to be committed at that time.
    fn committed(&self, partition: usize, by: Moment) -> i64 {
        let seen = self.seen.iter().filter(|it| it.partition == partition && it.at <= by).map(|it| it.offset);
        let said = self.members.iter().flat_map(|log| log.events).filter(|it| it.at <= by).filter_map(|it| {
            let What::Committed(offsets) = &it.what else { return None };
            offsets.iter().find(|(committed, _)| *committed == partition).map(|(_, offset)| *offset)
        });
        seen.chain(said).max().unwrap_or(0)
    }
}

/// Adds what one member did.
fn read(
    log: &Log<'_>,
    values_are_offsets: bool,
    stints: &mut [Vec<Stint>],
    processed: &mut BTreeMap<(usize, i64), usize>,
) -> Result<()> {
    let name = log.name;
    let mut owned: BTreeMap<usize, Stint> = BTreeMap::new();
    let mut close = |partition: usize, stint: Option<Stint>, to: Moment, end: End| -> Result<()> {
        let Some(stint) = stint else {
            bail!("{name} gives up partition {partition}, which it does not own")
        };
        stints[partition].push(Stint { to, end, ..stint });
        Ok(())
    };
    for event in log.events {
        let at = event.at;
        match &event.what {
            What::Assigned(partitions) => {
                for partition in partitions {
                    let stint = Stint {
                        member: name.to_owned(),
                        from: at,
                        to: at,
                        end: End::Open,
                        first: None,
                        last: None,
                        last_at: at,
                        failed_at: None,
                    };
                    ensure!(
                        owned.insert(*partition, stint).is_none(),
                        "{name} is given partition {partition}, which it has"
                    );
                }
            }
            What::Revoked(partitions) => {
                // One whose place was taken gives up what it had lost before.
                let end = if log.fenced { End::Lost } else { End::GivenUp };
                for partition in partitions {
                    close(*partition, owned.remove(partition), at, end)?;
                }
            }
            What::Lost(partitions) => {
                for partition in partitions {
                    close(*partition, owned.remove(partition), at, End::Lost)?;
                }
            }
            What::Left => {
                for (partition, stint) in std::mem::take(&mut owned) {
                    close(partition, Some(stint), at, End::GivenUp)?;
                }
            }
            What::Record { partition, offset, value } => {
                let is_it = offset == value || !values_are_offsets;
                ensure!(is_it, "{name}: the record at {offset} of {partition} is {value}");
                let Some(stint) = owned.get_mut(partition) else {
                    bail!("{name} processes {offset} of partition {partition}, which it does not own");
                };
                if let Some(last) = stint.last {
                    ensure!(
                        *offset == last + 1,
                        "{name}: partition {partition} goes from {last} to {offset}"
                    );
                }
                stint.first.get_or_insert(*offset);
                stint.last = Some(*offset);
                stint.last_at = at;
                *processed.entry((*partition, *offset)).or_default() += 1;
            }
            What::Committed(offsets) => {
                for (partition, _) in offsets {
                    if let Some(stint) = owned.get_mut(partition) {
                        stint.failed_at = None;
                    }
                }
            }
            What::Trouble(text) if text.starts_with(COMMIT_FAILED) => {
                // It does not say of which partitions; where there was nothing to commit, the last one is known.
                owned.values_mut().for_each(|stint| stint.failed_at = Some(at));
            }
            What::Trouble(_) => {}
        }
    }
    for (partition, stint) in owned {
        match log.killed {
            Some(at) if log.fenced => close(partition, Some(stint), at, End::Lost)?,
            Some(at) => close(partition, Some(stint), at, End::Killed)?,
            None => close(partition, Some(stint), Moment::MAX, End::Open)?,
        }
    }
    Ok(())
}

/// No one begins before the one before has ended, except where that one only learnt late that it had lost.
fn check_owners(partition: usize, stints: &[Stint]) -> Result<()> {
    for pair in stints.windows(2) {
        let [one, next] = pair else { continue };
        ensure!(
            one.to <= next.from || one.end == End::Lost,
            "{} and {} own partition {partition} at a time; {}",
            one.member,
            next.member,
            told(stints)
        );
    }
    Ok(())
}

/// The owners of a partition, for a person.
fn told(stints: &[Stint]) -> String {
    let mut text = String::from("its owners:");
    for stint in stints {
        let (from, to) = (stint.from / 1_000_000, stint.to / 1_000_000);
        text.push_str(&format!(
            "\n  {} from {from} to {to} ms ({:?}), records {:?} to {:?}",
            stint.member, stint.end, stint.first, stint.last
        ));
    }
    text
}

/// Shows that the checks find what they are there to find; a check that finds nothing proves nothing.
pub(crate) fn prove() -> Result<()> {
    let record = |at, offset| Event { at, what: What::Record { partition: 0, offset, value: offset } };
    let assigned = |at| Event { at, what: What::Assigned(vec![0]) };
    let revoked = |at| Event { at, what: What::Revoked(vec![0]) };
    let committed = |at, offset| Event { at, what: What::Committed(vec![(0, offset)]) };
    let trouble = |at| Event { at, what: What::Trouble("commit: the broker is away".to_owned()) };
    let tell =
        |one: &[Event], killed: Option<Moment>, two: &[Event], seen: &[Seen], outages: &[_], reports| {
            let members = vec![
                Log { name: "one", events: one, killed, fenced: false },
                Log { name: "two", events: two, killed: None, fenced: false },
            ];
            let story = Story {
                members,
                outages: outages.to_vec(),
                seen: seen.to_vec(),
                partitions: 1,
                ends: vec![4],
                values_are_offsets: true,
                commits_when_revoked: true,
                reports_commits: reports,
            };
            story.check().map_err(|error| error.to_string())
        };
    let story = |one: &[Event], killed, two: &[Event], seen: &[Seen]| tell(one, killed, two, seen, &[], true);
    let seen = |at, offset| Seen { at, partition: 0, offset };
    let refused = |found: Result<Findings, String>, why: &str| match found {
        Err(error) if error.contains(why) => Ok(()),
        other => bail!("a check does not find {why:?}: {other:?}"),
    };

    let one = [assigned(1), record(2, 0), record(3, 1), committed(4, 2), revoked(5)];
    let two = [assigned(6), record(7, 2), record(8, 3)];
    let found = story(&one, None, &two, &[seen(5, 2), seen(9, 4)]);
    ensure!(found == Ok(Findings { processed: 4, repeated: 0 }), "{found:?}");
    refused(story(&one, None, &two[..2], &[]), "nobody processed record 3")?;
    refused(story(&one, None, &[assigned(4), record(7, 2), record(8, 3)], &[]), "at a time")?;
    refused(story(&one, None, &[assigned(6), record(7, 1), record(8, 2), record(9, 3)], &[]), "2 is due")?;
    refused(story(&one, None, &two, &[seen(5, 2), seen(9, 1)]), "went back")?;
    refused(story(&one, None, &two[1..], &[]), "does not own")?;

    let killed = [assigned(1), record(2, 0), record(3, 1), committed(4, 1)];
    let again = [assigned(6), record(7, 1), record(8, 2), record(9, 3)];
    let found = story(&killed, Some(5), &again, &[]);
    ensure!(found == Ok(Findings { processed: 4, repeated: 1 }), "{found:?}");
    let too_much = [assigned(6), record(7, 0), record(8, 1), record(9, 2), record(10, 3)];
    refused(story(&killed, Some(5), &too_much, &[]), "1 was committed")?;

    // An outage excuses a commit that failed in it or soon after, and nothing else.
    const LATER: Moment = 3 * FAILS_WITHIN;
    let given_up = |at| vec![assigned(1), record(2, 0), committed(3, 1), record(4, 1), revoked(at)];
    let failed =
        |at| vec![assigned(1), record(2, 0), committed(3, 1), record(4, 1), trouble(at), revoked(at + 1)];
    let again = |at| vec![assigned(at), record(at, 1), record(at, 2), record(at, 3)];
    let found = tell(&failed(6), None, &again(9), &[], &[(5, 6)], true);
    ensure!(found == Ok(Findings { processed: 4, repeated: 1 }), "{found:?}");
    let found = tell(&given_up(7), None, &again(9), &[], &[(5, 6)], false);
    ensure!(found == Ok(Findings { processed: 4, repeated: 1 }), "{found:?}");
    let from_the_start = [vec![assigned(9), record(9, 0)], again(9)[1..].to_vec()].concat();
    refused(tell(&failed(6), None, &from_the_start, &[], &[(5, 6)], true), "2 is due")?;
    refused(tell(&given_up(7), None, &again(9), &[], &[(5, 6)], true), "2 is due")?;
    refused(tell(&failed(6), None, &again(9), &[], &[(7, 8)], true), "2 is due")?;
    refused(tell(&failed(LATER), None, &again(2 * LATER), &[], &[(5, 6)], true), "2 is due")?;
    refused(tell(&given_up(7), None, &again(8), &[], &[(9, 10)], false), "2 is due")?;
    let late = vec![assigned(1), record(2, 0), committed(3, 1), record(LATER, 1), revoked(LATER + 1)];
    refused(tell(&late, None, &again(2 * LATER), &[], &[(5, 6)], false), "2 is due")
}
