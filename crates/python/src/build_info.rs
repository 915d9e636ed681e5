//! Versions of this library's components, and the environment it runs in.

use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use stoatflow_log::{Broker, kafka};

/// Names and values, in display order.
#[pyfunction]
pub fn built_with() -> Vec<(&'static str, String)> {
    // The crate's version ends with the version of the RocksDB it bundles.
    let rocksdb = env!("VERSION_OF_LIBROCKSDB_SYS");
    let rocksdb = rocksdb.rsplit('+').next().unwrap_or(rocksdb);
    let mut rows = vec![
        ("engine", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "build",
            format!("{}, {}", env!("BUILD_TARGET"), env!("BUILD_PROFILE")),
        ),
        ("RocksDB", rocksdb.to_owned()),
        (
            "native client",
            format!("kafka-protocol {}", env!("VERSION_OF_KAFKA_PROTOCOL")),
        ),
        (
            "TLS",
            format!(
                "rustls {} with ring {}",
                env!("VERSION_OF_RUSTLS"),
                env!("VERSION_OF_RING")
            ),
        ),
    ];
    rows.extend(kafka::built_with());
    let abi = if cfg!(Py_GIL_DISABLED) {
        "free-threaded"
    } else if cfg!(Py_LIMITED_API) {
        "abi3, CPython 3.10 and later"
    } else {
        "of one CPython version"
    };
    rows.push(("Python ABI", abi.to_owned()));
    rows
}

/// Build and runtime details for `/info` of the admin port.
pub fn info(py: Python<'_>, broker: &dyn Broker) -> PyResult<Value> {
    let built: Map<String, Value> = (built_with().into_iter())
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let platform = py.import("platform")?;
    let python: String = platform.call_method0("python_version")?.extract()?;
    let host: String = platform.call_method0("node")?.extract()?;
    let client = broker.client();
    Ok(json!({
        "built_with": built,
        "client": { "name": client.name, "why": client.why },
        "broker": broker.address(),
        "host": host,
        "pid": std::process::id(),
        "python": python,
    }))
}
