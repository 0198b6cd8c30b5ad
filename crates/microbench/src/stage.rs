//! A broker with groups and topics whose store moves only when it is told to, so that all that a request costs happens
//! on the thread that asks.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::Broker;
use bytes::Bytes;
use coordination::op::{self, Op};
use coordination::reply::Reply;
use coordination::settings::{Layer, Settings};
use rail::{Answer, Carrier, Rail};
use store::{LocalStore, Options, RealDisk};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// The topic that there is.
pub(crate) const TOPIC: &str = "orders";

/// Its partitions.
pub(crate) const PARTITIONS: i32 = 16;

/// More than is written while anything is counted, so that the log stays in its first file.
const LOG_FILE_BYTES: u64 = 16 << 20;

/// How long all members have to join. They do before time is looked at.
const JOINING_MS: &str = "20";

/// A broker that stands still unless it is asked.
pub(crate) struct Stage {
    /// Used while the stage is set up; what is counted does not touch it.
    runtime: Runtime,
    broker: Arc<Broker>,
    store: Arc<LocalStore>,
    /// Who asks.
    carrier: Carrier,
    // The last to go, with all files in it.
    _directory: TempDir,
}

/// A member of a group that has settled.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) member_id: String,
    pub(crate) generation: i32,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("build a runtime")?;
        let directory = tempfile::tempdir().context("make a directory")?;
        let options = Options { log_file_bytes: LOG_FILE_BYTES, ..Options::default() };
        let (store, _) =
            LocalStore::open(Arc::new(RealDisk), directory.path(), options).context("open the store")?;
        let store = Arc::new(store);
        let mut settings = Settings::default();
        settings
            .set(Layer::Flags, "group.initial.rebalance.delay.ms", JOINING_MS)
            .context("set how long members have to join")?;
        let broker =
            drive(&runtime, &store, Broker::start_without_store_threads(Arc::clone(&store), settings))
                .context("start the broker")?;
        let stage = Self { runtime, broker, store, carrier: carrier(None), _directory: directory };
        stage.drive(stage.broker.groups_loaded());
        stage.create_topic()?;
        Ok(stage)
    }

    /// Settled groups, each with so many members. A member's id begins with a number, so that their order is the same
    /// in every run although the rest of the id is random.
    pub(crate) fn groups(&self, groups: usize, members: usize) -> Result<Vec<Member>> {
        let mut all = Vec::new();
        for group in 0..groups {
            all.extend(self.group(&format!("consumers-of-orders-{group:03}"), members)?);
        }
        Ok(all)
    }

    /// Hands over an op on behalf of a client.
    pub(crate) fn call(&self, op: Op) -> Answer {
        self.broker.call(&self.carrier, op)
    }

    /// Writes and syncs what waits, until nothing does, as the store's writer would.
    pub(crate) fn write(&self) {
        while self.store.commit_once() > 0 {}
    }

    fn create_topic(&self) -> Result<()> {
        let topic = op::NewTopic {
            name: TOPIC.to_owned(),
            num_partitions: PARTITIONS,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let op = op::CreateTopics { topics: vec![topic], validate_only: false };
        match self.drive(self.call(Op::CreateTopics(op)).reply())? {
            Reply::CreateTopics(made) if made.topics.iter().all(|topic| topic.result.is_ok()) => Ok(()),
            other => bail!("the topic was not made: {other:?}"),
        }
    }

    fn group(&self, group: &str, members: usize) -> Result<Vec<Member>> {
        // All are there before the runtime looks at the clock: one generation holds them all.
        let joins: Vec<_> = (0..members)
            .map(|number| {
                let client = format!("consumer-{number:03}");
                self.broker.call(&carrier(Some(&client)), Op::JoinGroup(join(group)))
            })
            .collect();
        let mut joined = Vec::new();
        let mut leader = None;
        for answer in joins {
            let Reply::JoinGroup(reply) = self.drive(answer.reply())? else { bail!("a join is answered") };
            let generation = match reply.result {
                Ok(generation) => generation,
                Err(code) => bail!("a member was not let in: {code:?}"),
            };
            if !generation.members.is_empty() {
                leader = Some(joined.len());
            }
            joined.push(Member {
                group: group.to_owned(),
                member_id: reply.member_id,
                generation: generation.generation,
            });
        }
        let leader = leader.context("a group has a leader")?;
        for member in std::iter::once(&joined[leader]).chain(&joined) {
            match self.drive(self.call(Op::SyncGroup(sync(member, &joined))).reply())? {
                Reply::SyncGroup(reply) if reply.result.is_ok() => {}
                other => bail!("a member got no assignment: {other:?}"),
            }
        }
        Ok(joined)
    }

    fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        drive(&self.runtime, &self.store, work)
    }
}

/// The reply, if it is there by now. Nobody is woken for it: what a runtime costs is not counted here.
pub(crate) fn poll(answer: &mut Answer) -> Option<Reply> {
    match answer.poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply.ok(),
        Poll::Pending => None,
    }
}

/// Runs `work` to its end, and the store with it.
fn drive<T>(runtime: &Runtime, store: &LocalStore, work: impl Future<Output = T>) -> T {
    runtime.block_on(async {
        let mut work = pin!(work);
        loop {
            store.commit_once();
            tokio::select! {
                done = &mut work => return done,
                // Lets other threads and timers have their turn.
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    })
}

fn carrier(client: Option<&str>) -> Carrier {
    let mut carrier = Carrier::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Arc::from("PLAINTEXT"));
    carrier.calls_itself(client.map(Arc::from));
    carrier
}

fn join(group: &str) -> op::JoinGroup {
    // The longest that is allowed: no session ends while a slow machine counts.
    let session_timeout_ms = 1_800_000;
    op::JoinGroup {
        group: group.to_owned(),
        member_id: String::new(),
        instance_id: None,
        session_timeout_ms,
        rebalance_timeout_ms: session_timeout_ms,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"topics"))],
        reason: None,
        takes_member_id_first: false,
        can_skip_assignment: true,
    }
}

fn sync(member: &Member, all: &[Member]) -> op::SyncGroup {
    let assignment =
        |member: &Member| (member.member_id.clone(), Bytes::from_static(b"partitions of the member"));
    op::SyncGroup {
        group: member.group.clone(),
        generation: member.generation,
        member_id: member.member_id.clone(),
        instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        must_name_protocol: true,
        assignments: all.iter().map(assignment).collect(),
    }
}
