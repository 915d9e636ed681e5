//! All metrics, as OpenMetrics text.
//!
//! Read from [`Status`] at the time of the scrape. Dashboards and alerts depend on the names, so metrics
//! are never renamed or removed.

mod cached_probe;
mod clients;
mod commits;
mod custom;
mod disk;
mod families;
mod kafka_streams;
mod partitions;
mod plain_text;
mod process;
mod scrape;
mod stores;

use super::AdminOptions;
use crate::admin::function_calls::FunctionCost;
use crate::admin::metrics::disk::StateDisk;
use crate::admin::metrics::families::{Families, Labels, in_seconds, one, seconds};
use crate::admin::metrics::process::Process;
use crate::admin::metrics::stores::StoreFigures;
use crate::admin::status::{REASONS, Status};
pub(super) use process::files;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
pub(super) use scrape::metrics;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::Clock;
use stoatflow_operators::offload::Occupancy;
use stoatflow_protocol::Lifecycle;

/// The registries that a scrape is written from.
#[derive(Debug)]
pub(super) struct Exposition {
    engine: Registry,
    process: Registry,
    /// The user's own.
    custom: Registry,
    disk: Arc<StateDisk>,
    stores: Arc<StoreFigures>,
}

impl Exposition {
    pub(super) fn new(status: Arc<Status>, clock: Arc<dyn Clock>, options: &AdminOptions) -> Self {
        // Each sample names its application, since one scraper may read many.
        let labels = [(
            "application_id".into(),
            status.application_id.clone().into(),
        )];
        let mut custom = Registry::with_labels(labels.clone().into_iter());
        custom.register_collector(Box::new(custom::Custom(Arc::clone(&status.custom_metrics))));
        let disk = Arc::new(StateDisk::new(options.state_dir.clone()));
        let stores = Arc::new(StoreFigures::default());
        let mut engine = Registry::with_prefix_and_labels("stoatflow", labels.into_iter());
        engine.register_collector(Box::new(Engine {
            status,
            started_ms: clock.now().0,
            clock,
            disk: Arc::clone(&disk),
            stores: Arc::clone(&stores),
            stall_after: options.stall_after,
            in_flight_max_bytes: options.in_flight_max_bytes,
            version: options.version,
        }));
        let mut process = Registry::default();
        process.register_collector(Box::new(Process::new()));
        Self {
            engine,
            process,
            custom,
            disk,
            stores,
        }
    }

    /// Free and total bytes of the file system that holds the state.
    pub(super) async fn state_disk(&self) -> Option<(u64, u64)> {
        self.disk.refresh().await;
        self.disk.last().map(|disk| (disk.free, disk.size))
    }

    /// Appends the metrics that the user's code defines.
    fn add_custom(&self, body: &mut String) -> fmt::Result {
        text::encode_registry(body, &self.custom)
    }

    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut body = String::with_capacity(8 * 1024);
        text::encode_registry(&mut body, &self.engine)?;
        text::encode_registry(&mut body, &self.process)?;
        self.add_custom(&mut body)?;
        text::encode_eof(&mut body)?;
        Ok(body)
    }
}

/// The metrics of the engine.
#[derive(Debug)]
struct Engine {
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    started_ms: i64,
    disk: Arc<StateDisk>,
    stores: Arc<StoreFigures>,
    stall_after: Duration,
    in_flight_max_bytes: u64,
    version: &'static str,
}

impl Collector for Engine {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families(encoder);
        self.lifecycle(&mut families)?;
        self.of_user_code(&mut families)?;
        self.records(&mut families)?;
        self.calls(&mut families)?;
        self.lanes(&mut families)?;
        self.commits(&mut families)?;
        self.partitions(&mut families)?;
        self.parked(&mut families)?;
        self.stores(&mut families)?;
        clients::encode(&self.status.clients(), &mut families)?;
        self.stores.encode(&mut families)
    }
}

impl Engine {
    fn lifecycle(&self, families: &mut Families<'_>) -> fmt::Result {
        let state = self.status.state();
        let (monotonic, now) = (self.clock.monotonic(), self.clock.now().0);
        let reason = self.status.not_ready(monotonic, now, self.stall_after);
        let build: Labels = vec![("version", self.version.to_owned())];
        families
            .0
            .encode_descriptor("build", "What runs", None, MetricType::Info)?
            .encode_info(&build)?;
        let states =
            Lifecycle::ALL.map(|s| (vec![("state", s.name().to_owned())], i64::from(s == state)));
        families.gauge("state", "1 for the present state, 0 for the others", states)?;
        families.gauge(
            "ready",
            "1 while records are processed",
            one(i64::from(reason.is_none())),
        )?;
        let reasons =
            REASONS.map(|r| (vec![("reason", r.to_owned())], i64::from(Some(r) == reason)));
        families.gauge(
            "not_ready",
            "1 for the reason that /health/ready gives, 0 for the others",
            reasons,
        )?;
        families.gauge(
            "start_time_seconds",
            "When the application was started, in seconds since 1970",
            one(in_seconds(self.started_ms)),
        )?;
        let error = self
            .status
            .error()
            .map(|e| (vec![("kind", e.kind.to_owned())], 1_i64));
        families.gauge(
            "error",
            "1 if the application failed, by kind of error",
            error,
        )
    }

