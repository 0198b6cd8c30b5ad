//! What the flags of `kohort group reset` ask for, and the plans that follow from it and from what the broker knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use client::{Client, ClientError, CommittedOffset, EARLIEST, LATEST, Topic, TopicPartition};

use super::members::listed;
use super::offsets_file::{self, Line};
use super::reset_plan::{Known, Planned, Target, plan};
use crate::cli::group::{ResetArgs, TopicScope};
use crate::failure::{Failure, Kind};
use crate::output::{name, note, plain};
use crate::problems::Problems;

/// What the flags ask for.
#[derive(Debug)]
pub(super) enum Wishes<'a> {
    /// One target for all partitions of a scope; without topics it is what the group has committed.
    Scope { topics: Option<&'a [TopicScope]>, target: Target, since_ms: Option<i64> },
    /// An offset for each partition.
    File { path: &'a Path, lines: Vec<Line> },
}

impl<'a> Wishes<'a> {
    pub(super) fn from_flags(args: &'a ResetArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.from_file {
            let refuse =
                |problem: String| Failure::new(Kind::Usage, plain(&format!("{}: {problem}", path.display())));
            let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
            let lines = offsets_file::read(&text).map_err(refuse)?;
            return Ok(Self::File { path, lines });
        }
        let since_ms = match (args.to_datetime, args.by_duration) {
            // Negative numbers mean other things than time to brokers: -1 is the end. Kafka's tool sends them.
            (Some(moment), _) => Some(moment.max(0)),
            (None, Some(duration)) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(i64::try_from(now.saturating_sub(duration).as_millis()).unwrap_or(i64::MAX))
            }
            (None, None) => None,
        };
        let target = match (args.to_offset, args.shift_by) {
            _ if since_ms.is_some() => Target::Time,
            _ if args.to_earliest => Target::Earliest,
            _ if args.to_latest => Target::Latest,
            (Some(offset), _) => Target::Offset(offset),
            (_, Some(by)) => Target::Shift(by),
            (None, None) => Target::Current,
        };
        let topics = (!args.all_topics).then_some(&args.topic[..]);
        Ok(Self::Scope { topics, target, since_ms })
    }

    /// All groups that a file knows, whether they exist yet or not; none if there is no file to ask.
    pub(super) fn all_groups(&self) -> Option<anyhow::Result<Vec<String>>> {
        let Self::File { path, lines } = self else { return None };
        let mut groups = BTreeSet::new();
        for line in lines {
            match &line.group {
                Some(group) => _ = groups.insert(group.clone()),
                None => return Some(Err(refuse(path, NAME_ONE))),
            }
        }
        match groups.is_empty() {
            true => Some(Err(refuse(path, "has no offsets for any group"))),
            false => Some(Ok(Vec::from_iter(groups))),
        }
    }

    /// The groups that are to be reset, of those that are named. A file without names of groups is for one group, and
    /// one with names has to know those that are asked for.
    pub(super) fn choose(&self, groups: Vec<String>) -> anyhow::Result<Vec<String>> {
        let Self::File { path, lines } = self else { return Ok(groups) };
        if groups.len() > 1 && lines.iter().any(|line| line.group.is_none()) {
            return Err(refuse(path, NAME_ONE));
        }
        match groups.iter().find(|group| !lines.iter().any(|line| line.is_for(group))) {
            Some(group) => Err(refuse(path, &format!("has no offsets for group {}", name(group)))),
            None => Ok(groups),
        }
    }

    /// What is to be said about groups that the file knows and that are not among those to be reset.
    pub(super) fn left_out(&self, groups: &[String]) -> Option<String> {
        let Self::File { path, lines } = self else { return None };
        let known: BTreeSet<&String> = lines.iter().filter_map(|line| line.group.as_ref()).collect();
        let left: Vec<&String> = known.into_iter().filter(|group| !groups.contains(group)).collect();
        (!left.is_empty()).then(|| {
            let (path, left) = (path.display(), listed(left.into_iter().map(|group| name(group))));
            format!("{path} also has offsets of groups that were not named and are left alone: {left}")
        })
    }

    /// The new offsets of a group's partitions. None, with the reason among the problems, if there are no partitions or
    /// one of them cannot be planned.
    pub(super) async fn plan(
        &self,
        client: &mut Client,
        group: &str,
        problems: &mut Problems,
    ) -> Result<Option<Vec<Planned>>, ClientError> {
        let committed = client.committed_offsets(group).await?;
        let topics = client.existing_topics(&self.topics(group, &committed)).await?;
        let Scope { targets, gone, leaderless } = self.scope(group, &committed, &topics);
        let topics = only(topics, &targets);
        let starts = client.list_offsets_of(&topics, EARLIEST).await?;
        let ends = client.list_offsets_of(&topics, LATEST).await?;
        let found = match self {
            Self::Scope { since_ms: Some(since), .. } => Some(client.list_offsets_of(&topics, *since).await?),
            _ => None,
        };

        let (mut planned, mut remarks, mut refusals) = (Vec::new(), Vec::new(), Problems::default());
        for what in gone {
            match self {
                // Offsets may outlive their topic, and whoever names none means those that can be reset.
                Self::Scope { topics: None, .. } => {
                    remarks.push(format!("{what} does not exist any more and is left out"));
                }
                _ => refusals.add(Kind::Absent, &format!("{what} does not exist")),
            }
        }
        for place in leaderless {
            refusals.add(Kind::Failed, &format!("{place} has no leader that could tell its offsets"));
        }
        for (key, target) in targets {
            let place = format!("{}-{}", key.0, key.1);
            let told = (starts.get(&key), ends.get(&key), found.as_ref().map(|found| found.get(&key)));
            let (Some(&start), Some(&end), None | Some(Some(_))) = told else {
                refusals.add_error(&place, &ClientError::Unanswered { request: "ListOffsets" });
                continue;
            };
            let known = Known {
                committed: committed.get(&key).map(|commit| commit.offset),
                start,
                end,
                // A negative offset says that there is no record that young.
                found: told.2.flatten().copied().filter(|offset| *offset >= 0),
                topic: key.0,
                partition: key.1,
            };
            match plan(target, known) {
                Ok((partition, remark)) => {
                    remarks.extend(remark);
                    planned.push(partition);
                }
                Err(reason) => refusals.add(Kind::Failed, &reason),
            }
        }
        if !refusals.0.is_empty() {
            for (kind, reason) in refusals.0 {
                problems.add(kind, &format!("group {}: {reason}", name(group)));
            }
            return Ok(None);
        }
        for remark in remarks {
            note(&format!("group {}: {remark}", name(group)));
        }
        if planned.is_empty() {
            let what = if committed.is_empty() { "" } else { " of topics that still exist" };
            let group = name(group);
            let reason = format!("group {group} has no committed offsets{what}; name topics with --topic");
            problems.add(Kind::Absent, &reason);
            return Ok(None);
        }
        Ok(Some(planned))
    }

    /// The names of all topics that matter.
    fn topics(&self, group: &str, committed: &Committed) -> Vec<String> {
        let names: BTreeSet<&String> = match self {
            Self::File { lines, .. } => {
                lines.iter().filter(|line| line.is_for(group)).map(|line| &line.topic).collect()
            }
            Self::Scope { topics: None, .. } => committed.keys().map(|(topic, _)| topic).collect(),
            Self::Scope { topics: Some(scopes), .. } => scopes.iter().map(|scope| &scope.topic).collect(),
        };
        names.into_iter().cloned().collect()
    }

    /// Which partitions go where, among the topics that exist.
    fn scope(&self, group: &str, committed: &Committed, topics: &[Topic]) -> Scope {
        let mut scope = Scope::default();
        match self {
            Self::File { lines, .. } => {
                for line in lines.iter().filter(|line| line.is_for(group)) {
                    scope.add(topics, &line.topic, line.partition, Target::Offset(line.offset));
                }
            }
            Self::Scope { topics: None, target, .. } => {
                for (topic, partition) in committed.keys() {
                    scope.add(topics, topic, *partition, *target);
                }
            }
            Self::Scope { topics: Some(scopes), target, .. } => {
                for TopicScope { topic, partitions } in *scopes {
                    let found = topics.iter().find(|found| found.name == *topic);
                    let numbers = match (partitions, found) {
                        (Some(numbers), _) => numbers.clone(),
                        (None, Some(found)) => found.partitions.iter().map(|it| it.index).collect(),
                        (None, None) => {
                            scope.gone.insert(format!("topic {topic}"));
                            continue;
                        }
                    };
                    for number in numbers {
                        scope.add(topics, topic, number, *target);
                    }
                }
            }
        }
        scope
    }
}

