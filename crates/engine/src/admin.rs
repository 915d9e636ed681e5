//! The admin port: what an operator, a scraper or a browser can see of a running engine.
//!
//! Serves HTTP on one address, from counters in [`Status`]: it answers even while every lane waits for
//! the interpreter or the broker is unreachable. Never touches a lane or a user function. The only thing
//! it can change is whether the application reads (`control`). `access` decides who may read what.

mod access;
pub mod call_queue;
mod connections;
mod control;
pub mod dead_letters;
mod debug;
mod doctor;
pub mod drop_log;
pub mod endpoints;
pub mod error_log;
pub mod function_calls;
mod health;
pub mod health_checks;
pub(crate) mod lag_monitor;
mod metrics;
mod node_times;
mod offsets;
pub mod open_transactions;
mod problem;
pub mod status;
mod stores;
pub mod target;
pub mod thread_activity;
mod tls;
mod top;
mod topology;
mod watermarks;

#[cfg(test)]
pub(crate) mod tests;

use crate::admin::access::{AccessRules, MAX_BODY_BYTES};
use crate::admin::debug::stacks::StackReader;
pub(crate) use crate::admin::health::restored;
use crate::admin::problem::Problem;
use crate::admin::status::Status;
use crate::admin::stores::{Cursors, MOST_FOLLOWERS};
use crate::admin::target::AdminTarget;
use crate::admin::top::Samples;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use stoatflow_core::settings::AdminAccess;
use stoatflow_core::{Clock, Error, Result};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

/// The console at `/`, a single page that loads nothing from other hosts.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("admin/console/page.html")
        .replace("/*style*/", include_str!("admin/console/style.css"))
        .replace("/*overview*/", include_str!("admin/console/overview.js"))
        .replace("/*layout*/", include_str!("admin/console/layout.js"))
        .replace("/*graph*/", include_str!("admin/console/graph.js"))
        .replace("/*node*/", include_str!("admin/console/node.js"))
        .replace(
            "/*dead_letters*/",
            include_str!("admin/console/dead_letters.js"),
        )
        .replace("/*doctor*/", include_str!("admin/console/doctor.js"))
        .replace("/*views*/", include_str!("admin/console/views.js"))
});

/// The OpenAPI description of the port, written by hand.
const OPENAPI: &str = include_str!("admin/openapi.json");

/// The page may run its own script and query this port, nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// All endpoints with a description; an unknown path answers with this list.
const ENDPOINTS: &[(&str, &str)] = &[
    ("/", "the live page"),
    (
        "/health/live",
        "200 until the application has failed or stalled, then 503",
    ),
    (
        "/health/ready",
        "200 while records are processed, else 503 with the reason",
    ),
    (
        "/metrics",
        "all numbers, as OpenMetrics text; ?names=kafka-streams gives those that Kafka Streams has, under its names",
    ),
    (
        "/topology",
        "nodes, edges, stages and stores with counts; ?format=text gives describe()",
    ),
    (
        "/state",
        "lifecycle and its history, readiness, restore progress, what holds the watermark back, the error",
    ),
    (
        "/watermarks",
        "the application's watermark; position, end, lag and watermark per partition, what holds others \
            back; late records",
    ),
    (
        "/top",
        "what keeps the application busy: lanes, functions, keys, stores, partitions, drops; ?seconds= and ?limit=",
    ),
    (
        "/debug/threads",
        "what every lane and every thread does, with the stacks of Python's threads",
    ),
    (
        "/debug/barriers",
        "open epoch, the commit under way, the last 64 commits by step and lane",
    ),
    ("/config", "the settings in use, secrets masked"),
    (
        "/info",
        "what runs where: versions, the Kafka client and why that one, host, uptime",
    ),
    (
        "/offsets",
        "of each partition position, committed offset, end and lag",
    ),
    (
        "/errors",
        "the last 100 errors, each cause once: count, first and last time, record, traceback",
    ),
    (
        "/dead-letters",
        "the last 100 dead letters: record, node, exception, payload, headers, traceback; ?limit= and ?before=",
    ),
    (
        "/doctor",
        "what is wrong, the most serious first, each with what to do",
    ),
    (
        "/app",
        "the application's own endpoints, which answer below /app/",
    ),
    (
        "/pause",
        "POST: nothing more is read, what was read is committed",
    ),
    ("/resume", "POST: it reads on"),
    ("/openapi.json", "this port as OpenAPI 3.1"),
    (
        "/stores",
        "the stores; /stores/<name> reads entries of one, /stores/<name>/<key> a key, as of the last commit; \
            /changes/<name> follows one",
    ),
];

/// Maximum number of connections, unless set otherwise.
const DEFAULT_MAX_CONNECTIONS: usize = 128;

