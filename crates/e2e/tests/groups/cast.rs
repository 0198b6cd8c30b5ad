//! The members of one group, as processes that come, go and are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::events::{Event, Moment, What, now};

/// How long the group may take until it has settled after anything; reached only by one that hangs.
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// How often the members' output is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How much of each member's output is shown when something goes wrong.
const LINES_OF_A_FAILURE: usize = 25;

/// How members are started.
#[derive(Debug)]
pub(crate) struct Role {
    /// The program without its arguments.
    pub(crate) program: Command,
    pub(crate) bootstrap: String,
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) partitions: usize,
    pub(crate) assignor: String,
    pub(crate) session: Duration,
}

/// All members that there ever were, dead ones included.
#[derive(Debug)]
pub(crate) struct Cast {
    role: Role,
    members: Vec<Member>,
    directory: TempDir,
}

/// One process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) events: Vec<Event>,
    /// When it was killed, if it was.
    pub(crate) killed: Option<Moment>,
    /// Whether another took its place while it was there.
    pub(crate) fenced: bool,
    child: Child,
    /// Its standard input; the member leaves when it closes.
    leash: Option<ChildStdin>,
    output: PathBuf,
    read: u64,
    /// What was read of a line whose end is not written yet.
    rest: Vec<u8>,
    gone: bool,
}