/// What is wrong with a file.
fn refuse(path: &Path, problem: &str) -> anyhow::Error {
    Failure::new(Kind::Usage, plain(&format!("{} {problem}", path.display()))).into()
}

/// A file of three columns leaves open whose offsets it has.
const NAME_ONE: &str = "does not say which group each offset is for; name one group";

/// What a group has committed.
type Committed = BTreeMap<TopicPartition, CommittedOffset>;

/// The partitions that are to be reset, and those for which that cannot be.
#[derive(Debug, Default)]
struct Scope {
    targets: BTreeMap<TopicPartition, Target>,
    /// Topics and partitions that do not exist.
    gone: BTreeSet<String>,
    /// Partitions whose offsets nobody can tell.
    leaderless: BTreeSet<String>,
}

impl Scope {
    fn add(&mut self, topics: &[Topic], name: &str, partition: i32, target: Target) {
        let Some(topic) = topics.iter().find(|topic| topic.name == name) else {
            self.gone.insert(format!("topic {name}"));
            return;
        };
        match topic.partitions.iter().find(|found| found.index == partition) {
            None => _ = self.gone.insert(format!("partition {partition} of topic {name}")),
            Some(found) if found.leader < 0 => _ = self.leaderless.insert(format!("{name}-{partition}")),
            Some(_) => _ = self.targets.insert((name.to_owned(), partition), target),
        }
    }
}

