//! All metrics, as OpenMetrics text.
//!
//! Read from [`Status`] at the time of the scrape. Dashboards and alerts depend on the names, so
//! metrics are only added.

use super::Shared;
use super::debug::ProcStat;
use crate::admin::function_calls::FunctionCost;
use crate::admin::status::{PartitionStatus, Status};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::Clock;
use stoatflow_protocol::Lifecycle;

/// The content type that scrapers request.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The answer to a scraper.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match shared.metrics.text() {
        Ok(body) => ([(header::CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What scrapers get.
#[derive(Debug)]
pub(super) struct Exposition {
    engine: Registry,
    process: Registry,
}

impl Exposition {
    pub(super) fn new(
        status: Arc<Status>,
        clock: Arc<dyn Clock>,
        stall_after: Duration,
        version: &'static str,
    ) -> Self {
        // Each sample names its application: one scraper may read many.
        let labels = [(
            "application_id".into(),
            status.application_id.clone().into(),
        )];
        let mut engine = Registry::with_prefix_and_labels("stoatflow", labels.into_iter());
        engine.register_collector(Box::new(Engine {
            status,
            clock,
            stall_after,
            version,
        }));
        let mut process = Registry::default();
        process.register_collector(Box::new(Process));
        Self { engine, process }
    }

    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut body = String::with_capacity(8 * 1024);
        text::encode_registry(&mut body, &self.engine)?;
        text::encode_registry(&mut body, &self.process)?;
        text::encode_eof(&mut body)?;
        Ok(body)
    }
}

type Labels = Vec<(&'static str, String)>;

/// Writes metric families one after another.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn counter<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            let no_exemplar: Option<&Exemplar<Labels, f64>> = None;
            if labels.is_empty() {
                family.encode_counter(&value, no_exemplar)?;
            } else {
                family
                    .encode_family(&labels)?
                    .encode_counter(&value, no_exemplar)?;
            }
        }
        Ok(())
    }

    fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            if labels.is_empty() {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

fn one<V>(value: V) -> [(Labels, V); 1] {
    [(Vec::new(), value)]
}

/// The engine's numbers.
#[derive(Debug)]
struct Engine {
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    stall_after: Duration,
    version: &'static str,
}

impl Collector for Engine {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families(encoder);
        self.lifecycle(&mut families)?;
        self.records(&mut families)?;
        self.calls(&mut families)?;
        self.lanes(&mut families)?;
        self.commits(&mut families)?;
        self.partitions(&mut families)?;
        self.parked(&mut families)?;
        self.stores(&mut families)
    }
}

impl Engine {
    fn lifecycle(&self, families: &mut Families<'_>) -> fmt::Result {
        let state = self.status.state();
        let ready = self
            .status
            .ready(self.clock.monotonic(), self.clock.now().0, self.stall_after)
            .is_ok();
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
            one(i64::from(ready)),
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
        // Summed by labels: one line of code may make several functions of a node.
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

    fn commits(&self, families: &mut Families<'_>) -> fmt::Result {
        let status = &self.status;
        families.counter("commits", "Commits done", one(status.commits.load(Relaxed)))?;
        families.counter(
            "restarts",
            "Automatic restarts because the broker was unreachable",
            one(status.restarts.load(Relaxed)),
        )?;
        let quantiles = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)];
        let quantiles = quantiles.map(|(name, q)| {
            (
                vec![("quantile", name.to_owned())],
                seconds(status.commit_quantile_us(q), 1e6),
            )
        });
        families.gauge(
            "commit_duration_quantile_seconds",
            "From barrier to local store, since the start",
            quantiles,
        )?;
        let last = status.recent_commits().pop().unwrap_or_default();
        let phases = [
            ("align", last.align_us),
            ("commit", last.commit_us),
            ("apply", last.apply_us),
        ];
        let phases = phases.map(|(name, us)| (vec![("phase", name.to_owned())], seconds(us, 1e6)));
        families.gauge("last_commit_seconds", "The last commit, by phase", phases)?;
        let barrier = status.barrier();
        families.gauge(
            "open_epoch",
            "The epoch that admits records",
            one(barrier.open_epoch),
        )?;
        families.gauge(
            "committed_epoch",
            "The last committed epoch",
            barrier.committed.map(|e| (Vec::new(), e)),
        )
    }

    fn partitions(&self, families: &mut Families<'_>) -> fmt::Result {
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
        #[allow(clippy::cast_precision_loss)] // milliseconds since 1970 fit a double exactly
        let times = rows()
            .filter(|(_, p)| p.stream_time >= 0)
            .map(|(l, p)| (l, p.stream_time as f64 / 1e3));
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
            "watermark_lag_ms",
            "How far the application's watermark is behind the clock",
            application.map(|w| (Vec::new(), now - w)),
        )
    }

    fn parked(&self, families: &mut Families<'_>) -> fmt::Result {
        let lots = self.status.parked();
        let now = self.clock.now().0;
        let rows = || {
            lots.iter()
                .map(|(node, lot)| (vec![("node", node.clone())], lot))
        };
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
            rows().map(|(l, lot)| (l, lot.oldest.map_or(0, |since| (now - since).max(0)))),
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

#[allow(clippy::cast_precision_loss)] // a clock reading of years still keeps its microseconds
fn seconds(count: u64, per_second: f64) -> f64 {
    count as f64 / per_second
}

/// Metrics of this process, under the names that all Prometheus clients use.
#[derive(Debug)]
struct Process;

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
