//! The engine as a Python handle: starts, controls and queries a running application.
//!
//! Every call that may wait detaches the interpreter. Errors become the classes of `stoatflow.errors`;
//! the error that ended the engine is raised by every `wait`.

use crate::arrow::{StoreBatches, store_request};
use crate::build_info::info;
use crate::embedded::EmbeddedBroker;
use crate::errors::{as_py_err, to_py_err};
use crate::metrics::metrics_json;
use crate::parked::{ParkedEntry, entries};
use crate::plan::Plan;
use crate::queries::changes::{self, FollowedKeys, StateChanges, min_positions};
use crate::queries::{StateSnapshot, kind_name};
use crate::settings::{Pairs, checked, to_values};
use crate::tokens::{self, PyTokens};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::{BrokerAddress, in_force, is_secret};
use stoatflow_core::{Result, Settings, TopicPartition};
use stoatflow_engine::admin::AdminView;
use stoatflow_engine::restore::{RestoreEvent, RestoreListener, RestoreStep};
use stoatflow_engine::runtime::threads::{Listener, RestartAnswer, Uncaught};
use stoatflow_log::kafka::TokenProvider as _;
use stoatflow_log::{Broker, embedded, kafka};
use stoatflow_operators::ForeignCode;

/// Timeout of a request to the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// One run of one application.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Engine {
    engine: stoatflow_engine::Engine,
    broker: Arc<dyn Broker>,
    group: String,
    error: PyOnceLock<PyErr>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (plan, pairs, broker=None, listener=None, on_restore=None, uncaught=None, origins=Vec::new()))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        py: Python<'_>,
        plan: &Plan,
        pairs: Pairs<'_>,
        broker: Option<&EmbeddedBroker>,
        listener: Option<Py<PyAny>>,
        on_restore: Option<Py<PyAny>>,
        uncaught: Option<Py<PyAny>>,
        origins: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let PreparedRun {
            values,
            settings,
            broker,
        } = PreparedRun::new(py, plan, &pairs, broker)?;
        let group = settings.application_id.clone();
        for note in &settings.notes {
            tracing::info!(target: "stoatflow::settings", application = %group, "{note}");
        }
        let engine = stoatflow_engine::Engine::new(
            plan.plan.for_handlers(&settings.handlers),
            Arc::new(ForeignCode {
                application: Some(group.as_str().into()),
                ..(*plan.foreign).clone()
            }),
            settings,
            Arc::clone(&broker),
            AdminView {
                settings: settings_view(&values, &origins),
                info: info(py, broker.as_ref())?,
            },
            listener.map(state_listener),
            on_restore.map(restore_listener),
        );
        if let Some(uncaught) = uncaught {
            engine.on_uncaught(uncaught_handler(uncaught));
        }
        Ok(Self {
            engine,
            broker,
            group,
            error: PyOnceLock::new(),
        })
    }

    /// Starts the application in the background.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.start()).map_err(to_py_err)
    }

    /// Requests a stop that drains and commits; returns immediately. After `within_s`, unfinished work
    /// is abandoned.
    #[pyo3(signature = (within_s=None))]
    fn request_stop(&self, py: Python<'_>, within_s: Option<f64>) {
        py.detach(|| self.engine.request_stop(within_s.map(seconds)));
    }

    /// Maximum duration of a stop.
    fn shutdown_timeout_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.engine.shutdown_timeout().as_secs_f64())
    }

    /// Whether the engine has ended while one of its threads still runs.
    fn has_left_behind(&self, py: Python<'_>) -> bool {
        py.detach(|| self.engine.has_abandoned_threads())
    }

    /// Stops without a last commit; returns immediately.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.engine.abort());
    }

    /// Waits until the engine has stopped.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        let timeout = timeout_s.map(seconds);
        py.detach(|| self.engine.wait(timeout)).map_err(|error| {
            // All waiters share one exception. Creating it runs Python code, so none of our locks may be
            // held here.
            let exception = self.error.get_or_init(py, || as_py_err(&error));
            exception.clone_ref(py)
        })
    }

    /// Removes the local state of an application that is not running.
    fn clean_up(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.clean_up()).map_err(to_py_err)
    }

    /// Stops reading input; returns immediately.
    fn pause(&self, py: Python<'_>) {
        py.detach(|| self.engine.pause());
    }

    /// Resumes reading input.
    fn resume(&self, py: Python<'_>) {
        py.detach(|| self.engine.resume());
    }

    /// Whether reading is paused.
    fn is_paused(&self, py: Python<'_>) -> bool {
        py.detach(|| self.engine.is_paused())
    }

    /// The engine's state.
    fn state(&self, py: Python<'_>) -> &'static str {
        py.detach(|| self.engine.status().state().name())
    }

    /// Records of the source topics that are not committed yet.
    fn lag(&self, py: Python<'_>) -> PyResult<i64> {
        py.detach(|| self.count_lag()).map_err(to_py_err)
    }

    /// All metrics as a JSON object.
    fn metrics_json(&self, py: Python<'_>) -> String {
        py.detach(|| metrics_json(self.engine.status()))
    }

    /// The restore progress of all stores: name, records to read, records read, whether restored.
    fn restore_progress(&self, py: Python<'_>) -> Vec<(String, u64, u64, bool)> {
        let stores = py.detach(|| self.engine.status().restore());
        stores
            .into_iter()
            .map(|s| (s.store, s.total, s.done, s.complete))
            .collect()
    }

    /// Logs a hint about a function of a node and adds it to the status.
    fn hint(&self, py: Python<'_>, node: &str, function: &str, text: &str) {
        let application = self.group.as_str();
        py.detach(|| {
            tracing::info!(target: "stoatflow::hint", application, node, function, "{text}");
            self.engine.status().hint(node, text);
        });
    }

    /// The rows of a store, as of the last commit, as Arrow batches.
    fn store_batches(
        &self,
        py: Python<'_>,
        name: &str,
        schema: Option<&str>,
        max_rows: usize,
    ) -> PyResult<StoreBatches> {
        let request = store_request(name, schema, max_rows)?;
        let batches = py.detach(|| self.engine.store_batches(request));
        batches.map(StoreBatches::new).map_err(to_py_err)
    }

    /// A snapshot of one committed epoch of one store or of all stores; waits until the epoch covers the
    /// positions in `at_least`.
    #[pyo3(signature = (store=None, at_least=Vec::new(), timeout_s=0.0))]
    fn snapshot(
        &self,
        py: Python<'_>,
        store: Option<&str>,
        at_least: Vec<(String, i32, i64)>,
        timeout_s: f64,
    ) -> PyResult<StateSnapshot> {
        let min_positions = min_positions(at_least);
        let taken = py.detach(|| {
            self.engine
                .snapshot(store, &min_positions, seconds(timeout_s))
        });
        let taken = taken.map_err(to_py_err)?;
        Ok(StateSnapshot::new(self.engine.clone(), taken))
    }

    /// Follows the changes of a store. `at_least` is positions and a timeout in seconds; `given` is
    /// whether to begin with a snapshot and how many bytes may be buffered.
    fn follow(
        &self,
        py: Python<'_>,
        store: &str,
        at_least: (Vec<(String, i32, i64)>, f64),
        given: (bool, usize),
        keys: FollowedKeys<'_>,
        query_json: &[u8],
    ) -> PyResult<StateChanges> {
        let spec = changes::spec(given, &keys, query_json)?;
        let (min_positions, timeout) = (min_positions(at_least.0), seconds(at_least.1));
        let follower = py.detach(|| self.engine.follow(store, &spec, &min_positions, timeout));
        follower.map(StateChanges::new).map_err(to_py_err)
    }

    /// The kind of a store.
    fn store_kind(&self, py: Python<'_>, name: &str) -> PyResult<&'static str> {
        let kind = py.detach(|| self.engine.store_kind(name));
        let kind = kind.map_err(to_py_err)?;
        Ok(kind_name(kind))
    }

    /// Records that an offload has parked, as of the last commit.
    fn parked<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<ParkedEntry<'py>>> {
        let found = py.detach(|| self.engine.parked(name)).map_err(to_py_err)?;
        entries(py, &found)
    }

    /// Positions of the source partitions: topic, partition, committed offset, end offset.
    fn positions(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64, i64)>> {
        py.detach(|| self.source_positions()).map_err(to_py_err)
    }

    /// What a Python thread is doing for the application, as JSON: lane, epoch, function, node, record.
    fn activity_json(&self, py: Python<'_>, thread: u64) -> Option<String> {
        // The duration is not used here.
        let (activity, epoch) = py.detach(|| self.engine.status().activity_of(thread, 0))?;
        let mut shown = json!(activity);
        shown["lane"] = json!(activity.lane);
        shown["epoch"] = json!(epoch);
        Some(shown.to_string())
    }

    /// The URL of the admin port.
    fn admin_url(&self, py: Python<'_>) -> Option<String> {
        let at = py.detach(|| self.engine.admin_address())?;
        let scheme = if at.encrypted { "https" } else { "http" };
        Some(format!("{scheme}://{}/", at.socket))
    }
}

