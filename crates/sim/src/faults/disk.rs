//! The disk of one machine, which survives crashes, and the check of law 6.
//!
//! Applies an engine's epochs as a whole or not at all. After each it compares with the broker: the disk
//! must hold the newest committed changelog record of each key, up to the changelog offset that it has
//! reached, and that offset must not exceed the stable end. Indexes must hold the entries of their
//! stores' rows.

use super::FaultPoint;
use crate::checkers::indexes;
use crate::workload::is_changelog;
use crate::world::Instance;
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Offset, Partition, Result, StoreId, Timestamp, TopicPartition};
use stoatflow_log::Broker;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, EpochBatch, KeyRange, Layout, Sealed, Snapshot, Write};

/// See the module.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    instance: Arc<Instance>,
    disk: MemoryBackend,
}

impl FaultyDisk {
    pub fn new(instance: Arc<Instance>, disk: MemoryBackend) -> Self {
        Self { instance, disk }
    }

    fn changelog(&self, store: StoreId) -> Option<(&str, Layout)> {
        let known = self.instance.world.changelogs.get(usize::from(store.0));
        known.map(|(topic, layout)| (topic.as_str(), *layout))
    }

    fn check_positions(&self, store: StoreId) -> Result<()> {
        let world = &self.instance.world;
        let Some((topic, _)) = self.changelog(store) else {
            return Ok(());
        };
        for (partition, position) in self.disk.positions(store)? {
            let range = world.broker.ranges(
                &[TopicPartition::new(topic, partition.0)],
                std::time::Duration::ZERO,
            )?;
            if position > range[0].stable_end {
                world.violation(format!(
                    "law 6: the disk stands for offset {position} of {topic}-{partition}, whose stable \
                        end is {}",
                    range[0].stable_end
                ));
            }
        }
        Ok(())
    }

    fn check_write(&self, store: StoreId, write: &Write, reached: &[(Partition, Offset)]) {
        let world = &self.instance.world;
        let Some((topic, layout)) = self.changelog(store) else {
            return;
        };
        // The disk stores eight bytes of timestamp before the value, and keys in its own layout.
        let held = write.value.as_ref().map(|v| v.slice(8..));
        let logged = layout.to_changelog(&Sealed {
            key: write.key.clone(),
            value: held.clone(),
            timestamp: Timestamp(0),
            changelog: true,
        });
        let key = logged.map_or_else(|| write.key.clone(), |logged| logged.key);
        if !is_changelog(topic) {
            // A source topic may have more records than were read.
            return;
        }
        let committed = world.broker.newest(topic, &key, reached);
        if committed != Some(held.clone()) {
            world.violation(format!(
                "law 6: the disk holds {held:?} for {:?}, the newest committed record of {topic} is \
                    {committed:?}",
                write.key
            ));
        }
    }
}

impl Backend for FaultyDisk {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.disk.get(store, key)
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.disk.scan(store, range, limit)
    }

    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn Snapshot>> {
        self.disk.snapshot(stores)
    }

    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.instance.call(FaultPoint::Apply, || {
            let world = &self.instance.world;
            self.disk.apply(batch.clone())?;
            match indexes::compare(&world.indexes, &self.disk) {
                Ok(entries) => world.add("entries of indexes compared", entries),
                Err(what) => world.violation(what),
            }
            if !world.watch_disk {
                return Ok(());
            }
            for (store, writes) in &batch.writes {
                // A start that catches up applies a long changelog piece by piece.
                let of_store = batch.positions.iter().filter(|(of, ..)| of == store);
                let reached: Vec<_> = of_store.map(|(_, p, end)| (*p, *end)).collect();
                for write in writes {
                    self.check_write(*store, write, &reached);
                }
                self.check_positions(*store)?;
            }
            Ok(())
        })
    }

    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        let world = &self.instance.world;
        world.add("records restored", writes.len() as u64);
        self.instance.call(FaultPoint::Restore, || {
            self.disk.restore(store, writes, positions)?;
            self.check_positions(store)
        })
    }

    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        self.disk.positions(store)
    }

    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        self.disk.current_at(store)
    }

    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        self.disk.note_current(stores, at)
    }

    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        self.disk.source_topic(store)
    }

    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.disk.note_source_topic(store, topic)
    }

    fn wipe(&self, store: StoreId) -> Result<()> {
        self.disk.wipe(store)
    }

    fn approximate_len(&self, store: StoreId) -> u64 {
        self.disk.approximate_len(store)
    }

    fn memory_bytes(&self) -> u64 {
        self.disk.memory_bytes()
    }

    fn is_durable(&self) -> bool {
        true
    }
}
