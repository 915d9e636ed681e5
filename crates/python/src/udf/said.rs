//! Converts the results of functions of sources and sinks: a timestamp, a watermark, a late policy, a
//! topic, partitions.
//!
//! Takes a Python result, returns the engine's type, or an error that says what was expected.

use super::{PyUdf, kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString};
use std::sync::Arc;
use stoatflow_core::{Late, Partition, Result};
use stoatflow_operators::{Partitions, check_topic};

static DLQ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The value of an integer that fits 64 bits.
fn whole(given: &Bound<'_, PyAny>) -> Option<i64> {
    given.cast::<PyInt>().ok()?.extract().ok()
}

impl PyUdf {
    pub(super) fn topic(&self, chosen: &Bound<'_, PyAny>) -> Result<Arc<str>> {
        let text = chosen.cast::<PyString>().ok();
        match text.as_ref().map(|text| text.to_cow()) {
            Some(Ok(topic)) => {
                check_topic(&topic).map_err(|e| e.at(|w| w.function = Some(self.name.clone())))?;
                Ok(topic.as_ref().into())
            }
            _ => Err(self.wrong(
                format!(
                    "the function must return the name of a topic, it returned {}",
                    kind(chosen)
                ),
                "return a str for every record, such as 'others'",
            )),
        }
    }

    pub(super) fn time(&self, given: &Bound<'_, PyAny>) -> Result<i64> {
        whole(given).ok_or_else(|| {
            self.wrong(
                format!(
                    "the timestamp extractor must return milliseconds as an int, it returned {}",
                    kind(given)
                ),
                "return an int, such as int(record.value['ts']); a negative one drops the record",
            )
        })
    }

    pub(super) fn watermark(&self, given: &Bound<'_, PyAny>) -> Result<Option<i64>> {
        if given.is_none() {
            return Ok(None);
        }
        whole(given).map(Some).ok_or_else(|| {
            self.wrong(
                format!(
                    "the function of a watermark must return milliseconds as an int, or None, it returned {}",
                    kind(given)
                ),
                "return the time before which nothing more is expected, or None for no change",
            )
        })
    }

    /// Converts a late policy: `"grace"`, `"drop"` or `DLQ(topic)`.
    pub(super) fn said_late(&self, said: &Bound<'_, PyAny>) -> Result<Late> {
        let py = said.py();
        if let Ok(word) = said.cast::<PyString>() {
            match word.to_cow().as_deref() {
                Ok("grace") => return Ok(Late::Grace),
                Ok("drop") => return Ok(Late::Drop),
                _ => {}
            }
        }
        let topic = || -> PyResult<Option<String>> {
            let letter = DLQ.import(py, "stoatflow.handlers", "DLQ")?;
            if !said.is_instance(letter)? {
                return Ok(None);
            }
            said.getattr(intern!(py, "topic"))?.extract().map(Some)
        };
        let topic = topic().map_err(|e| self.raised(py, e))?;
        topic.map(Late::Dlq).ok_or_else(|| {
            let shown = said.repr().map_or_else(|_| kind(said), |r| r.to_string());
            self.wrong(
                format!("the late policy gave {shown}, which is none"),
                "return \"grace\", \"drop\" or DLQ(\"topic\")",
            )
        })
    }

    pub(super) fn chosen(&self, chosen: &Bound<'_, PyAny>) -> Result<Partitions> {
        let number = |item: &Bound<'_, PyAny>| {
            let number = item.cast::<PyInt>().ok().map(|_| item.extract::<i32>());
            match number {
                // No topic has a partition number beyond 32 bits.
                Some(number) => Ok(Partition(number.unwrap_or(-1))),
                None => Err(self.wrong(
                    format!(
                        "the partitioner must return numbers, it returned {}",
                        kind(item)
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