/// Checked settings, and the broker they name.
pub struct PreparedRun {
    /// As given.
    pub values: Vec<(String, Value)>,
    /// Checked.
    pub settings: Settings,
    /// An open broker, or one that connects later.
    pub broker: Arc<dyn Broker>,
}

impl PreparedRun {
    /// Prepares a run of a plan; an open broker may replace an address.
    pub fn new(
        py: Python<'_>,
        plan: &Plan,
        pairs: &Pairs<'_>,
        broker: Option<&EmbeddedBroker>,
    ) -> PyResult<Self> {
        let prepared = Self::open(py, pairs, broker)?;
        if prepared.settings.ensure_explicit_naming {
            stoatflow_plan::require_explicit_names(&plan.plan).map_err(to_py_err)?;
        }
        Ok(prepared)
    }

    /// Prepares settings and broker for commands that need no plan.
    pub fn open(
        py: Python<'_>,
        pairs: &Pairs<'_>,
        broker: Option<&EmbeddedBroker>,
    ) -> PyResult<Self> {
        crate::logging::init();
        let mut values = to_values(pairs)?;
        let given = broker.map(EmbeddedBroker::handle).transpose()?;
        if let Some(broker) = broker
            && !values
                .iter()
                .any(|(key, _)| key.replace('_', ".") == "bootstrap.servers")
        {
            values.push((
                "bootstrap.servers".into(),
                Value::from(format!("embedded:{}", broker.directory())),
            ));
        }
        let mut settings = checked(&values).map_err(to_py_err)?;
        let properties = settings.client_properties.clone();
        let broker: Arc<dyn Broker> = match (given, settings.broker.clone()) {
            (Some(broker), _) => broker,
            (None, BrokerAddress::Kafka(servers)) => {
                let tokens = tokens_of(pairs)?.map(|tokens| {
                    values.push(("oauth_cb".into(), Value::from(tokens.name())));
                    Arc::new(tokens) as _
                });
                kafka::connect_with_tokens(&servers, &properties, tokens).map_err(to_py_err)?
            }
            (None, BrokerAddress::Embedded(None)) => {
                let temporary = py.detach(|| embedded::open(None)).map_err(to_py_err)?;
                // By default, state is removed with temporary topics.
                values.retain(|(key, _)| key.replace('_', ".") != "bootstrap.servers");
                let address = format!("embedded:{}", temporary.path().display());
                values.push(("bootstrap.servers".into(), Value::from(address)));
                settings = checked(&values).map_err(to_py_err)?;
                temporary
            }
            (None, BrokerAddress::Embedded(path)) => py
                .detach(|| embedded::open(path.as_deref()))
                .map_err(to_py_err)?,
        };
        Ok(Self {
            values,
            settings,
            broker,
        })
    }
}

