//! The machine a figure belongs to.

use std::fs;
use std::thread;

use serde::Serialize;

/// What one must know of a machine to compare its figures with another's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) memory: String,
    pub(crate) kernel: String,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        Self {
            cores: cores(),
            processor: first("/proc/cpuinfo", "model name"),
            memory: first("/proc/meminfo", "MemTotal"),
            kernel: first("/proc/sys/kernel/osrelease", ""),
        }
    }
}

/// Cores that server and load share.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn first(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
    line.trim_start_matches([':', ' ', '\t']).to_owned()
}
