//! The Rust side of `stoatflow reset`: takes a request, returns what was done as JSON.
//!
//! Blocking calls run with the interpreter detached; `agree` is called before anything is changed.

use crate::embedded::EmbeddedBroker;
use crate::engine::PreparedRun;
use crate::errors::{PyCause, to_py_err};
use crate::plan::Plan;
use crate::settings::Pairs;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Timestamp};
use stoatflow_engine::Components;
use stoatflow_engine::reset::{self, orphans};
use stoatflow_engine::startup::EngineSpec;
use stoatflow_protocol::reset::{OffsetMove, Request, Target};

/// Resets an application. Without `agree`, only returns what a reset would do.
#[pyfunction(name = "reset")]
#[pyo3(signature = (plan, pairs, to, of, topics, agree=None, broker=None))]
#[allow(clippy::too_many_arguments)] // the shape of the Python call
pub fn reset_application(
    py: Python<'_>,
    plan: &Plan,
    pairs: Pairs<'_>,
    to: &str,
    of: &Bound<'_, PyAny>,
    topics: Vec<String>,
    agree: Option<Py<PyAny>>,
    broker: Option<&EmbeddedBroker>,
) -> PyResult<String> {
    let request = Request {
        target: target(to, of)?,
        topics,
    };
    let spec = spec(py, plan, &pairs, broker)?;
    let done = py.detach(|| match agree {
        None => reset::preview(&spec, &request),
        Some(agree) => reset::reset(&spec, &request, |plan| confirm(&agree, plan_json(plan))),
    });
    done.map(|plan| plan_json(&plan)).map_err(|e| raised(py, e))
}

/// Removes the changelogs and local state of stores that the topology no longer has. Without `agree`,
/// only lists them.
#[pyfunction]
#[pyo3(signature = (plan, pairs, named, agree=None, broker=None))]
pub fn remove_orphans(
    py: Python<'_>,
    plan: &Plan,
    pairs: Pairs<'_>,
    named: Vec<String>,
    agree: Option<Py<PyAny>>,
    broker: Option<&EmbeddedBroker>,
) -> PyResult<String> {
    let spec = spec(py, plan, &pairs, broker)?;
    let done = py.detach(|| match agree {
        None => orphans::preview(&spec, &named),
        Some(agree) => orphans::remove(&spec, &named, |found| confirm(&agree, orphans_json(found))),
    });
    done.map(|found| orphans_json(&found))
        .map_err(|e| raised(py, e))
}

fn spec(
    py: Python<'_>,
    plan: &Plan,
    pairs: &Pairs<'_>,
    broker: Option<&EmbeddedBroker>,
) -> PyResult<EngineSpec> {
    let PreparedRun {
        settings, broker, ..
    } = PreparedRun::new(py, plan, pairs, broker)?;
    Ok(EngineSpec {
        plan: Arc::clone(&plan.plan),
        foreign: Arc::clone(&plan.foreign),
        settings: Arc::new(settings),
        components: Components::new(broker),
    })
}

/// An exception that `agree` raised is passed on unchanged.
fn raised(py: Python<'_>, error: Error) -> PyErr {
    match error.cause().and_then(|c| c.downcast_ref::<PyCause>()) {
        Some(raised) => raised.exception.clone_ref(py),
        None => to_py_err(error),
    }
}

fn confirm(agree: &Py<PyAny>, description: String) -> stoatflow_core::Result<()> {
    Python::attach(|py| agree.call1(py, (description,)))
        .map(drop)
        .map_err(|e| {
            Error::user("the reset was refused; nothing was changed").caused_by(PyCause::new(e))
        })
}

fn target(to: &str, of: &Bound<'_, PyAny>) -> PyResult<Target> {
    Ok(match to {
        "earliest" => Target::Earliest,
        "latest" => Target::Latest,
        "since" => Target::Since(Timestamp(of.extract()?)),
        "ago" => Target::Ago(Duration::from_millis(of.extract()?)),
        "offset" => Target::At(Offset(of.extract()?)),
        "shift" => Target::Shift(of.extract()?),
        "group" => Target::Group(of.extract()?),
        other => {
            let error = Error::config(format!("a reset can't go to '{other}'"))
                .hint("write earliest, latest, since, ago, offset, shift or group");
            return Err(to_py_err(error));
        }
    })
}

fn plan_json(plan: &reset::Plan) -> String {
    let way = |m: &OffsetMove| {
        json!({
            "topic": &*m.partition.topic,
            "partition": m.partition.partition.0,
            "from": m.from.map(|o| o.0),
            "to": m.to.map(|o| o.0),
            "why": m.why.text(),
        })
    };
    json!({
        "application": plan.application,
        "address": plan.address,
        "begun": plan.begun,
        "partitions": plan.moves.iter().map(way).collect::<Vec<_>>(),
        "changelogs": changelogs_json(&plan.changelogs),
        "state": plan.state,
    })
    .to_string()
}

fn orphans_json(found: &orphans::Orphans) -> String {
    json!({
        "application": found.application,
        "address": found.address,
        "changelogs": changelogs_json(&found.changelogs),
        "unsure": found.unconfirmed,
        "stores": found.stores,
        "state": found.state,
    })
    .to_string()
}

fn changelogs_json(changelogs: &[(String, u64)]) -> Vec<Value> {
    let one = |(topic, offsets): &(String, u64)| json!({"topic": topic, "records": offsets});
    changelogs.iter().map(one).collect()
}
