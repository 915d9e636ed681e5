//! `/metrics?names=kafka-streams`: metrics that have the same meaning in Kafka Streams, under its names.
//!
//! Read from [`Status`] at the time of the scrape. Rates are of the last minute; Kafka's cover between
//! half a minute and a minute. A lane stands for a stream thread. There are no tasks, so no sample has a
//! `task_id`; `client_id` is the application.

#![allow(clippy::cast_precision_loss)] // rates

mod clients;
mod names;
#[cfg(test)]
mod tests;

use super::families::{Families, Labels, one};
use crate::admin::Shared;
use crate::admin::status::Status;
use crate::admin::top::Sample;
use names::{FamilyKind, KAFKA_STREAMS_METRICS};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_operators::dropped;
use stoatflow_plan::{Op, PhysicalPlan};
use stoatflow_protocol::Lifecycle;
use stoatflow_state::StoreSize;

/// The period that rates cover.
const RATE_PERIOD: Duration = Duration::from_secs(60);

/// The text of the answer.
pub(super) fn text(shared: &Shared) -> Result<String, fmt::Error> {
    let (status, monotonic) = (&shared.status, shared.clock.monotonic());
    let client = [("client_id".into(), status.application_id.clone().into())];
    let mut registry = Registry::with_labels(client.into_iter());
    registry.register_collector(Box::new(KafkaStreams {
        status: Arc::clone(status),
        stores: shared.metrics.stores.on_disk(),
        version: shared.version,
        before: shared.samples.before(monotonic, RATE_PERIOD),
        now: Sample::take(status, monotonic),
        now_ms: shared.clock.now().0,
    }));
    let mut body = String::with_capacity(8 * 1024);
    text::encode_registry(&mut body, &registry)?;
    shared.metrics.add_custom(&mut body)?;
    text::encode_eof(&mut body)?;
    Ok(body)
}

#[derive(Debug)]
struct KafkaStreams {
    status: Arc<Status>,
    stores: Vec<(String, StoreSize)>,
    version: &'static str,
    before: Option<Sample>,
    now: Sample,
    now_ms: i64,
}

impl Collector for KafkaStreams {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut out = Families(encoder);
        self.client(&mut out)?;
        self.threads(&mut out)?;
        self.commits(&mut out)?;
        self.tasks(&mut out)?;
        self.sources(&mut out)?;
        self.stores(&mut out)?;
        self.clients_within(&mut out)?;
        self.kafka_clients(&mut out)
    }
}

impl KafkaStreams {
    /// The rate of a counter; 0 without an earlier sample.
    fn rate(&self, of: impl Fn(&Sample) -> u64) -> f64 {
        let Some(before) = &self.before else {
            return 0.0;
        };
        let seconds = self.now.at.saturating_sub(before.at).as_secs_f64();
        match seconds > 0.0 {
            true => of(&self.now).saturating_sub(of(before)) as f64 / seconds,
            false => 0.0,
        }
    }

    fn client(&self, out: &mut Families<'_>) -> fmt::Result {
        let (number, state) = kafka_streams_state(self.status.state());
        let lanes = if matches!(number, 1 | 2) {
            self.status.lanes.len()
        } else {
            0
        };
        let texts = [
            ("state", state.to_owned()),
            ("application_id", self.status.application_id.clone()),
            ("version", self.version.to_owned()),
            ("alive_stream_threads", lanes.to_string()),
        ];
        let name = "kafka_streams_stream_metrics";
        level(out, name, texts.map(|label| (vec![label], 1.0)))?;
        level(out, &format!("{name}_client_state"), one(f64::from(number)))?;
        level(
            out,
            &format!("{name}_alive_stream_threads"),
            one(lanes as f64),
        )
    }