/// How long connections may take to end when the port closes; longer than the limit for their last
/// answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often expired cursors are dropped.
const CURSOR_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How to open the port.
#[derive(Clone, Debug)]
pub struct AdminOptions {
    /// `host:port`, `:port` or `port`. Without a host it is loopback; port 0 takes a free one.
    pub listen: String,
    /// Who may use the port.
    pub access: AdminAccess,
    /// The engine isn't ready if records wait this long without a commit.
    pub stall_after: Duration,
    /// `in.flight.max.bytes`.
    pub in_flight_max_bytes: u64,
    /// The state directory; the port reports the free space of its disk.
    pub state_dir: PathBuf,
    /// The version to report.
    pub version: &'static str,
}

/// What the port shows of an application besides its numbers.
#[derive(Clone, Debug)]
pub struct AdminView {
    /// The settings in use, without secrets.
    pub settings: Value,
    /// What runs, where, and what it is built with: an object.
    pub info: Value,
}

impl From<Value> for AdminView {
    fn from(settings: Value) -> Self {
        Self {
            settings,
            info: json!({}),
        }
    }
}

/// What answers are built from.
#[derive(Debug)]
struct Shared {
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    access: AccessRules,
    /// Access to stores and to pausing, beyond the counters.
    target: Arc<dyn AdminTarget>,
    cursors: Cursors,
    /// Permits for clients that follow a store.
    followers: Arc<Semaphore>,
    stall_after: Duration,
    version: &'static str,
    view: AdminView,
    /// Monotonic clock.
    opened: Duration,
    opened_at_ms: i64,
    metrics: metrics::Exposition,
    samples: Samples,
    stacks: StackReader,
}

/// The address at which the port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminAddress {
    /// The bound address.
    pub socket: SocketAddr,
    /// True if it accepts TLS only.
    pub encrypted: bool,
}

/// Binds and serves on the given runtime until `stop` resolves; returns the bound address.
///
/// # Errors
/// `Config` if the address can't be bound, or if anybody could use the port there; the message names
/// `admin.listen`, or the setting or file that is wrong.
pub fn serve(
    runtime: &tokio::runtime::Handle,
    options: AdminOptions,
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    view: AdminView,
    target: Arc<dyn AdminTarget>,
    stop: tokio::sync::watch::Receiver<bool>,
) -> Result<AdminAddress> {
    let access = AccessRules::new(&options.access)?;
    let tls = tls::acceptor(&options.access)?;
    let encrypted = tls.is_some();
    let listener = bind(&options.listen)?;
    let failed = |e: std::io::Error| cannot_bind(&options.listen, &e);
    let address = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(failed)?
    };
    access.may_listen(address, encrypted)?;
    let metrics = metrics::Exposition::new(Arc::clone(&status), Arc::clone(&clock), &options);
    let opened_at_ms = clock.now().0;
    let shared = Arc::new(Shared {
        opened: clock.monotonic(),
        opened_at_ms,
        target,
        cursors: Cursors::new(opened_at_ms),
        followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
        status,
        clock,
        access,
        stall_after: options.stall_after,
        version: options.version,
        view,
        metrics,
        samples: Samples::default(),
        stacks: StackReader::default(),
    });
    let router = router(Arc::clone(&shared));
    let most = match options.access.max_connections {
        0 => DEFAULT_MAX_CONNECTIONS,
        most => most,
    };
    runtime.spawn(connections::accept(listener, tls, router, most, stop));
    runtime.spawn(take_samples(Arc::clone(&shared)));
    runtime.spawn(node_times::sample_nodes(Arc::clone(&shared)));
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(CURSOR_SWEEP_INTERVAL).await;
            shared.cursors.sweep(shared.clock.monotonic());
        }
    });
    Ok(AdminAddress {
        socket: address,
        encrypted,
    })
}

/// Closes the port. Answers in progress have a moment to complete.
pub fn close(runtime: Runtime, stop: &watch::Sender<bool>) {
    stop.send_replace(true);
    let all_ended = async { tokio::time::timeout(CLOSE_TIMEOUT, stop.closed()).await };
    if runtime.block_on(all_ended).is_err() {
        tracing::debug!("connections to the admin port are cut");
    }
    runtime.shutdown_timeout(CLOSE_TIMEOUT);
}

impl Shared {
    /// Looks up what the Kafka clients have done. An application that is gone keeps its last counts.
    fn refresh_clients(&self) {
        if let Ok(counts) = self.target.client_counts() {
            self.status.set_clients(counts);
        }
    }
}

