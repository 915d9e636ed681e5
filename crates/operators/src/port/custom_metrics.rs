//! Metrics that the user's code defines and changes.
//!
//! Takes definitions and values from the host language; the admin port reads them. All values are atomics
//! here, so that a scrape calls no user code. Owns the limits: the number of metrics, the series of each,
//! the length of label values.

#[cfg(test)]
mod tests;

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use stoatflow_core::{Error, Result};

/// Maximum number of metrics of an application.
const MAX_METRICS: usize = 500;
/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 200;
/// Maximum number of labels of a metric.
const MAX_LABELS: usize = 16;
/// Maximum length of a label's value; the rest is cut off.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum number of buckets of a histogram.
const MAX_BUCKETS: usize = 100;
/// Every label of the series that counts what comes after the maximum number of series.
pub const OTHER: &str = "_other";

/// Prefixes of the engine's own metrics.
const RESERVED_PREFIXES: [&str; 3] = ["stoatflow_", "process_", "kafka_"];
/// Labels with a meaning of their own.
const RESERVED_LABELS: [&str; 3] = ["application_id", "le", "quantile"];

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Any number.
    Gauge,
    /// Observations, counted in buckets.
    Histogram,
}

impl MetricKind {
    /// Its name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    /// What its samples add to its name.
    const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["", "_total", "_created"],
            Self::Gauge => &[""],
            Self::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
        }
    }
}

/// The definition of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricDefinition {
    /// Its name; without `_total`, which a counter's samples add.
    pub name: String,
    /// What it means.
    pub help: String,
    /// Its kind.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// The upper bounds of a histogram's buckets, ascending, without infinity.
    pub bounds: Vec<f64>,
    /// The maximum number of series.
    pub max_series: usize,
}

/// The values of a metric for one set of label values.
#[derive(Debug, Default)]
pub struct Series {
    /// The value, or a histogram's sum: the bits of a double.
    value: AtomicU64,
    /// False until a value is set.
    is_set: AtomicBool,
    /// A histogram's buckets, each without those below it; the last one is unbounded.
    buckets: Box<[AtomicU64]>,
}

impl Series {
    fn new(definition: &MetricDefinition) -> Self {
        let buckets = match definition.kind {
            MetricKind::Histogram => definition.bounds.len() + 1,
            _ => 0,
        };
        Self {
            buckets: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            ..Self::default()
        }
    }

    /// Adds to the value.
    pub fn add(&self, amount: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + amount).to_bits());
        let _always_some = self.value.fetch_update(Relaxed, Relaxed, sum);
        self.is_set.store(true, Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Relaxed);
        self.is_set.store(true, Relaxed);
    }

    /// Removes the value: the series has no sample until it is set again.
    pub fn unset(&self) {
        self.is_set.store(false, Relaxed);
    }

    /// Counts an observation; `bounds` are those of its metric.
    pub fn observe(&self, bounds: &[f64], value: f64) {
        let at = bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        self.add(value);
    }

    /// The value, or a histogram's sum.
    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from_bits(self.value.load(Relaxed))
    }

    /// False if there is nothing to show.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// The observations by bucket, without those of lower buckets.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|n| n.load(Relaxed)).collect()
    }
}

/// A metric with its series.
#[derive(Debug)]
pub struct CustomMetric {
    /// Its definition.
    pub definition: MetricDefinition,
    series: RwLock<BTreeMap<Vec<String>, Arc<Series>>>,
    overflows: AtomicU64,
}

impl CustomMetric {
    fn new(definition: MetricDefinition) -> Self {
        let metric = Self {
            definition,
            series: RwLock::default(),
            overflows: AtomicU64::new(0),
        };
        // A counter without labels is 0 from the start, so that its first increase is visible.
        if metric.definition.labels.is_empty() {
            let series = metric.series(Vec::new());
            if metric.definition.kind != MetricKind::Gauge {
                series.add(0.0);
            }
        }
        metric
    }

    /// The series of these label values, in the order of the labels. Beyond the maximum number of series,
    /// that of `_other`.
    pub fn series(&self, values: Vec<String>) -> Arc<Series> {
        let values: Vec<String> = values.into_iter().map(cut).collect();
        if let Some(known) = self.series.read().get(&values) {
            return Arc::clone(known);
        }
        let mut all = self.series.write();
        let values = if all.contains_key(&values) || all.len() < self.definition.max_series {
            values
        } else {
            self.overflows.fetch_add(1, Relaxed);
            vec![OTHER.to_owned(); values.len()]
        };
        let made = || Arc::new(Series::new(&self.definition));
        Arc::clone(all.entry(values).or_insert_with(made))
    }

    /// All series that have a value, by label values.
    #[must_use]
    pub fn all(&self) -> Vec<(Vec<String>, Arc<Series>)> {
        let all = self.series.read();
        let set = all.iter().filter(|(_, series)| series.is_set());
        set.map(|(values, series)| (values.clone(), Arc::clone(series)))
            .collect()
    }

