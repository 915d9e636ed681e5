//! The Rust side of `stoatflow doctor`: queries to the broker, answered as JSON.

use crate::embedded::EmbeddedBroker;
use crate::engine::PreparedRun;
use crate::errors::to_py_err;
use crate::plan::Plan;
use crate::settings::Pairs;
use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_engine::Components;
use stoatflow_engine::doctor;
use stoatflow_engine::startup::EngineSpec;

/// The open transactions in the topics that the application would read.
#[pyfunction]
#[pyo3(signature = (plan, pairs, broker=None))]
pub fn open_transactions(
    py: Python<'_>,
    plan: &Plan,
    pairs: Pairs<'_>,
    broker: Option<&EmbeddedBroker>,
) -> PyResult<String> {
    let PreparedRun {
        settings, broker, ..
    } = PreparedRun::new(py, plan, &pairs, broker)?;
    let spec = EngineSpec {
        plan: Arc::clone(&plan.plan),
        foreign: Arc::clone(&plan.foreign),
        settings: Arc::new(settings),
        components: Components::new(broker),
    };
    let open = (py.detach(|| doctor::open_transactions(&spec))).map_err(to_py_err)?;
    Ok(serde_json::json!(open).to_string())
}
