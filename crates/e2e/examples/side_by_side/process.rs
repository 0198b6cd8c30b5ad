//! What the kernel knows of a process: memory and processor time.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("read the process's status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("find VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("read VmRSS")?;
    Ok(kibibytes * 1024)
}

/// Processor time used so far, in user and system mode together.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("read the process's times")?;
    // The command's name, in parentheses, may hold spaces; the fields are counted behind it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| -> Result<u64> {
        fields.get(index).context("find the process's times")?.parse().context("read the process's times")
    };
    // Linux counts these in hundredths of a second on every machine that Kohort runs on.
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}
