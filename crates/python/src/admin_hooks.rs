//! What user code adds to the admin port: health checks and endpoints.
//!
//! Takes results of checks and answers of functions from Python threads (`stoatflow._runtime.app_services`),
//! passes them to the engine. Calls no Python itself; every wait detaches the interpreter.

use crate::engine::Engine;
use crate::errors::to_py_err;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_engine::admin::call_queue::{UserAnswer, UserCall};
use stoatflow_engine::admin::endpoints::Endpoint;
use stoatflow_engine::admin::health_checks::HealthCheck;

/// See the module.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct AdminHooks {
    engine: stoatflow_engine::Engine,
}

#[pymethods]
impl AdminHooks {
    #[new]
    fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.handle(),
        }
    }

    /// Adds a health check; returns its number.
    fn add_health_check(
        &self,
        py: Python<'_>,
        name: &str,
        interval_s: f64,
        timeout_s: f64,
        required: bool,
    ) -> PyResult<usize> {
        let check = HealthCheck {
            name: name.to_owned(),
            interval: seconds(interval_s),
            timeout: seconds(timeout_s),
            is_required: required,
        };
        let checks = &self.engine.status().health_checks;
        py.detach(|| checks.add(check, self.engine.monotonic()))
            .map_err(to_py_err)
    }

    /// A call of a health check begins.
    fn begin_health_check(&self, py: Python<'_>, number: usize) {
        let checks = &self.engine.status().health_checks;
        py.detach(|| checks.begin(number, self.engine.monotonic()));
    }

    /// A call of a health check has returned.
    #[pyo3(signature = (number, passed, detail=None))]
    fn end_health_check(&self, py: Python<'_>, number: usize, passed: bool, detail: Option<&str>) {
        let checks = &self.engine.status().health_checks;
        py.detach(|| checks.end(number, passed, detail, self.engine.monotonic()));
    }

    /// Adds an endpoint; returns its number.
    fn add_endpoint(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        summary: &str,
        timeout_s: f64,
    ) -> PyResult<usize> {
        let endpoint = Endpoint {
            method: method.to_owned(),
            path: path.to_owned(),
            summary: summary.to_owned(),
            timeout: seconds(timeout_s),
        };
        py.detach(|| self.engine.status().endpoints.add(endpoint))
            .map_err(to_py_err)
    }

    /// The next request for an endpoint; `None` if none arrives in time.
    fn next_call(&self, py: Python<'_>, within_s: f64) -> Option<AdminCall> {
        let calls = &self.engine.status().endpoints.calls;
        py.detach(|| calls.next(seconds(within_s))).map(AdminCall)
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX)
}

/// A request for an endpoint. The client gets 503 if it is dropped without an answer.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct AdminCall(Arc<UserCall>);

impl Drop for AdminCall {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

#[pymethods]
impl AdminCall {
    /// The number of the endpoint.
    #[getter]
    fn endpoint(&self) -> usize {
        self.0.request.endpoint
    }

    /// The method.
    #[getter]
    fn method(&self) -> &str {
        &self.0.request.method
    }

    /// The path.
    #[getter]
    fn path(&self) -> &str {
        &self.0.request.path
    }

    /// The parameters in the path.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.0.request.parameters {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// What follows the question mark.
    #[getter]
    fn query(&self) -> &str {
        &self.0.request.query
    }

    /// Headers, with lower-case names.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        self.0.request.headers.clone()
    }

    /// The body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.request.body)
    }

    /// Answers; only the first answer counts.
    fn answer(&self, py: Python<'_>, status: u16, content_type: &str, body: &[u8]) {
        let answer = UserAnswer {
            status,
            content_type: content_type.to_owned(),
            body: body.to_vec(),
        };
        py.detach(|| self.0.answer(answer));
    }
}