    fn threads(&self, out: &mut Families<'_>) -> fmt::Result {
        let thread = |lane: usize| -> Labels {
            vec![(
                "thread_id",
                format!("{}-lane-{lane}", self.status.application_id),
            )]
        };
        let records =
            |lane: usize| move |sample: &Sample| sample.lanes.get(lane).map_or(0, |l| l.records);
        let lanes = || 0..self.now.lanes.len();
        let totals = lanes().map(|lane| (thread(lane), records(lane)(&self.now)));
        let rates = lanes().map(|lane| (thread(lane), self.rate(records(lane))));
        let name = "kafka_streams_stream_thread_metrics_process";
        total(out, &format!("{name}_total"), totals)?;
        level(out, &format!("{name}_rate"), rates)
    }

    /// Commits of the last minute, as far as recent ones are kept.
    fn commits(&self, out: &mut Families<'_>) -> fmt::Result {
        let thread = || {
            vec![(
                "thread_id",
                format!("{}-commit", self.status.application_id),
            )]
        };
        let recent = self.status.recent_commits().into_iter();
        let since = self.now_ms - i64::try_from(RATE_PERIOD.as_millis()).unwrap_or(i64::MAX);
        let took: Vec<f64> = recent
            .filter(|commit| commit.at_ms > since)
            .map(|commit| (commit.commit_us + commit.apply_us) as f64 / 1e3)
            .collect();
        let average = took.iter().sum::<f64>() / took.len() as f64;
        let longest = took.iter().copied().fold(f64::NAN, f64::max);
        let name = "kafka_streams_stream_thread_metrics_commit";
        total(
            out,
            &format!("{name}_total"),
            [(thread(), self.now.commits)],
        )?;
        let rate = self.rate(|sample| sample.commits);
        level(out, &format!("{name}_rate"), [(thread(), rate)])?;
        // Without a commit it is NaN, as in Kafka.
        level(out, &format!("{name}_latency_avg"), [(thread(), average)])?;
        level(out, &format!("{name}_latency_max"), [(thread(), longest)])
    }

    fn tasks(&self, out: &mut Families<'_>) -> fmt::Result {
        let left_out = |sample: &Sample| -> u64 {
            let drops = sample
                .drops
                .iter()
                .filter(|(_, reason, _)| counted_by_kafka_streams(reason));
            drops.map(|(_, _, count)| *count).sum()
        };
        let restore = self.status.restore();
        let left = restore
            .iter()
            .map(|store| store.total.saturating_sub(store.done));
        let name = "kafka_streams_stream_task_metrics";
        let count = one(left_out(&self.now));
        total(out, &format!("{name}_dropped_records_total"), count)?;
        let rate = one(self.rate(left_out));
        level(out, &format!("{name}_dropped_records_rate"), rate)?;
        let left = one(left.sum::<u64>() as f64);
        level(
            out,
            &format!("{name}_restore_remaining_records_total"),
            left,
        )
    }

    fn sources(&self, out: &mut Families<'_>) -> fmt::Result {
        let sources = sources(&self.status.plan);
        let entered = |sample: &Sample, nodes: &[usize]| -> u64 {
            nodes
                .iter()
                .filter_map(|node| sample.nodes.get(*node))
                .sum()
        };
        let label = |name: &str| vec![("processor_node_id", name.to_owned())];
        let totals = (sources.iter()).map(|(name, nodes)| (label(name), entered(&self.now, nodes)));
        let rates = sources.iter().map(|(name, nodes)| {
            let rate = self.rate(|sample| entered(sample, nodes));
            (label(name), rate)
        });
        let name = "kafka_streams_stream_processor_node_metrics_process";
        total(out, &format!("{name}_total"), totals)?;
        level(out, &format!("{name}_rate"), rates)
    }

