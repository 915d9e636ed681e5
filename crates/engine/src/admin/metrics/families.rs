//! Metric families, written one after another.

use crate::admin::status::duration_buckets::DurationBuckets;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt;
use std::time::Duration;
use stoatflow_log::RequestDurations;

pub(super) type Labels = Vec<(&'static str, String)>;

/// Writes metric families one after another.
pub(super) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    pub(super) fn counter<V: EncodeCounterValue>(
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

    pub(super) fn gauge<V: EncodeGaugeValue>(
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

    /// A histogram of durations.
    pub(super) fn durations(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, Durations)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, Durations { buckets, sum }) in samples {
            let count = buckets.iter().map(|(_, n)| n).sum();
            if labels.is_empty() {
                family.encode_histogram::<Labels>(sum, count, &buckets, None)?;
            } else {
                family
                    .encode_family(&labels)?
                    .encode_histogram::<Labels>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// Durations in buckets, in seconds.
pub(super) struct Durations {
    /// The upper bound of each bucket, and the number of durations in it. Not cumulative.
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl From<DurationBuckets> for Durations {
    fn from(of: DurationBuckets) -> Self {
        let bound = |us: Option<u64>| us.map_or(f64::INFINITY, |us| seconds(us, 1e6));
        Self {
            buckets: of.buckets().map(|(us, n)| (bound(us), n)).collect(),
            sum: seconds(of.sum_us(), 1e6),
        }
    }
}

impl From<&RequestDurations> for Durations {
    fn from(of: &RequestDurations) -> Self {
        let bound = |bound: Option<Duration>| bound.map_or(f64::INFINITY, |b| b.as_secs_f64());
        Self {
            buckets: of.buckets.iter().map(|(b, n)| (bound(*b), *n)).collect(),
            sum: of.sum.as_secs_f64(),
        }
    }
}

pub(super) fn one<V>(value: V) -> [(Labels, V); 1] {
    [(Vec::new(), value)]
}

#[allow(clippy::cast_precision_loss)] // a clock reading of years still keeps its microseconds
pub(super) fn seconds(count: u64, per_second: f64) -> f64 {
    count as f64 / per_second
}

/// Milliseconds as seconds.
#[allow(clippy::cast_precision_loss)] // milliseconds since 1970 fit a double exactly
pub(super) fn in_seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}