/// The token provider, if that setting holds a function.
pub fn tokens_of(pairs: &Pairs<'_>) -> PyResult<Option<PyTokens>> {
    let found = pairs.iter().rfind(|(key, _)| tokens::is_setting(key));
    found.map(|(_, calls)| PyTokens::new(calls)).transpose()
}

impl Engine {
    /// For threads that never attach to the interpreter.
    pub fn handle(&self) -> stoatflow_engine::Engine {
        self.engine.clone()
    }

    fn count_lag(&self) -> Result<i64> {
        let positions = self.source_positions()?;
        let behind = positions.iter().map(|(_, _, at, end)| (end - at).max(0));
        Ok(behind.sum())
    }

    /// Topic, partition, committed offset (or the beginning), and the end of the committed records. The
    /// position is at most that of the epoch that stores show.
    fn source_positions(&self) -> Result<Vec<(String, i32, i64, i64)>> {
        let topics = self.engine.source_topics()?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let mut partitions: Vec<TopicPartition> = Vec::new();
        for info in self
            .broker
            .topics(&names, BROKER_TIMEOUT)?
            .into_iter()
            .flatten()
        {
            partitions.extend(
                (0..info.partitions).map(|p| TopicPartition::new(Arc::clone(&info.name), p)),
            );
        }
        partitions.sort();
        partitions.dedup();
        let ranges = self.broker.ranges(&partitions, BROKER_TIMEOUT)?;
        // A coordinator may hold offsets pending for long; the engine knows what it has committed.
        let committed =
            self.broker
                .committed_despite_pending(&self.group, &partitions, BROKER_TIMEOUT)?;
        let cut = self.engine.visible_cut();
        let shown: BTreeMap<_, _> = cut
            .iter()
            .flat_map(|cut| cut.positions.iter().cloned())
            .collect();
        let rows = partitions.iter().zip(ranges).zip(committed);
        let rows = rows.map(|((partition, range), committed)| {
            let (committed, pending) = committed;
            let at = committed.map_or(range.begin, |c| c.offset.max(range.begin));
            let at = match shown.get(partition) {
                Some(shown) if pending => *shown,
                Some(shown) => at.min(*shown),
                None => at,
            };
            let topic = partition.topic.to_string();
            (topic, partition.partition.0, at.0, range.stable_end.0)
        });
        Ok(rows.collect())
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX)
}