    fn stores(&self, out: &mut Families<'_>) -> fmt::Result {
        let in_memory = |name: &str| {
            let stores = self.status.plan.stores.iter();
            stores
                .filter(|store| store.in_memory)
                .any(|store| store.name == name)
        };
        let each = |of: fn(&StoreSize) -> u64| {
            let stores = self.stores.iter().filter(|(name, _)| !in_memory(name));
            let rows = stores
                .map(|(name, size)| (vec![("rocksdb_state_id", name.clone())], of(size) as f64));
            rows.collect::<Vec<(Labels, f64)>>()
        };
        let name = "kafka_streams_stream_state_metrics";
        level(
            out,
            &format!("{name}_estimate_num_keys"),
            each(|size| size.keys),
        )?;
        level(
            out,
            &format!("{name}_live_sst_files_size"),
            each(|size| size.disk_bytes),
        )?;
        level(
            out,
            &format!("{name}_cur_size_all_mem_tables"),
            each(|size| size.memory_bytes),
        )
    }

    fn clients_within(&self, out: &mut Families<'_>) -> fmt::Result {
        let partitions = self.status.partitions();
        let lags = partitions.iter().map(|p| {
            let labels = vec![
                ("topic", p.topic.clone()),
                ("partition", p.partition.to_string()),
            ];
            (labels, (p.end - p.position).max(0) as f64)
        });
        let name = "kafka_consumer_consumer_fetch_manager_metrics_records";
        level(out, &format!("{name}_lag"), lags)?;
        total(
            out,
            &format!("{name}_consumed_total"),
            one(self.now.records_in),
        )?;
        let rate = self.rate(|sample| sample.records_in);
        level(out, &format!("{name}_consumed_rate"), one(rate))?;
        let name = "kafka_producer_producer_metrics_record_send";
        total(out, &format!("{name}_total"), one(self.now.records_sent))?;
        let rate = self.rate(|sample| sample.records_sent);
        level(out, &format!("{name}_rate"), one(rate))
    }
}

/// Writes a counter; `name` is the name of its sample.
fn total(
    out: &mut Families<'_>,
    name: &str,
    samples: impl IntoIterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let family = name.strip_suffix("_total").unwrap_or(name);
    out.counter(family, &help(name, FamilyKind::Counter), samples)
}

/// Writes a gauge.
fn level(
    out: &mut Families<'_>,
    name: &str,
    samples: impl IntoIterator<Item = (Labels, f64)>,
) -> fmt::Result {
    out.gauge(name, &help(name, FamilyKind::Gauge), samples)
}

/// The help text, with the names of our own metrics. Panics for a metric that isn't in the table.
fn help(name: &str, kind: FamilyKind) -> String {
    let known = KAFKA_STREAMS_METRICS
        .iter()
        .find(|metric| metric.name == name && metric.kind == kind);
    let known = known.expect("a test writes all of them");
    format!("{} ({})", known.meaning, known.ours)
}

/// The nodes that read topics, by name: a duplicate sample would invalidate the whole scrape.
fn sources(plan: &PhysicalPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut sources: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        if let Op::Source { .. } = node.op {
            sources.entry(&node.name).or_default().push(at);
        }
    }
    sources
}

/// Whether Kafka Streams counts drops for this reason too.
fn counted_by_kafka_streams(reason: &str) -> bool {
    !matches!(
        reason,
        dropped::DUPLICATE
            | dropped::MISSED_TICK
            | dropped::NO_CORRELATION
            | dropped::NOT_PARKED
            | dropped::DUPLICATE_ANSWER
            | dropped::OUTDATED_ERROR
    )
}

/// The number and name of the state in `KafkaStreams.State`.
const fn kafka_streams_state(state: Lifecycle) -> (u32, &'static str) {
    match state {
        Lifecycle::Created => (0, "CREATED"),
        Lifecycle::Starting | Lifecycle::Restoring => (1, "REBALANCING"),
        Lifecycle::Running | Lifecycle::Paused => (2, "RUNNING"),
        Lifecycle::Stopping => (3, "PENDING_SHUTDOWN"),
        Lifecycle::Stopped => (4, "NOT_RUNNING"),
        Lifecycle::Failed => (6, "ERROR"),
    }
}
