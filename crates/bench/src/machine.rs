//! The machine a figure belongs to.

use std::fs;
use std::thread;

use serde::Serialize;

/// What one must know of a machine to compare its figures with another's.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores that server and load share.
    pub cores: usize,
    /// What the processor calls itself.
    pub processor: String,
    /// All of it, as the kernel writes it.
    pub memory: String,
    /// The same as a number, when the kernel says.
    pub memory_bytes: Option<u64>,
    /// The version of Linux.
    pub kernel: String,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let memory = first("/proc/meminfo", "MemTotal");
        let kibibytes = memory.strip_suffix("kB").and_then(|number| number.trim().parse::<u64>().ok());
        Self {
            cores: cores(),
            processor: first("/proc/cpuinfo", "model name"),
            memory_bytes: kibibytes.map(|kibibytes| kibibytes * 1024),
            memory,
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
