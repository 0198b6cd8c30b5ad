//! What the consumers live on: etcd, a broker and instances of the assigner.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use e2e::assigner::Assigner;
use e2e::broker::Broker;
use e2e::checkout;
use e2e::etcd::{Etcd, Options};
use e2e::process::run_within;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

/// How long anything may take on a busy machine before it counts as never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) assigners: Vec<Assigner>,
    pub(crate) directory: TempDir,
    // Last, so that it ends after those who need it.
    _etcd: Etcd,
}

impl World {
    /// Two instances with these settings. What is tested is behaviour, so etcd need not wait for the disk unless
    /// something is measured.
    pub(crate) fn start(settings: &[(&str, &str)], without_fsync: bool) -> Self {
        let etcd = Etcd::start(&Options { without_fsync, ..Options::default() }).unwrap();
        let broker = Broker::start(&[]).unwrap();
        let instance = || Assigner::start(&etcd.url(), &broker.bootstrap(), settings).unwrap();
        let assigners = vec![instance(), instance()];
        let directory = tempfile::Builder::new().prefix("handoff-records-").tempdir().unwrap();
        Self { broker, assigners, directory, _etcd: etcd }
    }

    /// Where consumers reach the instances.
    pub(crate) fn assigner_urls(&self) -> Vec<String> {
        self.assigners.iter().map(Assigner::url).collect()
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: usize) {
        let mut config = ClientConfig::new();
        let admin: AdminClient<DefaultClientContext> =
            config.set("bootstrap.servers", self.broker.bootstrap()).create().unwrap();
        let topic = NewTopic::new(name, i32::try_from(partitions).unwrap(), TopicReplication::Fixed(1));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let made = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
        for result in made {
            result.unwrap();
        }
    }
}

/// The example program.
pub(crate) fn word_counters() -> PathBuf {
    if let Some(named) = env::var_os("WORD_COUNTERS_BIN") {
        return PathBuf::from(named);
    }
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--package", "word-counters"]).current_dir(checkout::root());
    let built = run_within(command, Duration::from_secs(1_200)).unwrap();
    assert!(built.success(), "word-counters does not build:\n{}", built.stderr);
    checkout::target().join("debug/word-counters")
}

/// Microseconds on the monotonic clock, which all processes of a machine share.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000 + u64::try_from(now.tv_nsec).unwrap() / 1_000
}

/// Waits until it is so; if it never is, ends the test with what `story` tells.
pub(crate) fn until(what: &str, story: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}\n{}", story());
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
