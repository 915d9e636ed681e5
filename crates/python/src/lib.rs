//! `stoatflow._native`: the boundary between Python and the engine.
//!
//! Only these pass through it: the plan, once, as data plus tables of callables; records, in batches;
//! errors, as the classes of `stoatflow.errors`. Long-running calls detach the interpreter.

mod admin_hooks;
mod arrow;
mod avro;
mod build_info;
mod convert;
mod custom_metrics;
mod dict_items;
mod doctor;
mod driver;
mod embedded;
mod engine;
mod errors;
mod event_loop;
mod exit_watchdog;
mod expression;
mod handler;
mod json_schema;
mod key_hash;
mod lazy;
mod logging;
mod metrics;
mod parked;
mod plan;
mod processor;
mod profile;
mod protobuf;
mod queries;
mod reset;
mod roles;
mod schemas;
mod serde;
mod settings;
mod tokens;
mod topics;
mod typed_json;
mod udf;
mod vectorcall;
mod worker;

// Linked in without a call from Rust: librdkafka calls it (see `build.rs`).
use stoatflow_client_guard as _;

/// The extension module.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::admin_hooks::{AdminCall, AdminHooks};
    #[pymodule_export]
    use crate::arrow::{ArrowBatch, StoreBatches};
    #[pymodule_export]
    use crate::avro::AvroFormat;
    #[pymodule_export]
    use crate::build_info::built_with;
    #[pymodule_export]
    use crate::custom_metrics::{Counter, Gauge, Histogram, HistogramTimer, MetricRegistry};
    #[pymodule_export]
    use crate::doctor::open_transactions;
    #[pymodule_export]
    use crate::driver::Driver;
    #[pymodule_export]
    use crate::embedded::EmbeddedBroker;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::exit_watchdog::{ExitWatchdog, exit_after};
    #[pymodule_export]
    use crate::expression::evaluate;
    #[pymodule_export]
    use crate::json_schema::JsonSchemaFormat;
    #[pymodule_export]
    use crate::key_hash::murmur2;
    #[pymodule_export]
    use crate::lazy::{JsonArray, JsonObject, to_python};
    #[pymodule_export]
    use crate::logging::{log_to, take_log_lines};
    #[pymodule_export]
    use crate::plan::{Plan, compile, node_kinds};
    #[pymodule_export]
    use crate::processor::{
        Cancellable, KeyLocks, KeyValueStore, ProcessorContext, SessionStore, StoreIterator,
        TimerStore, TimestampedKeyValueStore, VersionedKeyValueStore, WindowStore,
    };
    #[pymodule_export]
    use crate::protobuf::ProtobufFormat;
    #[pymodule_export]
    use crate::queries::changes::StateChanges;
    #[pymodule_export]
    use crate::queries::{StateReader, StateRows, StateSnapshot, headers_from_bytes};
    #[pymodule_export]
    use crate::reset::{remove_orphans, reset_application};
    #[pymodule_export]
    use crate::settings::{
        check_settings, error_kinds, plan_settings, settings_schema, streams_config_markdown,
    };
    #[pymodule_export]
    use crate::topics::{TopicReader, TopicsClient, TransactionalWriter};
    #[pymodule_export]
    use crate::worker::WorkerClient;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        crate::lazy::register(module.py())?;
        crate::profile::watch_forks(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
