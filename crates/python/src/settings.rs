//! Settings, and the tables that Python code is checked against.

use crate::engine::tokens_of;
use crate::errors::to_py_err;
use crate::tokens;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use serde_json::Value;
use std::sync::Arc;
use stoatflow_core::error::ERROR_KINDS;
use stoatflow_core::settings::BrokerAddress;
use stoatflow_core::settings::KEYS;
use stoatflow_core::{Error, Settings};
use stoatflow_log::kafka;

/// Settings as passed from Python.
pub type Pairs<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// Converts pairs to plain data, without the token function. Values that are no scalars are passed to
/// the checker as text.
pub fn to_values(pairs: &Pairs<'_>) -> PyResult<Vec<(String, Value)>> {
    pairs
        .iter()
        .filter(|(key, _)| !tokens::is_setting(key))
        .map(|(key, value)| {
            let value = if value.is_none() {
                Value::Null
            } else if let Ok(b) = value.cast::<PyBool>() {
                Value::Bool(b.is_true())
            } else if value.cast::<PyInt>().is_ok() {
                match value.extract::<i64>() {
                    Ok(i) => Value::from(i),
                    Err(_) => Value::from(value.str()?.to_string()),
                }
            } else if let Ok(x) = value.cast::<PyFloat>() {
                Value::from(x.value())
            } else {
                Value::from(value.str()?.to_string())
            };
            Ok((key.clone(), value))
        })
        .collect()
}

/// Checked settings.
pub fn checked(values: &[(String, Value)]) -> Result<Settings, Error> {
    Settings::from_pairs(values)
}

/// Default key serde, value serde and timestamp extractor for sources and stores that name none, as the
/// settings spell them (a serde in user code is `custom`), the serdes of the entries of lists in keys
/// and in values, and whether self-joins keep one store.
#[pyfunction]
pub fn plan_settings(pairs: Pairs<'_>) -> PyResult<([Option<&'static str>; 5], bool)> {
    const NAMES: [&str; 6] = [
        "default.key.serde",
        "default.value.serde",
        "default.list.key.serde.inner",
        "default.list.value.serde.inner",
        "default.timestamp.extractor",
        "topology.optimization",
    ];
    let mut values = to_values(&pairs)?;
    values.retain(|(name, _)| NAMES.contains(&name.replace('_', ".").as_str()));
    if values.is_empty() {
        return Ok(([None; 5], false));
    }
    for (needed, any) in [
        ("application.id", "any"),
        ("bootstrap.servers", "embedded:"),
    ] {
        values.push((needed.to_owned(), Value::from(any)));
    }
    let settings = checked(&values).map_err(to_py_err)?;
    let defaults = [
        settings.default_key_serde,
        settings.default_value_serde,
        settings.default_timestamp,
        settings.default_key_entries,
        settings.default_value_entries,
    ];
    Ok((defaults, settings.single_store_self_join))
}

/// A Markdown table of all names in Kafka Streams' `StreamsConfig` and how each is treated.
#[pyfunction]
pub fn streams_config_markdown() -> String {
    stoatflow_core::settings::streams_markdown()
}

/// Raises a `ConfigError` that lists all problems of the settings; if there are none, those of the
/// client properties.
#[pyfunction]
pub fn check_settings(pairs: Pairs<'_>) -> PyResult<()> {
    let settings = checked(&to_values(&pairs)?).map_err(to_py_err)?;
    let BrokerAddress::Kafka(servers) = &settings.broker else {
        return Ok(());
    };
    let tokens = tokens_of(&pairs)?.map(|tokens| Arc::new(tokens) as _);
    kafka::check_properties(servers, &settings.client_properties, tokens).map_err(to_py_err)
}

/// Name, type, default and description of every setting.
#[pyfunction]
pub fn settings_schema() -> Vec<(&'static str, String, Option<&'static str>, &'static str)> {
    KEYS.iter()
        .map(|k| (k.name, format!("{:?}", k.kind), k.default, k.doc))
        .collect()
}

/// The name of every error kind, the recommended action, and its exception class.
#[pyfunction]
pub fn error_kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    ERROR_KINDS
        .iter()
        .map(|(kind, name, action)| (*name, *action, kind.class()))
        .collect()
}
