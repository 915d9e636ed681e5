//! The metrics that the user's code defines, under the names that it gave them; and the engine's metrics
//! about the user's metrics, health checks and endpoints.

use super::Engine;
use super::families::{Families, seconds};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt;
use std::sync::Arc;
use stoatflow_operators::custom_metrics::{
    CustomMetric, CustomMetrics, MetricDefinition, MetricKind, Series,
};

type Labels = Vec<(String, String)>;

/// See the module.
#[derive(Debug)]
pub(super) struct Custom(pub(super) Arc<CustomMetrics>);

impl Collector for Custom {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for metric in self.0.all() {
            let series = metric.all();
            if !series.is_empty() {
                family(&mut encoder, &metric, series)?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// About health checks and metrics of the user's code.
    pub(super) fn of_user_code(&self, families: &mut Families<'_>) -> fmt::Result {
        let checks = (self.status.health_checks).states(self.clock.monotonic());
        let label = |name: &str| vec![("check", name.to_owned())];
        families.gauge(
            "health_check_passing",
            "1 if a health check of the application passes",
            (checks.iter()).map(|check| (label(&check.name), i64::from(check.is_passing()))),
        )?;
        families.gauge(
            "health_check_age_seconds",
            "Age of the last result of a health check",
            (checks.iter()).filter_map(|check| {
                let age = seconds(check.age_ms?, 1e3);
                Some((label(&check.name), age))
            }),
        )?;
        let metrics = self.status.custom_metrics.all();
        let overflows = metrics.iter().map(|metric| {
            let label = vec![("metric", metric.definition.name.clone())];
            (label, metric.overflows())
        });
        families.counter(
            "custom_metric_overflows",
            "How often labels of an application's metric were counted as _other: it has too many series",
            overflows,
        )
    }
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &CustomMetric,
    series: Vec<(Vec<String>, Arc<Series>)>,
) -> fmt::Result {
    let definition = &metric.definition;
    let kind = match definition.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let help = escaped(&definition.help);
    let mut family = encoder.encode_descriptor(&definition.name, &help, None, kind)?;
    for (values, series) in series {
        let labels: Labels = (definition.labels.iter().cloned()).zip(values).collect();
        if labels.is_empty() {
            sample(&mut family, definition, &series)?;
        } else {
            sample(&mut family.encode_family(&labels)?, definition, &series)?;
        }
    }
    Ok(())
}

fn sample(
    encoder: &mut MetricEncoder<'_>,
    definition: &MetricDefinition,
    series: &Series,
) -> fmt::Result {
    let no_exemplar: Option<&Exemplar<Labels, f64>> = None;
    match definition.kind {
        MetricKind::Counter => encoder.encode_counter(&series.value(), no_exemplar),
        MetricKind::Gauge => encoder.encode_gauge(&series.value()),
        MetricKind::Histogram => {
            let bounds = definition.bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(series.counts()).collect();
            let count = buckets.iter().map(|(_, n)| n).sum();
            encoder.encode_histogram::<Labels>(series.value(), count, &buckets, None)
        }
    }
}

/// OpenMetrics escapes quotes in a help text, too.
fn escaped(help: &str) -> String {
    help.replace('\\', "\\\\").replace('"', "\\\"")
}