    /// How often label values were replaced by `_other`.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Relaxed)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct CustomMetrics(RwLock<BTreeMap<String, Arc<CustomMetric>>>);

impl CustomMetrics {
    /// Defines a metric. The same definition again returns the same metric, since each lane may define
    /// it.
    ///
    /// # Errors
    /// `Config` for an invalid definition, and for a name that another metric uses.
    pub fn define(&self, mut definition: MetricDefinition) -> Result<Arc<CustomMetric>> {
        if definition.kind == MetricKind::Counter
            && let Some(name) = definition.name.strip_suffix("_total")
        {
            definition.name = name.to_owned();
        }
        // A line of its own would be read as a sample.
        let words: Vec<&str> = definition.help.split_whitespace().collect();
        definition.help = words.join(" ");
        check(&definition)?;
        let mut all = self.0.write();
        if let Some(known) = all.get(&definition.name) {
            if known.definition == definition {
                return Ok(Arc::clone(known));
            }
            return Err(Error::config(format!(
                "the metric '{}' is defined twice, as a {} with the labels {:?} and as a {} with the labels {:?}",
                definition.name,
                known.definition.kind.name(),
                known.definition.labels,
                definition.kind.name(),
                definition.labels,
            ))
            .hint("give both the same kind, help, labels and buckets, or different names"));
        }
        if let Some((other, sample)) = clash(all.values(), &definition) {
            return Err(Error::config(format!(
                "the metrics '{}' and '{other}' would both have samples named '{sample}'",
                definition.name
            ))
            .hint("give one of them another name"));
        }
        if all.len() >= MAX_METRICS {
            return Err(Error::config(format!(
                "'{}' would be metric number {}: an application may define {MAX_METRICS}",
                definition.name,
                MAX_METRICS + 1
            ))
            .hint("use labels instead of names that depend on data"));
        }
        let name = definition.name.clone();
        let made = Arc::new(CustomMetric::new(definition));
        all.insert(name, Arc::clone(&made));
        Ok(made)
    }

    /// All metrics, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<CustomMetric>> {
        self.0.read().values().cloned().collect()
    }
}

/// The metric that has a sample of the same name as the new one, and that name.
fn clash<'a>(
    known: impl Iterator<Item = &'a Arc<CustomMetric>>,
    new: &MetricDefinition,
) -> Option<(String, String)> {
    let names = |of: &MetricDefinition| -> Vec<String> {
        let suffixes = of.kind.suffixes().iter();
        suffixes
            .map(|suffix| format!("{}{suffix}", of.name))
            .collect()
    };
    let mine = names(new);
    for other in known {
        let shared = names(&other.definition)
            .into_iter()
            .find(|name| mine.contains(name));
        if let Some(sample) = shared {
            return Some((other.definition.name.clone(), sample));
        }
    }
    None
}

fn check(definition: &MetricDefinition) -> Result<()> {
    let name = &definition.name;
    if !is_name(name, true) || name.len() > MAX_NAME_BYTES {
        return Err(Error::config(format!("'{name}' is no name of a metric")).hint(
            "use letters, digits and underscores, and no digit at the beginning, such as orders_rejected",
        ));
    }
    if RESERVED_PREFIXES.iter().any(|p| name.starts_with(p)) {
        return Err(Error::config(format!(
            "the metric '{name}' has a prefix of StoatFlow's own metrics ({})",
            RESERVED_PREFIXES.join(", ")
        ))
        .hint("begin its name with that of your application or domain"));
    }
    if definition.help.trim().is_empty() {
        return Err(
            Error::config(format!("the metric '{name}' has no help text"))
                .hint("say in a sentence what it counts, and in which unit"),
        );
    }
    let labels = &definition.labels;
    if labels.len() > MAX_LABELS {
        return Err(Error::config(format!(
            "the metric '{name}' has {} labels; {MAX_LABELS} are allowed",
            labels.len()
        ))
        .hint("leave out those that no alert or dashboard uses"));
    }
    for (at, label) in labels.iter().enumerate() {
        let reserved = label.starts_with("__") || RESERVED_LABELS.contains(&label.as_str());
        if !is_name(label, false) || label.len() > MAX_NAME_BYTES || reserved {
            return Err(Error::config(format!(
                "the metric '{name}' can't have a label '{label}'"
            ))
            .hint("use letters, digits and underscores; application_id, le and quantile are taken"));
        }
        if labels[..at].contains(label) {
            return Err(Error::config(format!(
                "the metric '{name}' has the label '{label}' twice"
            ))
            .hint("name each label once"));
        }
    }
    if definition.max_series == 0 {
        return Err(
            Error::config(format!("the metric '{name}' may have no series"))
                .hint("let max_series be at least 1"),
        );
    }
    check_bounds(definition)
}

fn check_bounds(definition: &MetricDefinition) -> Result<()> {
    let (name, bounds) = (&definition.name, &definition.bounds);
    if definition.kind != MetricKind::Histogram {
        return Ok(());
    }
    let ascending = bounds.windows(2).all(|pair| pair[0] < pair[1]);
    let finite = bounds.iter().all(|bound| bound.is_finite());
    if bounds.is_empty() || bounds.len() > MAX_BUCKETS || !ascending || !finite {
        return Err(Error::config(format!(
            "the buckets of the histogram '{name}' are {bounds:?}"
        ))
        .hint(format!(
            "give 1 to {MAX_BUCKETS} upper bounds in ascending order; the bucket without a bound is added"
        )));
    }
    Ok(())
}

/// Whether Prometheus allows the name; colons only in names of metrics.
fn is_name(name: &str, colons: bool) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':'))
}

fn cut(value: String) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => value[..end].to_owned(),
        None => value,
    }
}