    fn records(&self, families: &mut Families<'_>) -> fmt::Result {
        let status = &self.status;
        families.counter(
            "records_in",
            "Input records admitted",
            one(status.records_in.load(Relaxed)),
        )?;
        families.counter(
            "records_out",
            "Output records handed to the producer",
            one(status.records_out.load(Relaxed)),
        )?;
        families.counter(
            "producer_id_rollovers",
            "How often a transactional producer has used up its epochs and got another id",
            one(status.rollovers.load(Relaxed)),
        )?;
        let throttled = Duration::from_millis(status.broker_throttle_ms.load(Relaxed));
        families.counter(
            "broker_throttle_seconds",
            "For how long brokers have slowed the application down, by a quota",
            one(throttled.as_secs_f64()),
        )?;
        families.counter(
            "records_committed",
            "Input records in committed epochs",
            one(status.records_committed.load(Relaxed)),
        )?;
        families.counter(
            "changelog_records",
            "Changelog records handed to the producer",
            one(status.changelog_out.load(Relaxed)),
        )?;
        families.gauge(
            "in_flight_bytes",
            "Bytes admitted and not yet through their lane",
            one(status.in_flight_bytes.load(Relaxed).max(0)),
        )?;
        families.gauge(
            "in_flight_budget_bytes",
            "With so many no more are admitted: what lanes get through within a commit interval",
            one(status.in_flight_budget_bytes.load(Relaxed)),
        )?;
        families.gauge(
            "in_flight_max_bytes",
            "The most that this budget may be (in.flight.max.bytes)",
            one(self.in_flight_max_bytes),
        )?;
        // Summed by labels: a duplicate sample would invalidate the whole scrape.
        let mut nodes: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (node, count) in status.plan.nodes.iter().zip(&status.nodes) {
            *nodes.entry((&node.name, node.op.name())).or_default() += count.load(Relaxed);
        }
        let nodes = nodes.into_iter().map(|((node, op), count)| {
            (
                vec![("node", node.to_owned()), ("op", op.to_owned())],
                count,
            )
        });
        families.counter("node_records", "Records that entered a node", nodes)?;
        let drops = status.drops();
        let drops = drops.into_iter().map(|(node, reason, count)| {
            (vec![("node", node), ("reason", reason.to_owned())], count)
        });
        families.counter(
            "dropped_records",
            "Records dropped, by node and reason",
            drops,
        )?;
        let late = status.lates().into_iter().map(|(topic, policy, count)| {
            (vec![("topic", topic), ("policy", policy.to_owned())], count)
        });
        families.counter(
            "late_records",
            "Records older than the watermark, by topic and outcome",
            late,
        )
    }

    fn calls(&self, families: &mut Families<'_>) -> fmt::Result {
        // Summed by labels: one line of code may create several functions of a node.
        let mut spent: BTreeMap<(String, String), FunctionCost> = BTreeMap::new();
        for one in self.status.calls.spent() {
            match spent.entry((one.node.clone(), one.function.clone())) {
                Entry::Vacant(free) => drop(free.insert(one)),
                Entry::Occupied(mut sum) => sum.get_mut().add(&one),
            }
        }
        let labels = |one: &FunctionCost| {
            vec![
                ("node", one.node.clone()),
                ("function", one.function.clone()),
            ]
        };
        let rows = || spent.values().map(|one| (labels(one), one));
        families.counter(
            "function_calls",
            "Calls of a function of a node",
            rows().map(|(labels, sums)| (labels, sums.calls)),
        )?;
        families.counter(
            "function_seconds",
            "Time in a function of a node, with all that it waited for",
            rows().map(|(labels, sums)| (labels, sums.seconds)),
        )?;
        families.counter(
            "function_wait_seconds",
            "Time that a function of a node waited for the GIL or its concurrency limit",
            rows().map(|(labels, sums)| (labels, sums.wait_seconds)),
        )?;
        families.gauge(
            "async_oldest_call_seconds",
            "For how long the oldest call of an async function has run",
            rows().filter_map(|(labels, one)| {
                one.awaited?;
                let age = one.oldest_call.as_ref().map_or(0, |call| call.for_ms);
                Some((labels, Duration::from_millis(age).as_secs_f64()))
            }),
        )?;
        let rows = || rows().filter_map(|(labels, one)| Some((labels, one.awaited?)));
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        families.gauge(
            "async_calls_under_way",
            "Calls of an async function that run or wait to run",
            rows().map(|(labels, counts)| (labels, gauge(counts.under_way))),
        )?;
        families.gauge(
            "async_calls_parked",
            "Records parked because their calls have outlived an epoch",
            rows().map(|(labels, counts)| (labels, gauge(counts.parked))),
        )?;
        families.counter(
            "async_calls_failed",
            "Calls of an async function that failed, after all attempts",
            rows().map(|(labels, counts)| (labels, counts.failed)),
        )?;
        families.counter(
            "async_calls_timed_out",
            "Attempts of an async function that timed out",
            rows().map(|(labels, counts)| (labels, counts.timed_out)),
        )?;
        families.counter(
            "async_calls_retried",
            "Attempts of an async function that were retried",
            rows().map(|(labels, counts)| (labels, counts.retried)),
        )
    }

