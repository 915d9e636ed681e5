//! Metrics that user code defines: counters, gauges and histograms.
//!
//! Thin handles of the engine's atomics: a change costs no lock but that of a series' lookup, and a scrape
//! needs no interpreter. `stoatflow.metrics` adds gauges whose value a function returns.

use crate::errors::to_py_err;
use parking_lot::Mutex;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock as _, SystemClock};
use stoatflow_operators::custom_metrics::{
    CustomMetric, CustomMetrics, MetricDefinition, MetricKind, Series,
};

/// The metrics of a topology.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct MetricRegistry {
    pub metrics: Arc<CustomMetrics>,
}

impl MetricRegistry {
    fn define(
        &self,
        kind: MetricKind,
        (name, help): (&str, &str),
        labels: Vec<String>,
        bounds: Vec<f64>,
        max_series: usize,
    ) -> PyResult<MetricHandle> {
        let definition = MetricDefinition {
            name: name.to_owned(),
            help: help.to_owned(),
            kind,
            labels,
            bounds,
            max_series,
        };
        let metric = self.metrics.define(definition).map_err(to_py_err)?;
        let plain = metric.definition.labels.is_empty();
        Ok(MetricHandle {
            series: plain.then(|| metric.series(Vec::new())),
            values: plain.then(Vec::new),
            metric,
        })
    }
}

#[pymethods]
impl MetricRegistry {
    #[new]
    fn new() -> Self {
        Self {
            metrics: Arc::default(),
        }
    }

    /// Defines a counter; the same definition again returns the same one.
    fn counter(
        &self,
        name: &str,
        help: &str,
        labels: Vec<String>,
        max_series: usize,
    ) -> PyResult<Counter> {
        let of = (name, help);
        let handle = self.define(MetricKind::Counter, of, labels, Vec::new(), max_series)?;
        Ok(Counter(handle))
    }

    /// Defines a gauge.
    fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: Vec<String>,
        max_series: usize,
    ) -> PyResult<Gauge> {
        let of = (name, help);
        let handle = self.define(MetricKind::Gauge, of, labels, Vec::new(), max_series)?;
        Ok(Gauge(handle))
    }

    /// Defines a histogram.
    fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: Vec<String>,
        buckets: Vec<f64>,
        max_series: usize,
    ) -> PyResult<Histogram> {
        let of = (name, help);
        let handle = self.define(MetricKind::Histogram, of, labels, buckets, max_series)?;
        Ok(Histogram(handle))
    }
}

/// A metric, or one of its series.
#[derive(Clone)]
struct MetricHandle {
    metric: Arc<CustomMetric>,
    /// `None` for a metric with labels, until they have values.
    series: Option<Arc<Series>>,
    /// The values of its labels, if it is a series.
    values: Option<Vec<String>>,
}

/// Kind, name, help, labels, bounds, maximum number of series, and label values: for `rebuilt`.
type Reduced = (
    &'static str,
    String,
    String,
    Vec<String>,
    Vec<f64>,
    usize,
    Option<Vec<String>>,
);

impl MetricHandle {
    fn name(&self) -> &str {
        &self.metric.definition.name
    }

    fn series(&self) -> PyResult<&Series> {
        self.series.as_deref().ok_or_else(|| {
            PyValueError::new_err(format!(
                "the metric '{}' has the labels {:?}. Next: give them values first: .labels(...)",
                self.name(),
                self.metric.definition.labels
            ))
        })
    }

    fn labels(
        &self,
        values: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let labels = &self.metric.definition.labels;
        let wrong = || {
            PyValueError::new_err(format!(
                "the metric '{}' has the labels {labels:?}. Next: give each of them one value, by position \
                or by name",
                self.name()
            ))
        };
        if self.series.is_some() || (named.is_some() && !values.is_empty()) {
            return Err(wrong());
        }
        let mut texts = Vec::with_capacity(labels.len());
        if let Some(named) = named {
            if named.len() != labels.len() {
                return Err(wrong());
            }
            for label in labels {
                let value = named.get_item(label)?.ok_or_else(wrong)?;
                texts.push(text(&value)?);
            }
        } else {
            if values.len() != labels.len() {
                return Err(wrong());
            }
            for value in values.iter() {
                texts.push(text(&value)?);
            }
        }
        Ok(Self {
            metric: Arc::clone(&self.metric),
            series: Some(self.metric.series(texts.clone())),
            values: Some(texts),
        })
    }

    /// Pickles to a metric of the same definition in the other process (a worker of Spark).
    fn reduced<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        let rebuilt = py.import("stoatflow.metrics")?.getattr("rebuilt")?;
        let definition = &self.metric.definition;
        let reduced = (
            definition.kind.name(),
            definition.name.clone(),
            definition.help.clone(),
            definition.labels.clone(),
            definition.bounds.clone(),
            definition.max_series,
            self.values.clone(),
        );
        Ok((rebuilt, reduced))
    }

    fn repr(&self, class: &str) -> String {
        let value = match &self.series {
            Some(series) => format!(" {}", series.value()),
            None => String::new(),
        };
        format!("<{class} {}{value}>", self.name())
    }
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_cow()?.into_owned())
}

fn finite(value: f64) -> PyResult<f64> {
    if value.is_nan() {
        return Err(PyValueError::new_err(
            "nan is no measurement. Next: leave it out",
        ));
    }
    Ok(value)
}