impl Cast {
    pub(crate) fn new(role: Role) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("members-").tempdir().context("create the members' directory")?;
        Ok(Self { role, members: Vec::new(), directory })
    }

    /// Starts a member and returns its number; with an instance, it is a static one.
    pub(crate) fn join(&mut self, name: &str, instance: Option<&str>) -> Result<usize> {
        let number = self.members.len();
        let output = self.directory.path().join(format!("{number}.out"));
        let errors = File::create(self.directory.path().join(format!("{number}.err"))).context("create")?;
        let mut command = Command::new(self.role.program.get_program());
        command.args(self.role.program.get_args());
        for (name, value) in self.role.program.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let Role { bootstrap, group, topic, assignor, session, .. } = &self.role;
        command.args([bootstrap, group, topic, assignor, &session.as_millis().to_string()]).args(instance);
        command.stdin(Stdio::piped()).stderr(errors);
        command.stdout(File::create(&output).context("create a file for a member's output")?);
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let leash = child.stdin.take();
        self.members.push(Member {
            name: name.to_owned(),
            events: Vec::new(),
            killed: None,
            fenced: false,
            child,
            leash,
            output,
            read: 0,
            rest: Vec::new(),
            gone: false,
        });
        Ok(number)
    }

    /// Asks a member to leave and waits until it has.
    pub(crate) fn leave(&mut self, number: usize) -> Result<()> {
        self.members[number].leash = None;
        let started = Instant::now();
        loop {
            let member = &mut self.members[number];
            let ended = member.child.try_wait().context("look after a member")?;
            member.refresh()?;
            if let Some(status) = ended {
                member.gone = true;
                let left = member.events.last().is_some_and(|it| it.what == What::Left);
                let name = member.name.clone();
                ensure!(status.success() && left, "{name} did not leave: {status}\n{}", self.last_words());
                return Ok(());
            }
            let name = member.name.clone();
            ensure!(started.elapsed() < SETTLE_WITHIN, "{name} does not leave\n{}", self.last_words());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills a member (SIGKILL).
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        let member = &mut self.members[number];
        // Fails only when it is gone already.
        let _ = member.child.kill();
        member.child.wait().context("wait for a killed member")?;
        member.killed = Some(now());
        member.gone = true;
        member.refresh()
    }

    /// Waits until a static member knows that another has taken its place, and ends it.
    pub(crate) fn fence_off(&mut self, number: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let member = &mut self.members[number];
            let ended = member.child.try_wait().context("look after a member")?.is_some();
            member.refresh()?;
            // Some clients end with an exception, others report it and go on without partitions.
            let told = |it: &Event| matches!(&it.what, What::Trouble(text) if tells_of_a_twin(text));
            let errors = std::fs::read_to_string(member.output.with_extension("err")).unwrap_or_default();
            if member.events.iter().any(told) || tells_of_a_twin(&errors) {
                member.fenced = true;
                return self.kill(number);
            }
            let name = member.name.clone();
            ensure!(!ended, "{name} ended without a word of its twin\n{}", self.last_words());
            ensure!(
                started.elapsed() < SETTLE_WITHIN,
                "{name} does not learn of its twin\n{}",
                self.last_words()
            );
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until every living member owns its share and processes records of it that are newer than `since`.
    pub(crate) fn settle(&mut self, doing: &str, since: Moment) -> Result<()> {
        self.wait(doing, |cast| cast.unsettled(since))
    }

    /// Waits until `missing` finds nothing; what it finds otherwise says what is still awaited.
    pub(crate) fn wait(&mut self, doing: &str, missing: impl Fn(&Self) -> Option<String>) -> Result<()> {
        let started = Instant::now();
        loop {
            self.refresh()?;
            let Some(missing) = missing(self) else { return Ok(()) };
            if started.elapsed() > SETTLE_WITHIN {
                bail!("{doing}: after {SETTLE_WITHIN:?} {missing}\n{}", self.last_words());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Reads what the members have printed meanwhile; one that ended unasked is an error.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            if member.gone {
                continue;
            }
            let ended = member.child.try_wait().context("look after a member")?;
            member.refresh()?;
            if let Some(status) = ended {
                let name = member.name.clone();
                bail!("{name} ended by itself: {status}\n{}", self.last_words());
            }
        }
        Ok(())
    }

    fn unsettled(&self, since: Moment) -> Option<String> {
        let mut owners: BTreeMap<usize, (&Member, Moment)> = BTreeMap::new();
        let mut shares = Vec::new();
        for member in self.living() {
            let owned = member.owned();
            shares.push(owned.len());
            for (partition, from) in owned {
                if owners.insert(partition, (member, from)).is_some() {
                    return Some(format!("partition {partition} has two owners"));
                }
            }
        }
        for partition in 0..self.role.partitions {
            let Some((owner, from)) = owners.get(&partition) else {
                return Some(format!("partition {partition} has no owner"));
            };
            if owner.last_record(partition).is_none_or(|at| at < since.max(*from)) {
                return Some(format!("{} processes nothing of partition {partition}", owner.name));
            }
        }
        let (least, most) = (shares.iter().min().copied(), shares.iter().max().copied());
        if most > least.map(|least| least + 1) {
            return Some(format!("the shares are {shares:?}"));
        }
        None
    }

    /// Everything that changed ownership at or after a moment, for a person.
    pub(crate) fn moves_since(&self, since: Moment) -> Vec<String> {
        let mut moves = Vec::new();
        for member in &self.members {
            for event in member.events.iter().filter(|it| it.at >= since) {
                // A cooperative rebalance that changes nothing tells of no partitions.
                if let What::Assigned(moved) | What::Revoked(moved) | What::Lost(moved) = &event.what
                    && !moved.is_empty()
                {
                    moves.push(format!("{}: {:?}", member.name, event.what));
                }
            }
        }
        moves
    }

    pub(crate) fn member(&self, number: usize) -> &Member {
        &self.members[number]
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|it| !it.gone)
    }

    /// The end of what every member printed.
    pub(crate) fn last_words(&self) -> String {
        let mut text = String::new();
        for (number, member) in self.members.iter().enumerate() {
            let state = match (member.killed, member.gone) {
                (Some(_), _) => "killed",
                (None, true) => "left",
                (None, false) => "alive",
            };
            text.push_str(&format!("--- {} ({state})\n", member.name));
            let telling: Vec<_> = member
                .events
                .iter()
                .filter(|it| !matches!(it.what, What::Record { .. } | What::Committed(_)))
                .collect();
            for event in &telling[telling.len().saturating_sub(LINES_OF_A_FAILURE)..] {
                text.push_str(&format!("{} {:?}\n", event.at / 1_000_000, event.what));
            }
            if let Some(last) = member.events.last() {
                text.push_str(&format!("last of all: {} {:?}\n", last.at / 1_000_000, last.what));
            }
            let errors = std::fs::read_to_string(self.directory.path().join(format!("{number}.err")));
            let errors = errors.unwrap_or_default();
            let lines: Vec<_> = errors.lines().collect();
            for line in &lines[lines.len().saturating_sub(LINES_OF_A_FAILURE)..] {
                text.push_str(&format!("stderr: {line}\n"));
            }
        }
        text
    }
}

fn tells_of_a_twin(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("fenced") || text.contains("same group.instance.id")
}

impl Drop for Cast {
    fn drop(&mut self) {
        for member in self.members.iter_mut().filter(|it| !it.gone) {
            // Both fail only when the process is gone already, which is what is wanted.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Member {
    /// What it owns, and since when.
    pub(crate) fn owned(&self) -> BTreeMap<usize, Moment> {
        let mut owned = BTreeMap::new();
        for event in &self.events {
            match &event.what {
                What::Assigned(partitions) => owned.extend(partitions.iter().map(|it| (*it, event.at))),
                What::Revoked(partitions) | What::Lost(partitions) => {
                    owned.retain(|partition, _| !partitions.contains(partition));
                }
                What::Left => owned.clear(),
                What::Record { .. } | What::Committed(_) | What::Trouble(_) => {}
            }
        }
        owned
    }

    /// Whether its process has not ended.
    pub(crate) fn is_there(&self) -> bool {
        !self.gone
    }

    pub(crate) fn owned_partitions(&self) -> BTreeSet<usize> {
        self.owned().into_keys().collect()
    }

    /// When it last processed a record of this partition.
    fn last_record(&self, wanted: usize) -> Option<Moment> {
        let is_it = |it: &&Event| matches!(it.what, What::Record { partition, .. } if partition == wanted);
        self.events.iter().rev().find(is_it).map(|it| it.at)
    }

    /// Whether the broker has acknowledged a commit of this member at or after a moment.
    pub(crate) fn committed_since(&self, since: Moment) -> bool {
        self.events.iter().rev().any(|it| it.at >= since && matches!(it.what, What::Committed(_)))
    }

    /// Reads what it has printed since the last time.
    fn refresh(&mut self) -> Result<()> {
        let mut file = File::open(&self.output).context("open a member's output")?;
        file.seek(SeekFrom::Start(self.read)).context("go on in a member's output")?;
        let read = file.read_to_end(&mut self.rest).context("read a member's output")?;
        self.read += u64::try_from(read).unwrap_or_default();
        let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            self.events.push(Event::parse(line)?);
        }
        Ok(())
    }
}
