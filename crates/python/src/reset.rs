//! The border of `stoatflow reset`: a request in, what is done out, as JSON.
//!
//! Everything that waits runs with the interpreter detached; `agree` is called in between, before anything is changed.

use crate::embedded::EmbeddedBroker;
use crate::engine::PreparedRun;
use crate::errors::{PyCause, to_py_err};
use crate::plan::Plan;
use crate::settings::Pairs;
use pyo3::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Timestamp};
use stoatflow_engine::Components;
use stoatflow_engine::reset;
use stoatflow_engine::startup::EngineSpec;
use stoatflow_protocol::reset::{Move, Request, Target};

/// Makes a reset, or with no `agree` only tells what it would do.
#[pyfunction(name = "reset")]
#[pyo3(signature = (plan, pairs, to, number, topics, agree=None, broker=None))]
#[allow(clippy::too_many_arguments)] // the shape of the Python call
pub fn reset_application(
    py: Python<'_>,
    plan: &Plan,
    pairs: Pairs<'_>,
    to: &str,
    number: i64,
    topics: Vec<String>,
    agree: Option<Py<PyAny>>,
    broker: Option<&EmbeddedBroker>,
) -> PyResult<String> {
    let request = Request {
        target: target(to, number).map_err(to_py_err)?,
        topics,
    };
    let PreparedRun {
        settings, broker, ..
    } = PreparedRun::new(py, plan, &pairs, broker)?;
    let spec = EngineSpec {
        plan: Arc::clone(&plan.plan),
        foreign: Arc::clone(&plan.foreign),
        settings: Arc::new(settings),
        components: Components::new(broker),
    };
    let done = py.detach(|| match agree {
        None => reset::preview(&spec, &request),
        Some(agree) => reset::reset(&spec, &request, |plan| ask(&agree, plan)),
    });
    match done {
        Ok(plan) => Ok(shown(&plan)),
        // What `agree` raised is its caller's: it comes back as it is.
        Err(error) => Err(
            match error.cause().and_then(|c| c.downcast_ref::<PyCause>()) {
                Some(raised) => raised.0.clone_ref(py),
                None => to_py_err(error),
            },
        ),
    }
}

fn ask(agree: &Py<PyAny>, plan: &reset::Plan) -> stoatflow_core::Result<()> {
    Python::attach(|py| agree.call1(py, (shown(plan),)))
        .map(drop)
        .map_err(|e| {
            Error::user("the reset was refused; nothing was changed").caused_by(PyCause(e))
        })
}

fn target(to: &str, number: i64) -> stoatflow_core::Result<Target> {
    Ok(match to {
        "earliest" => Target::Earliest,
        "latest" => Target::Latest,
        "since" => Target::Since(Timestamp(number)),
        "ago" => Target::Ago(Duration::from_millis(u64::try_from(number).unwrap_or(0))),
        "offset" => Target::At(Offset(number)),
        "shift" => Target::Shift(number),
        other => {
            return Err(Error::config(format!("a reset can't go to '{other}'"))
                .hint("write earliest, latest, since, ago, offset or shift"));
        }
    })
}

fn shown(plan: &reset::Plan) -> String {
    let way = |m: &Move| {
        json!({
            "topic": &*m.partition.topic,
            "partition": m.partition.partition.0,
            "from": m.from.map(|o| o.0),
            "to": m.to.map(|o| o.0),
            "why": m.why.text(),
        })
    };
    let changelog = |(topic, offsets): &(String, u64)| json!({"topic": topic, "records": offsets});
    json!({
        "application": plan.application,
        "address": plan.address,
        "begun": plan.begun,
        "partitions": plan.moves.iter().map(way).collect::<Vec<_>>(),
        "changelogs": plan.changelogs.iter().map(changelog).collect::<Vec<_>>(),
        "state": plan.state,
    })
    .to_string()
}