/// A metric that only grows.
///
/// >>> metrics = sf.Metrics()
/// >>> orders = metrics.counter("orders", "Orders read", labels=["shop"])
/// >>> orders.labels("north").inc()
/// >>> orders.labels(shop="north").inc(2)
/// >>> orders.labels("north").value
/// 3.0
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Counter(MetricHandle);

#[pymethods]
impl Counter {
    /// The series of these label values, by position or by name.
    #[pyo3(signature = (*values, **named))]
    fn labels(
        &self,
        values: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        self.0.labels(values, named).map(Self)
    }

    /// Adds to it; negative amounts are refused.
    #[pyo3(signature = (amount=1.0))]
    fn inc(&self, amount: f64) -> PyResult<()> {
        let series = self.0.series()?;
        if amount.is_nan() || amount < 0.0 {
            return Err(PyValueError::new_err(format!(
                "a counter can't grow by {amount}. Next: use a gauge for what falls"
            )));
        }
        series.add(amount);
        Ok(())
    }

    /// Its value.
    #[getter]
    fn value(&self) -> PyResult<f64> {
        Ok(self.0.series()?.value())
    }

    /// Its name, without `_total`.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        self.0.reduced(py)
    }

    fn __repr__(&self) -> String {
        self.0.repr("Counter")
    }
}

/// A metric that may rise and fall.
///
/// >>> metrics = sf.Metrics()
/// >>> open_files = metrics.gauge("open_files", "Files that are open")
/// >>> open_files.set(5)
/// >>> open_files.dec(2)
/// >>> open_files.value
/// 3.0
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Gauge(MetricHandle);

#[pymethods]
impl Gauge {
    /// The series of these label values, by position or by name.
    #[pyo3(signature = (*values, **named))]
    fn labels(
        &self,
        values: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        self.0.labels(values, named).map(Self)
    }

    /// Sets it.
    fn set(&self, value: f64) -> PyResult<()> {
        self.0.series()?.set(value);
        Ok(())
    }

    /// Adds to it.
    #[pyo3(signature = (amount=1.0))]
    fn inc(&self, amount: f64) -> PyResult<()> {
        self.0.series()?.add(finite(amount)?);
        Ok(())
    }

    /// Subtracts from it.
    #[pyo3(signature = (amount=1.0))]
    fn dec(&self, amount: f64) -> PyResult<()> {
        self.inc(-amount)
    }

    /// Removes its value: it isn't shown until it is set again.
    fn clear(&self) -> PyResult<()> {
        self.0.series()?.unset();
        Ok(())
    }

    /// Its value; 0 before it is set.
    #[getter]
    fn value(&self) -> PyResult<f64> {
        Ok(self.0.series()?.value())
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        self.0.reduced(py)
    }

    fn __repr__(&self) -> String {
        self.0.repr("Gauge")
    }
}

/// Observations, counted in buckets.
///
/// >>> metrics = sf.Metrics()
/// >>> sizes = metrics.histogram("order_size", "Items of an order", buckets=[1, 10, 100])
/// >>> for items in (1, 5, 500):
/// ...     sizes.observe(items)
/// >>> sizes.count, sizes.sum
/// (3, 506.0)
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Histogram(MetricHandle);

#[pymethods]
impl Histogram {
    /// The series of these label values, by position or by name.
    #[pyo3(signature = (*values, **named))]
    fn labels(
        &self,
        values: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        self.0.labels(values, named).map(Self)
    }

    /// Counts an observation.
    fn observe(&self, value: f64) -> PyResult<()> {
        let series = self.0.series()?;
        series.observe(&self.0.metric.definition.bounds, finite(value)?);
        Ok(())
    }

    /// A context manager that observes how many seconds its block takes, also if it raises.
    ///
    /// >>> waits = sf.Metrics().histogram("call_seconds", "Time of a call")
    /// >>> with waits.time():
    /// ...     pass
    /// >>> waits.count
    /// 1
    fn time(&self) -> PyResult<HistogramTimer> {
        self.0.series()?;
        Ok(HistogramTimer {
            histogram: self.0.clone(),
            clock: SystemClock::new(),
            began: Mutex::new(None),
        })
    }

    /// Number of observations.
    #[getter]
    fn count(&self) -> PyResult<u64> {
        Ok(self.0.series()?.counts().iter().sum())
    }

    /// Sum of all observations.
    #[getter]
    fn sum(&self) -> PyResult<f64> {
        Ok(self.0.series()?.value())
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        self.0.reduced(py)
    }

    fn __repr__(&self) -> String {
        self.0.repr("Histogram")
    }
}

/// See [`Histogram::time`].
#[pyclass(frozen, module = "stoatflow._native")]
pub struct HistogramTimer {
    histogram: MetricHandle,
    clock: SystemClock,
    began: Mutex<Option<Duration>>,
}

#[pymethods]
impl HistogramTimer {
    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        *slf.began.lock() = Some(slf.clock.monotonic());
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        let began = self.began.lock().take().ok_or_else(|| {
            PyTypeError::new_err("the timer isn't running. Next: use it with `with`")
        })?;
        let took = self.clock.monotonic().saturating_sub(began);
        let bounds = &self.histogram.metric.definition.bounds;
        self.histogram.series()?.observe(bounds, took.as_secs_f64());
        Ok(())
    }
}
