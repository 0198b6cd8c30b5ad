//! A broker whose writes can be made to fail.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use batch::Codec;
use e2e::kohort::{Kohort, Options};
use e2e::process::{is_installed, run_within};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{Connection, batch_of, code, kohort, wait_until};

/// A running broker with the topic `t`.
pub(crate) struct World {
    pub(crate) kohort: Kohort,
}

impl World {
    pub(crate) fn start(settings: &[(&str, &str)]) -> Option<Self> {
        if !is_installed("prlimit") {
            let in_ci = std::env::var("CI").is_ok_and(|it| it == "true");
            assert!(!in_ci, "missing: prlimit");
            println!("skipped: there is no prlimit, by which a running broker's writes can be made to fail");
            return None;
        }
        let options =
            settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
        let kohort = Kohort::start(options).unwrap();
        Connection::open(&kohort.bootstrap()).create_topic("t", 1);
        Some(Self { kohort })
    }

    /// Produces some records, well beyond the first 4 KiB of the log.
    pub(crate) fn fill(&self, batches: usize) -> Vec<String> {
        let mut client = Connection::open(&self.kohort.bootstrap());
        if client.values("t", 0, 0).is_err() {
            client.create_topic("t", 1);
        }
        let mut sent = Vec::new();
        for batch in 0..batches {
            let values: Vec<String> =
                (0..20).map(|number| format!("before {batch} {number} {}", "w".repeat(1000))).collect();
            client.produce("t", 0, batch_of(&values, Codec::None)).unwrap();
            sent.extend(values);
        }
        sent
    }

    /// From now on the process can write files up to this size, in bytes.
    pub(crate) fn limit_files(&self, size: &str) {
        let mut command = Command::new("prlimit");
        command.arg("--pid").arg(self.kohort.pid().to_string()).arg(format!("--fsize={size}:"));
        let done = run_within(command, Duration::from_secs(10)).unwrap();
        assert!(done.success(), "{done:?}");
    }

    /// Everything that was acknowledged, and nothing else, is there once after the end of the process.
    pub(crate) fn survive_a_kill(&mut self, acknowledged: &[String]) {
        for _ in 0..2 {
            self.kohort.kill().unwrap();
            self.kohort.restart().unwrap();
            let mut client = Connection::open(&self.kohort.bootstrap());
            assert_eq!(client.values("t", 0, 0).unwrap(), acknowledged);
        }
        self.kohort.stop().unwrap();
        let verified = kohort(&["log", "verify", "--data-dir", self.kohort.data_dir().to_str().unwrap()]);
        assert_eq!(code(&verified), Some(0), "{verified:?}");
        let said = self.kohort.output();
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.contains("ERROR"), "failing writes are told\n{said}");
    }
}

/// Writes that fail now and then, and what becomes of requests meanwhile. `KOHORT_DISK_SEED` repeats a run.
pub(crate) struct BadDays {
    seed: u64,
    kept: AtomicUsize,
    refused: AtomicUsize,
    over: AtomicBool,
}

impl BadDays {
    pub(crate) fn new() -> Self {
        let seed = std::env::var("KOHORT_DISK_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(rand::random);
        println!("KOHORT_DISK_SEED={seed}");
        Self { seed, kept: AtomicUsize::new(0), refused: AtomicUsize::new(0), over: AtomicBool::new(false) }
    }

    /// To be told by those who send what became of each request.
    pub(crate) fn count(&self, is_kept: bool) {
        let counter = if is_kept { &self.kept } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether those who send may stop.
    pub(crate) fn are_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets writes fail so many times, each time beyond another size of files, and each time until it was noticed.
    pub(crate) fn come_and_go(&self, world: &World, times: usize) {
        let mut random = StdRng::seed_from_u64(self.seed);
        let grows = |what: &str, counter: &AtomicUsize| {
            let before = counter.load(Ordering::Relaxed);
            wait_until(what, || counter.load(Ordering::Relaxed) > before + 50);
        };
        for _ in 0..times {
            grows("requests are kept", &self.kept);
            world.limit_files(&random.random_range(500..800_000).to_string());
            grows("requests are refused", &self.refused);
            world.limit_files("unlimited");
        }
        grows("requests are kept in the end", &self.kept);
        self.over.store(true, Ordering::Relaxed);
        println!("{:?} kept, {:?} refused", self.kept, self.refused);
    }
}