/// The topics with only the partitions that are to be reset.
fn only(mut topics: Vec<Topic>, targets: &BTreeMap<TopicPartition, Target>) -> Vec<Topic> {
    for topic in &mut topics {
        let name = topic.name.clone();
        topic.partitions.retain(|partition| targets.contains_key(&(name.clone(), partition.index)));
    }
    topics
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::cli::group::GroupCommand;
    use crate::cli::{Cli, Command};

    fn args(words: &str) -> ResetArgs {
        let words = ["kohort", "group", "reset"].into_iter().chain(words.split(' '));
        match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Group(GroupCommand::Reset(args))) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// To brokers -1 is the end and -2 the beginning.
    #[test]
    fn a_moment_before_1970_is_the_beginning_of_1970() {
        for moment in ["1969-12-31T23:59:59.999", "1969-12-31T23:59:59.998", "1900-01-01T00:00:00"] {
            let args = args(&format!("g --topic a --to-datetime {moment}"));
            let wishes = Wishes::from_flags(&args).unwrap();
            assert!(
                matches!(wishes, Wishes::Scope { since_ms: Some(0), target: Target::Time, .. }),
                "{moment}"
            );
        }
        let args = args("g --topic a --by-duration P99999D");
        let wishes = Wishes::from_flags(&args).unwrap();
        assert!(matches!(wishes, Wishes::Scope { since_ms: Some(0), .. }), "{wishes:?}");
    }

    #[test]
    fn a_file_knows_its_groups() {
        let path = PathBuf::from("offsets.csv");
        let file = |text: &str| Wishes::File { path: &path, lines: offsets_file::read(text).unwrap() };
        let choose =
            |text: &str, groups: &[&str]| file(text).choose(names(groups)).map_err(|error| error.to_string());
        let all = |text: &str| file(text).all_groups().unwrap().map_err(|error| error.to_string());
        let named = "b,orders,0,1\na,orders,0,1\na,orders,1,1\n";
        assert_eq!(choose(named, &["a", "b"]), Ok(names(&["a", "b"])));
        assert_eq!(choose(named, &["a", "c"]), Err("offsets.csv has no offsets for group c".to_owned()));
        assert_eq!(choose(named, &[""]), Err("offsets.csv has no offsets for group \"\"".to_owned()));
        assert_eq!(choose("orders,0,1\n", &["a"]), Ok(names(&["a"])));
        assert!(choose("orders,0,1\n", &["a", "b"]).unwrap_err().contains("name one group"));
        assert_eq!(all(named), Ok(names(&["a", "b"])), "whether the broker knows them or not");
        assert_eq!(all(""), Err("offsets.csv has no offsets for any group".to_owned()));
        assert!(all("orders,0,1\n").unwrap_err().contains("name one group"));
    }

    #[test]
    fn groups_of_a_file_that_are_left_out_are_told() {
        let path = PathBuf::from("offsets.csv");
        let left_out = |text: &str, groups: &[&str]| {
            Wishes::File { path: &path, lines: offsets_file::read(text).unwrap() }.left_out(&names(groups))
        };
        let text = "a,orders,0,1\nb,orders,0,1\n\"c, d\",orders,0,1\nb,orders,1,1\n";
        assert_eq!(
            left_out(text, &["a"]).unwrap(),
            "offsets.csv also has offsets of groups that were not named and are left alone: b, \"c, d\""
        );
        assert_eq!(left_out(text, &["a", "b", "c, d"]), None);
        assert_eq!(left_out("orders,0,1\n", &["a"]), None);
        let many: String = (10..25).map(|number| format!("g{number},orders,0,1\n")).collect();
        assert!(left_out(&many, &["g10"]).unwrap().ends_with("g20, 4 more"));
    }
}