async fn take_samples(shared: Arc<Shared>) {
    loop {
        shared.refresh_clients();
        (shared.samples).take(&shared.status, shared.clock.monotonic());
        tokio::time::sleep(top::SAMPLE_INTERVAL).await;
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/topology", get(topology::topology))
        .route("/state", get(health::state))
        .route("/watermarks", get(watermarks::watermarks))
        .route("/top", get(top::top))
        .route("/debug/threads", get(debug::threads))
        .route("/debug/barriers", get(debug::barriers))
        .route("/config", get(config))
        .route("/info", get(info))
        .route("/offsets", get(offsets::offsets))
        .route("/errors", get(error_log::errors))
        .route("/dead-letters", get(dead_letters::dead_letters))
        .route("/doctor", get(doctor::doctor))
        .route("/app", get(endpoints::list))
        .route("/app/{*path}", any(endpoints::call))
        .route("/pause", post(control::pause))
        .route("/resume", post(control::resume))
        .route("/openapi.json", get(openapi))
        .route("/stores", get(stores::list))
        .route("/stores/{*rest}", get(stores::read))
        .route("/changes/{*store}", get(stores::follow))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&shared), access::check))
        .with_state(shared)
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, PAGE.as_str()).into_response()
}

async fn config(State(shared): State<Arc<Shared>>) -> Response {
    answer(StatusCode::OK, &shared.view.settings)
}

async fn info(State(shared): State<Arc<Shared>>) -> Response {
    let mut body = json!({
        "application_id": shared.status.application_id,
        "version": shared.version,
        "started_at_ms": shared.opened_at_ms,
        "uptime_ms": millis(shared.clock.monotonic().saturating_sub(shared.opened)),
    });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, &shared.view.info) {
        body.extend(more.clone());
    }
    answer(StatusCode::OK, &body)
}

/// The OpenAPI description, with this version and the application's endpoints filled in.
async fn openapi(State(shared): State<Arc<Shared>>) -> Response {
    let version = format!("\"version\": \"{}\"", shared.version);
    let mut text = OPENAPI.replacen("\"version\": \"0\"", &version, 1);
    if let Ok(mut described) = serde_json::from_str::<Value>(&text)
        && !shared.status.endpoints.all().is_empty()
    {
        shared.status.endpoints.describe(&mut described);
        text = described.to_string();
    }
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (kind, text).into_response();
    secure(response.headers_mut(), "no-store");
    response
}

async fn not_found(uri: Uri) -> Response {
    let detail = format!("there is nothing at {}", uri.path());
    refusal(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn method_not_allowed(uri: Uri) -> Response {
    let detail = format!("{} doesn't answer to this method", uri.path());
    refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

fn refusal(status: StatusCode, code: &'static str, detail: String) -> Response {
    let endpoints: serde_json::Map<_, _> = ENDPOINTS
        .iter()
        .map(|(path, what)| ((*path).to_owned(), json!(what)))
        .collect();
    Problem::new(status, code, detail, "ask for one of the endpoints")
        .with("endpoints", Value::Object(endpoints))
        .into_response()
}

/// JSON that must not be cached.
fn answer(code: StatusCode, body: &Value) -> Response {
    let mut response = (code, Json(body)).into_response();
    secure(response.headers_mut(), "no-store");
    response
}

/// Headers that every answer with data has.
fn secure(headers: &mut HeaderMap, cache: &'static str) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
}

/// Whole milliseconds, as the page and the counters use them.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bind(listen: &str) -> Result<TcpListener> {
    let listen = listen.trim();
    let port_only = listen.strip_prefix(':').unwrap_or(listen);
    let addresses: Vec<SocketAddr> = if let Ok(port) = port_only.parse::<u16>() {
        vec![SocketAddr::from(([127, 0, 0, 1], port))]
    } else {
        listen
            .to_socket_addrs()
            .map_err(|e| cannot_bind(listen, &e))?
            .collect()
    };
    TcpListener::bind(addresses.as_slice()).map_err(|e| cannot_bind(listen, &e))
}

fn cannot_bind(listen: &str, error: &std::io::Error) -> Error {
    let (what, hint) = match error.kind() {
        ErrorKind::AddrInUse => (
            "the address is in use by another process".to_owned(),
            "set admin.listen to another port (port 0 takes a free one), or stop the process that holds it",
        ),
        ErrorKind::PermissionDenied => (
            "this user may not listen there".to_owned(),
            "set admin.listen to a port above 1023",
        ),
        ErrorKind::AddrNotAvailable => (
            "this machine does not have that address".to_owned(),
            "set admin.listen to 127.0.0.1:<port>, or to 0.0.0.0:<port> for all addresses of the machine",
        ),
        _ => (
            error.to_string(),
            "set admin.listen to host:port, for example 127.0.0.1:8080 (port 0 takes a free one)",
        ),
    };
    Error::config(format!(
        "admin.listen = {listen}: the admin port can't be opened: {what}"
    ))
    .hint(hint)
}
