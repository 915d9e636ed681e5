//! The compile door: the plan crosses once, as data plus tables of callables.

use crate::errors::to_py_err;
use crate::processor::PyProcessorSupplier;
use crate::serde::PySerde;
use crate::udf::PyUdf;
use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, Error};
use stoatflow_operators::{Foreign, ProcessorSupplier, Udf};
use stoatflow_plan::PhysicalPlan;

/// A checked plan with its functions.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Plan {
    pub plan: Arc<PhysicalPlan>,
    pub foreign: Arc<Foreign>,
}

#[pymethods]
impl Plan {
    /// The text of Kafka Streams' `topology.describe()`.
    #[getter]
    fn description(&self) -> &str {
        &self.plan.description
    }

    /// What will run, as JSON.
    #[getter]
    fn physical_json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.plan).map_err(|e| {
            to_py_err(Error::internal("the physical plan has no JSON form").caused_by(e))
        })
    }
}

/// Checks a plan and cuts it into what will run.
#[pyfunction]
#[pyo3(signature = (plan_json, functions, function_names, serdes, processors=vec![], processor_names=vec![]))]
pub fn compile(
    plan_json: &[u8],
    functions: Vec<Py<PyAny>>,
    function_names: Vec<String>,
    serdes: Vec<Bound<'_, PyAny>>,
    processors: Vec<Py<PyAny>>,
    processor_names: Vec<String>,
) -> PyResult<Plan> {
    let plan = stoatflow_plan::compile(plan_json).map_err(to_py_err)?;
    let udfs = functions
        .into_iter()
        .zip(function_names)
        .map(|(callable, name)| Arc::new(PyUdf::new(name, callable)) as Arc<dyn Udf>);
    let serdes = serdes
        .iter()
        .map(|s| PySerde::new(s).map(|s| Arc::new(s) as Arc<dyn CustomSerde>));
    let processors = processors
        .into_iter()
        .zip(processor_names)
        .map(|(make, name)| {
            Arc::new(PyProcessorSupplier::new(name, make)) as Arc<dyn ProcessorSupplier>
        });
    let foreign = Foreign {
        udfs: udfs.collect(),
        serdes: serdes.collect::<PyResult<_>>()?,
        processors: processors.collect(),
    };
    Ok(Plan {
        plan: Arc::new(plan),
        foreign: Arc::new(foreign),
    })
}

/// The tags (`op`) that a plan may hold.
#[pyfunction]
pub fn node_kinds() -> Vec<&'static str> {
    stoatflow_plan::logical::CALLS.to_vec()
}
