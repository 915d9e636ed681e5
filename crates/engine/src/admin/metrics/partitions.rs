//! Metrics of source partitions and of event time.

use super::Engine;
use super::families::{Families, in_seconds, one};
use crate::admin::status::PartitionStatus;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    pub(super) fn partitions(&self, families: &mut Families<'_>) -> fmt::Result {
        let partitions = self.status.partitions();
        let rows = || {
            partitions.iter().map(|p| {
                (
                    vec![
                        ("topic", p.topic.clone()),
                        ("partition", p.partition.to_string()),
                    ],
                    p,
                )
            })
        };
        families.gauge(
            "partition_lag",
            "Readable records that are not committed yet",
            rows().map(|(l, p)| (l, (p.end - p.committed).max(0))),
        )?;
        let now = self.clock.now().0;
        let held = |p: &PartitionStatus| p.held_back.as_ref().map(|held| held.records);
        families.gauge(
            "partition_held_back_records",
            "Records behind an open transaction: not readable yet, and not part of the lag",
            rows().map(|(l, p)| (l, held(p).unwrap_or(0))),
        )?;
        let since = |p: &PartitionStatus| p.held_back.as_ref().map(|held| now - held.since_ms);
        families.gauge(
            "partition_held_back_seconds",
            "How long an open transaction has held the partition back",
            rows().map(|(l, p)| (l, since(p).unwrap_or(0).max(0) / 1000)),
        )?;
        families.gauge(
            "partition_position",
            "The next offset to be admitted",
            rows().map(|(l, p)| (l, p.position)),
        )?;
        families.gauge(
            "partition_committed",
            "The committed offset",
            rows().map(|(l, p)| (l, p.committed)),
        )?;
        let times = rows()
            .filter(|(_, p)| p.stream_time >= 0)
            .map(|(l, p)| (l, in_seconds(p.stream_time)));
        families.gauge(
            "partition_stream_time_seconds",
            "The highest timestamp admitted",
            times,
        )?;
        self.watermarks(&partitions, families)
    }

    fn watermarks(
        &self,
        partitions: &[PartitionStatus],
        families: &mut Families<'_>,
    ) -> fmt::Result {
        let now = self.clock.now().0;
        let of = |p: &PartitionStatus| {
            let partition = ("partition", p.partition.to_string());
            vec![("topic", p.topic.clone()), partition]
        };
        let known = || partitions.iter().filter(|p| p.watermark >= 0);
        families.gauge(
            "partition_watermark_ms",
            "Records before this are no longer expected",
            known().map(|p| (of(p), p.watermark)),
        )?;
        families.gauge(
            "partition_watermark_lag_ms",
            "How far the watermark is behind the clock",
            known().map(|p| (of(p), now - p.watermark)),
        )?;
        families.gauge(
            "partition_watermark_lag_seconds",
            "How far the watermark is behind the clock",
            known().map(|p| (of(p), in_seconds(now - p.watermark))),
        )?;
        families.gauge(
            "partition_holds_back",
            "1: the application's watermark waits for it",
            partitions.iter().map(|p| (of(p), i64::from(p.holds_back))),
        )?;
        let application = Some(self.status.watermark.load(Relaxed)).filter(|w| *w >= 0);
        families.gauge(
            "watermark_ms",
            "The application's watermark: records before it are late",
            application.map(|w| (Vec::new(), w)),
        )?;
        families.gauge(
            "watermark_timestamp_seconds",
            "The application's watermark, in seconds since 1970",
            application.map(|w| (Vec::new(), in_seconds(w))),
        )?;
        families.gauge(
            "watermark_lag_ms",
            "How far the application's watermark is behind the clock",
            application.map(|w| (Vec::new(), now - w)),
        )?;
        families.gauge(
            "watermark_lag_seconds",
            "How far the application's watermark is behind the clock",
            application.map(|w| (Vec::new(), in_seconds(now - w))),
        )?;
        families.gauge(
            "time_by_watermark",
            "1: windows and joins go by the watermark (time.semantics)",
            one(i64::from(self.status.by_watermark.load(Relaxed))),
        )
    }
}
