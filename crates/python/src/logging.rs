//! Configures where the engine's log lines go: to standard error, readable on a terminal and as JSON
//! elsewhere, or to Python's `logging` once requested.
//!
//! By default it logs warnings and errors, hints about functions, and restore progress if standard error
//! is no terminal (a terminal shows a bar). It leaves out the Kafka client's own lines: important ones
//! come back as errors, and an outage produces hundreds. `RUST_LOG` (`warn`, `stoatflow_engine=debug`)
//! overrides this. An application that set up a tracing subscriber in this process keeps its own.

mod fields;
mod lines;
mod stderr;

pub use lines::{flush_to_stderr, take_log_lines};

use crate::errors::to_py_err;
use fields::SpanFields;
use lines::ToPython;
use pyo3::prelude::*;
use std::io::IsTerminal;
use std::sync::OnceLock;
use stderr::ToStderr;
use stoatflow_core::Error;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

const DEFAULT_DIRECTIVES: &str =
    "warn,stoatflow::kafka=off,stoatflow::hint=info,stoatflow::settings=info,stoatflow::start=info";

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Sets up logging, once per process.
pub fn init() {
    if FILTER.get().is_some() {
        return;
    }
    let is_terminal = std::io::stderr().is_terminal();
    let directives = if is_terminal {
        DEFAULT_DIRECTIVES.to_owned()
    } else {
        format!("{DEFAULT_DIRECTIVES},stoatflow::restore=info")
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    let (filter, handle) = reload::Layer::new(filter);
    let layers = tracing_subscriber::registry()
        .with(filter)
        .with(SpanFields)
        .with(ToStderr { is_terminal })
        .with(ToPython);
    // Fails if the process has a subscriber already, which is then kept.
    if layers.try_init().is_ok() {
        let _set_before = FILTER.set(handle);
    }
}

/// Routes log lines that pass these directives (same syntax as `RUST_LOG`) to Python, which fetches them
/// with `take_log_lines`; with `to_python=False`, to standard error again. `RUST_LOG` overrides the
/// directives.
#[pyfunction]
#[pyo3(signature = (directives, to_python))]
pub fn log_to(directives: &str, to_python: bool) -> PyResult<()> {
    init();
    let wanted = EnvFilter::builder().parse(directives).map_err(|e| {
        to_py_err(
            Error::config(format!("'{directives}' is no filter of log lines"))
                .hint("write a level (info), or levels by target: stoatflow_engine=debug")
                .caused_by(e),
        )
    })?;
    let chosen = EnvFilter::try_from_default_env().unwrap_or(wanted);
    let Some(handle) = FILTER.get() else {
        return Err(to_py_err(
            Error::config("log lines of the engine already go to a subscriber of this process")
                .hint("set the level there"),
        ));
    };
    handle
        .reload(chosen)
        .map_err(|e| to_py_err(Error::internal("the filter of log lines is gone").caused_by(e)))?;
    lines::set_on(to_python);
    Ok(())
}
