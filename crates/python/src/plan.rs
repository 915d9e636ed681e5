//! Compiles a plan: receives it once from Python, as data plus tables of callables.

use crate::custom_metrics::MetricRegistry;
use crate::errors::to_py_err;
use crate::handler::PyRuntime;
use crate::processor::PyProcessorSupplier;
use crate::roles::{ResultRole, roles};
use crate::serde;
use crate::udf::PyUdf;
use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_core::{Error, Handlers};
use stoatflow_operators::{ForeignCode, ProcessorSupplier, Udf};
use stoatflow_plan::PhysicalPlan;

/// A validated plan with its functions.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Plan {
    pub plan: Arc<PhysicalPlan>,
    pub foreign: Arc<ForeignCode>,
}

#[pymethods]
impl Plan {
    /// The text of Kafka Streams' `topology.describe()`.
    #[getter]
    fn description(&self) -> &str {
        &self.plan.description
    }

    /// The physical plan as JSON.
    #[getter]
    fn physical_json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.plan).map_err(|e| {
            to_py_err(Error::internal("the physical plan has no JSON form").caused_by(e))
        })
    }

    /// Fails if a store has a generated name.
    fn check_names(&self) -> PyResult<()> {
        stoatflow_plan::require_explicit_names(&self.plan).map_err(to_py_err)
    }

    /// The plan with an application's error handlers, whose callables are numbered from 0.
    fn with_handlers(
        &self,
        handlers_json: &str,
        functions: Vec<Py<PyAny>>,
        function_names: Vec<String>,
    ) -> PyResult<Self> {
        let handlers: Handlers = serde_json::from_str(handlers_json)
            .map_err(|e| to_py_err(Error::internal("the handlers can't be read").caused_by(e)))?;
        let mut foreign = (*self.foreign).clone();
        let before = u32::try_from(foreign.udfs.len()).unwrap_or(u32::MAX);
        let named = functions.into_iter().zip(function_names);
        let udfs = named.map(|(call, name)| Arc::new(PyUdf::new(name, call)) as Arc<dyn Udf>);
        foreign.udfs.extend(udfs);
        let mut plan = (*self.plan).clone();
        plan.handlers = handlers.behind(before).or(&plan.handlers);
        Ok(Self {
            plan: Arc::new(plan),
            foreign: Arc::new(foreign),
        })
    }
}

/// Validates a logical plan and compiles it into a physical plan.
#[pyfunction]
#[pyo3(signature = (plan_json, functions, function_names, serdes, processors=vec![], processor_names=vec![], metrics=None))]
#[allow(clippy::too_many_arguments)] // the tables of a plan
pub fn compile(
    py: Python<'_>,
    plan_json: &[u8],
    functions: Vec<Py<PyAny>>,
    function_names: Vec<String>,
    serdes: Vec<Bound<'_, PyAny>>,
    processors: Vec<Py<PyAny>>,
    processor_names: Vec<String>,
    metrics: Option<Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let plan = stoatflow_plan::compile(plan_json).map_err(to_py_err)?;
    let calls = crate::event_loop::calls(py, &functions, &function_names)?;
    let serdes = serdes.iter().map(serde::custom);
    let serdes = serdes.collect::<PyResult<Vec<_>>>()?;
    let roles = roles(&plan, &serdes);
    let named = functions.into_iter().zip(function_names);
    let registry = match &metrics {
        Some(metrics) => {
            let found = metrics.getattr("registry")?;
            let registry = found.extract::<PyRef<'_, MetricRegistry>>()?;
            Arc::clone(&registry.metrics)
        }
        None => Arc::default(),
    };
    let mut foreign = ForeignCode {
        metrics: registry,
        serdes,
        calls,
        runtime: Some(Arc::new(PyRuntime { pauses: true })),
        ..ForeignCode::default()
    };
    let udfs = (0..).zip(named).map(|(number, (callable, name))| {
        let role = roles.get(&number).copied().unwrap_or_default();
        let mut udf = PyUdf::new(name, callable).with_role(role);
        if let ResultRole::Decoded(store) = role {
            let kept = &plan.stores[usize::from(store.0)];
            udf = udf.with_aggregate_serde(foreign.serde(&kept.value).map_err(to_py_err)?);
        }
        Ok(Arc::new(udf) as Arc<dyn Udf>)
    });
    let udfs = udfs.collect::<PyResult<_>>()?;
    let processors = processors
        .into_iter()
        .zip(processor_names)
        .map(|(make, name)| {
            let metrics = metrics.as_ref().map(|metrics| metrics.clone().unbind());
            Arc::new(PyProcessorSupplier::new(name, make, metrics)) as Arc<dyn ProcessorSupplier>
        });
    foreign.udfs = udfs;
    foreign.processors = processors.collect();
    Ok(Plan {
        plan: Arc::new(plan),
        foreign: Arc::new(foreign),
    })
}

/// The node tags (`op`) that a plan may contain.
#[pyfunction]
pub fn node_kinds() -> Vec<&'static str> {
    stoatflow_plan::CALLS.to_vec()
}
