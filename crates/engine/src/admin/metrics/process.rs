//! Metrics of this process, under the names that all Prometheus clients use.

use super::families::{Families, one};
use crate::admin::debug::ProcStat;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::path::Path;

/// See the module.
#[derive(Debug)]
pub(super) struct Process {
    /// Read once: it never changes, and reading it means parsing a long file.
    started: Option<f64>,
}

impl Process {
    pub(super) fn new() -> Self {
        let stat = ProcStat::read(Path::new("/proc/self/stat"));
        let started = stat.and_then(|stat| Some(booted_at()? + stat.started_seconds));
        Self { started }
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families(encoder);
        if let Some(stat) = ProcStat::read(Path::new("/proc/self/stat")) {
            families.counter(
                "process_cpu_seconds",
                "User and system time",
                one(stat.cpu_seconds),
            )?;
        }
        if let Some(bytes) = resident_bytes() {
            families.gauge(
                "process_resident_memory_bytes",
                "Resident memory",
                one(bytes),
            )?;
        }
        if let Some(started) = self.started {
            families.gauge(
                "process_start_time_seconds",
                "When the process started, in seconds since 1970",
                one(started),
            )?;
        }
        if let Some((open, most)) = files() {
            families.gauge("process_open_fds", "Open file descriptors", one(open))?;
            families.gauge(
                "process_max_fds",
                "How many file descriptors may be open",
                one(most),
            )?;
        }
        Ok(())
    }
}

/// `None` without `/proc`.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// When the system booted, in seconds since 1970.
fn booted_at() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// Open file descriptors, and their limit.
pub(in crate::admin) fn files() -> Option<(u64, u64)> {
    Some((open_files()?, most_open_files()?))
}

fn open_files() -> Option<u64> {
    let all = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // The directory being read is one of them.
    u64::try_from(all.saturating_sub(1)).ok()
}

fn most_open_files() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
