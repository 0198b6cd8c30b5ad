//! How many threads a process starts, and for what.

use std::io;
use std::num::NonZero;
use std::thread;

use tokio::runtime::{Builder, Runtime};

/// What the runtime of a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// What is seldom: timers, admin requests, the disk. Clients have threads of their own.
    ForChores,
    /// The rail. Its tasks hand everything on to each other, and one that runs on another thread has to wake that first,
    /// so they get half as many threads as there are processors.
    ForTheRail,
}

impl Threads {
    /// Starts the runtime's threads.
    pub(crate) fn start(self) -> io::Result<Runtime> {
        let mut builder = Builder::new_multi_thread();
        if self == Self::ForTheRail {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            builder.worker_threads((processors / 2).max(1)).on_thread_start(scheduling::prefer_batches);
        }
        builder.enable_all().thread_name("kohort").build()
    }
}