/// The settings for the admin port: all values in force and the origin of each. Secrets are masked.
fn settings_view(values: &[(String, Value)], origins: &[(String, String)]) -> Value {
    let dotted = |name: &str| name.trim().trim_matches('_').replace('_', ".");
    let mut shown = Map::new();
    for (name, value, given) in in_force(values) {
        // `off` is not a secret.
        let value = match &value {
            Value::String(text) if text == "off" => value,
            _ if is_secret(&name) => Value::from("***"),
            _ => value,
        };
        let origin = origins.iter().find(|(of, _)| dotted(of) == dotted(&name));
        let origin = origin.map(|(_, origin)| origin.as_str()).filter(|_| given);
        let mut row = json!({ "value": value });
        let (source, from) = match origin.and_then(|origin| origin.split_once(' ')) {
            Some(("variable", name)) => ("environment", Some(name)),
            Some(("file", path)) => ("file", Some(path)),
            _ if given => ("code", None),
            _ => ("default", None),
        };
        row["source"] = Value::from(source);
        if let Some(from) = from {
            row["from"] = Value::from(from);
        }
        shown.insert(name, row);
    }
    json!({ "settings": shown })
}

fn state_listener(listener: Py<PyAny>) -> Listener {
    Box::new(move |old, new| {
        Python::attach(|py| {
            if let Err(error) = listener.call1(py, (new.name(), old.name())) {
                // A listener must not stop the engine; Python's unraisable hook reports its exception.
                error.write_unraisable(py, Some(listener.bind(py)));
            }
        });
    })
}

/// The uncaught exception handler: called with the exception, its answer restarts the engine
/// (`REPLACE_THREAD`) or ends the application. A handler that raises ends it too.
fn uncaught_handler(uncaught: Py<PyAny>) -> Uncaught {
    Arc::new(move |error| {
        Python::attach(|py| {
            let answer = uncaught
                .call1(py, (as_py_err(error).value(py),))
                .and_then(|answer| answer.extract::<String>(py));
            match answer {
                Ok(answer) if answer == "REPLACE_THREAD" => RestartAnswer::Replace,
                Ok(_) => RestartAnswer::Shutdown,
                Err(error) => {
                    error.write_unraisable(py, Some(uncaught.bind(py)));
                    RestartAnswer::Shutdown
                }
            }
        })
    })
}

/// The restore listener: called with (what, store, topic, partition, two numbers), from a thread that
/// doesn't hold up the restore.
fn restore_listener(listener: Py<PyAny>) -> RestoreListener {
    Arc::new(move |event: &RestoreEvent| {
        let (word, first, second) = match event.step {
            RestoreStep::Started { from, end } => ("start", from.0, end.0),
            RestoreStep::Batch { reached, records } => ("batch", reached.0, count(records)),
            RestoreStep::Ended { records } => ("end", count(records), 0),
            RestoreStep::Suspended { records } => ("suspended", count(records), 0),
        };
        let (topic, number) = (&*event.partition.topic, event.partition.partition.0);
        Python::attach(|py| {
            let arguments = (word, event.store.as_str(), topic, number, first, second);
            if let Err(error) = listener.call1(py, arguments) {
                error.write_unraisable(py, Some(listener.bind(py)));
            }
        });
    })
}

fn count(records: u64) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}