    fn lanes(&self, families: &mut Families<'_>) -> fmt::Result {
        let lanes = || {
            self.status
                .lanes
                .iter()
                .enumerate()
                .map(|(n, lane)| (vec![("lane", n.to_string())], lane))
        };
        families.gauge(
            "lane_queue_items",
            "Items waiting in a lane's queue",
            lanes().map(|(l, lane)| (l, lane.queued_items.load(Relaxed).max(0))),
        )?;
        families.gauge(
            "lane_queue_bytes",
            "Bytes waiting in a lane's queue",
            lanes().map(|(l, lane)| (l, lane.queued_bytes.load(Relaxed).max(0))),
        )?;
        families.gauge(
            "lane_working",
            "1 while a lane works on a batch",
            lanes().map(|(l, lane)| (l, i64::from(lane.busy_since_ms.load(Relaxed) != 0))),
        )?;
        families.counter(
            "lane_busy_seconds",
            "Time a lane spent on finished batches",
            lanes().map(|(l, lane)| (l, seconds(lane.busy_ns.load(Relaxed), 1e9))),
        )?;
        families.counter(
            "lane_records",
            "Records a lane took from its queue",
            lanes().map(|(l, lane)| (l, lane.records.load(Relaxed))),
        )
    }

    fn parked(&self, families: &mut Families<'_>) -> fmt::Result {
        let lots = self.status.parked();
        let now = self.clock.now().0;
        let rows = || {
            lots.iter()
                .map(|(node, lot)| (vec![("node", node.clone())], lot))
        };
        let oldest = |lot: &Occupancy| lot.oldest.map_or(0, |since| (now - since).max(0));
        families.gauge(
            "parked_records",
            "Records of an offload that wait for an answer, or behind one that waits",
            rows().map(|(l, lot)| (l, lot.parked)),
        )?;
        families.gauge(
            "parked_records_most",
            "With this many parked records no more are read",
            rows().map(|(l, lot)| (l, lot.most)),
        )?;
        families.gauge(
            "parked_oldest_ms",
            "How long the oldest record of an offload is parked",
            rows().map(|(l, lot)| (l, oldest(lot))),
        )?;
        families.gauge(
            "parked_oldest_seconds",
            "How long the oldest record of an offload is parked",
            rows().map(|(l, lot)| (l, in_seconds(oldest(lot)))),
        )
    }

    fn stores(&self, families: &mut Families<'_>) -> fmt::Result {
        let status = &self.status;
        families.gauge(
            "state_memory_bytes",
            "Memory of the state back end",
            one(status.state_memory_bytes.load(Relaxed)),
        )?;
        families.gauge(
            "state_staged_bytes",
            "Bytes staged by open epochs in all stores",
            one(status.staged_bytes.load(Relaxed)),
        )?;
        let disk = self.disk.last();
        families.gauge(
            "state_disk_size_bytes",
            "Size of the file system that holds state.dir",
            disk.map(|disk| (Vec::new(), disk.size)),
        )?;
        families.gauge(
            "state_disk_free_bytes",
            "What the application may still write to the file system that holds state.dir",
            disk.map(|disk| (Vec::new(), disk.free)),
        )?;
        let restore = status.restore();
        let rows = || {
            restore
                .iter()
                .map(|r| (vec![("store", r.store.clone())], r))
        };
        families.gauge(
            "restore_records",
            "Changelog records to read before running",
            rows().map(|(l, r)| (l, r.total)),
        )?;
        families.gauge(
            "restore_records_done",
            "Changelog records read",
            rows().map(|(l, r)| (l, r.done)),
        )?;
        families.gauge(
            "restore_complete",
            "1 once a store has caught up",
            rows().map(|(l, r)| (l, i64::from(r.complete))),
        )
    }
}
