//! Converts the results of functions: values, keys, aggregates, pairs and sequences; of sources and sinks
//! also a timestamp, a watermark, a late policy, a topic, and partitions.
//!
//! Takes a Python result, returns the engine's type, or an error that says what was expected.

use super::{PyUdf, aggregate_codec};
use crate::convert::{from_py, key_from_py};
use crate::errors::PyCause;
use crate::lazy;
use crate::roles::ResultRole;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Late, Partition, Result};
use stoatflow_operators::{Partitions, check_results, check_topic};

static DLQ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The value of an integer that fits 64 bits.
fn as_i64(given: &Bound<'_, PyAny>) -> Option<i64> {
    given.cast::<PyInt>().ok()?.extract().ok()
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().qualname();
    name.map_or_else(|_| "?".to_owned(), |n| n.to_string())
}

impl PyUdf {
    /// Converts a result.
    pub(super) fn result(&self, result: Bound<'_, PyAny>) -> Result<Datum> {
        match self.role {
            ResultRole::Value => from_py(&result),
            ResultRole::Decoded(_) => match &self.aggregates {
                Some(codec) => codec.datum(&result),
                None => from_py(&result),
            },
            ResultRole::Key => key_from_py(&result),
            ResultRole::Aggregate | ResultRole::MutableAggregate => {
                let py = result.py();
                let stored = self.stored_form(result).map_err(|e| self.raised(py, e))?;
                from_py(&stored)
            }
        }
    }

    /// An aggregate in the form that the serde of its store gives it, wherever it comes from: an earlier
    /// result, or the first value of a key, which a reduction uses as it is.
    pub(super) fn stored_form<'py>(
        &self,
        aggregate: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.role {
            ResultRole::Value | ResultRole::Key => Ok(aggregate),
            ResultRole::Aggregate => lazy::wrap(aggregate),
            ResultRole::MutableAggregate => lazy::to_mutable(aggregate),
            ResultRole::Decoded(_) => {
                aggregate_codec::stored_form(self.aggregates.as_ref(), aggregate)
            }
        }
    }

    pub(super) fn key_value(&self, result: &Bound<'_, PyAny>) -> Result<(Datum, Datum)> {
        match result.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => {
                let item = |i| {
                    pair.get_item(i).map_err(|e| {
                        Error::internal("a tuple lost an item").caused_by(PyCause::new(e))
                    })
                };
                Ok((key_from_py(&item(0)?)?, from_py(&item(1)?)?))
            }
            _ => {
                let kind = type_name(result);
                Err(self.wrong_result(
                    format!("the function must return a (key, value) tuple, it returned {kind}"),
                    "return a tuple of two, such as (key, value)",
                ))
            }
        }
    }

    pub(super) fn items<'py>(
        &self,
        py: Python<'py>,
        result: &Bound<'py, PyAny>,
        mut on_item: impl FnMut(Bound<'py, PyAny>) -> Result<()>,
    ) -> Result<()> {
        if result.is_instance_of::<PyString>() || result.is_instance_of::<PyBytes>() {
            return Err(self.wrong_result(
                "the function returned text or bytes where a sequence of values is expected",
                "return a list (a text would fall apart into its characters), such as [text]",
            ));
        }
        if result.is_none() {
            return Err(self.wrong_result(
                "the function returned None where a sequence of values is expected",
                "return [] for no values",
            ));
        }
        let items = result.try_iter().map_err(|e| self.raised(py, e))?;
        for (count, item) in items.enumerate() {
            check_results(count)?;
            on_item(item.map_err(|e| self.raised(py, e))?)?;
        }
        Ok(())
    }

    pub(super) fn topic(&self, chosen: &Bound<'_, PyAny>) -> Result<Arc<str>> {
        let text = chosen.cast::<PyString>().ok();
        match text.as_ref().map(|text| text.to_cow()) {
            Some(Ok(topic)) => {
                check_topic(&topic).map_err(|e| e.at(|w| w.function = Some(self.name.clone())))?;
                Ok(topic.as_ref().into())
            }
            _ => Err(self.wrong_result(
                format!(
                    "the function must return the name of a topic, it returned {}",
                    type_name(chosen)
                ),
                "return a str for every record, such as 'others'",
            )),
        }
    }

    pub(super) fn time(&self, given: &Bound<'_, PyAny>) -> Result<i64> {
        as_i64(given).ok_or_else(|| {
            self.wrong_result(
                format!(
                    "the timestamp extractor must return milliseconds as an int, it returned {}",
                    type_name(given)
                ),
                "return an int, such as int(record.value['ts']); a negative one drops the record",
            )
        })
    }

    pub(super) fn watermark(&self, given: &Bound<'_, PyAny>) -> Result<Option<i64>> {
        if given.is_none() {
            return Ok(None);
        }
        as_i64(given).map(Some).ok_or_else(|| {
            self.wrong_result(
                format!(
                    "the function of a watermark must return milliseconds as an int, or None, it returned {}",
                    type_name(given)
                ),
                "return the time before which nothing more is expected, or None for no change",
            )
        })
    }

    /// Converts a late policy: `"grace"`, `"drop"` or `DLQ(topic)`.
    pub(super) fn late_policy(&self, returned: &Bound<'_, PyAny>) -> Result<Late> {
        let py = returned.py();
        if let Ok(word) = returned.cast::<PyString>() {
            match word.to_cow().as_deref() {
                Ok("grace") => return Ok(Late::Grace),
                Ok("drop") => return Ok(Late::Drop),
                _ => {}
            }
        }
        let topic = || -> PyResult<Option<String>> {
            let letter = DLQ.import(py, "stoatflow.handlers", "DLQ")?;
            if !returned.is_instance(letter)? {
                return Ok(None);
            }
            returned.getattr(intern!(py, "topic"))?.extract().map(Some)
        };
        let topic = topic().map_err(|e| self.raised(py, e))?;
        topic.map(Late::Dlq).ok_or_else(|| {
            let shown = returned
                .repr()
                .map_or_else(|_| type_name(returned), |r| r.to_string());
            self.wrong_result(
                format!("the late policy gave {shown}, which is none"),
                "return \"grace\", \"drop\" or DLQ(\"topic\")",
            )
        })
    }

    pub(super) fn chosen_partitions(&self, chosen: &Bound<'_, PyAny>) -> Result<Partitions> {
        let number = |item: &Bound<'_, PyAny>| {
            let number = item.cast::<PyInt>().ok().map(|_| item.extract::<i32>());
            match number {
                // No topic has a partition number beyond 32 bits.
                Some(number) => Ok(Partition(number.unwrap_or(-1))),
                None => Err(self.wrong_result(
                    format!(
                        "the partitioner must return numbers, it returned {}",
                        type_name(item)
                    ),
                    "return a number, a list of numbers, or None to let the key decide",
                )),
            }
        };
        if chosen.is_none() {
            return Ok(None);
        }
        if chosen.cast::<PyInt>().is_ok() || chosen.try_iter().is_err() {
            return Ok(Some(vec![number(chosen)?]));
        }
        let mut all = Vec::new();
        self.items(chosen.py(), chosen, |item| {
            all.push(number(&item)?);
            Ok(())
        })?;
        // A set, as in Kafka Streams: duplicates removed, in an order that doesn't depend on hashes.
        all.sort_unstable();
        all.dedup();
        Ok(Some(all))
    }
}
