//! Tells in which task the keys of a processor's store are.
//!
//! Lanes share a store; in Kafka Streams each task has its own part of it. Takes the keys that are put,
//! with the task of the record that put them; returns the task of a key, as long as all keys agree with
//! one of the partitioners of Kafka's clients: murmur2 (Java) or CRC32 (librdkafka). If neither fits
//! (keys that aren't those of the records, a custom partitioner), the task of a key is unknown. A misfit
//! is stored (`key_task_rows.rs`), because keys put before a restart count too. Never reads or writes a
//! store.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Result, Task};

/// A partitioner that does not fit, with the last letter of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    Murmur2 = b'm' as isize,
    Crc32 = b'c' as isize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct KeyTasks {
    tasks: u16,
    murmur2: AtomicBool,
    crc32: AtomicBool,
}

impl KeyTasks {
    /// For a store whose processor has this number of tasks; `is_known`: whether a misfit was found
    /// before this run.
    pub fn open(tasks: u16, mut is_known: impl FnMut(Misfit) -> Result<bool>) -> Result<Self> {
        Ok(Self {
            tasks,
            murmur2: AtomicBool::new(!is_known(Misfit::Murmur2)?),
            crc32: AtomicBool::new(!is_known(Misfit::Crc32)?),
        })
    }

    /// The task of a key, if it can be computed from the key.
    pub fn of(&self, key: &[u8]) -> Option<Task> {
        if self.murmur2.load(Relaxed) {
            Some(by_murmur2(key, self.tasks))
        } else if self.crc32.load(Relaxed) {
            Some(by_crc32(key, self.tasks))
        } else {
            None
        }
    }

    /// Whether the tasks of keys can be computed from them.
    pub fn are_known(&self) -> bool {
        self.murmur2.load(Relaxed) || self.crc32.load(Relaxed)
    }

    /// A key is put in this task: returns the partitioners that turn out not to fit.
    pub fn see(&self, key: &[u8], task: Task) -> impl Iterator<Item = Misfit> {
        let differs = |fits: &AtomicBool, by: fn(&[u8], u16) -> Task| {
            fits.load(Relaxed) && by(key, self.tasks) != task && fits.swap(false, Relaxed)
        };
        let murmur2 = differs(&self.murmur2, by_murmur2).then_some(Misfit::Murmur2);
        let crc32 = differs(&self.crc32, by_crc32).then_some(Misfit::Crc32);
        murmur2.into_iter().chain(crc32)
    }
}

pub(crate) fn by_murmur2(key: &[u8], tasks: u16) -> Task {
    Task::of(partition_of(key, i32::from(tasks.max(1))))
}

fn by_crc32(key: &[u8], tasks: u16) -> Task {
    let at = crc32fast::hash(key) % u32::from(tasks.max(1));
    Task(u16::try_from(at).unwrap_or(0))
}
