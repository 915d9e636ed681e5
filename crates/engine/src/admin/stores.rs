//! `/stores`: committed state over HTTP.
//!
//! Takes paths and parameters, gives JSON. A read takes a snapshot on a blocking thread, so that neither
//! lanes nor other requests wait for the disk. Only the value of a key that RocksDB has in memory is read
//! at once, from the snapshot that readers share: waking a thread would cost more than this read. Never
//! runs user code, so values of a Python serde are shown as their bytes. Every answer contains the epoch
//! and the input positions that it reflects.

mod changes;
mod cursors;
mod formats;
mod params;
mod read;
#[cfg(test)]
mod tests;

use super::problem::Problem;
use super::{Shared, secure};
use crate::query::{CommittedCut, CommittedSnapshot, readable};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
pub(super) use changes::{MAX_CLIENTS as MOST_FOLLOWERS, follow};
pub(super) use cursors::Cursors;
use cursors::Found;
use formats::{StoreFormats, kind_name};
use params::StoreParams;
pub(super) use params::decoded;
use read::{Reading, Rows};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::Error;
use stoatflow_operators::ForeignCode;
use stoatflow_plan::{Store, StoreKind};
use stoatflow_protocol::Lifecycle;

/// How often a request with `at_least` checks the committed positions.
const POSITION_CHECK_INTERVAL: Duration = Duration::from_millis(3);

/// `/stores`: all stores.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let foreign = shared
        .target
        .foreign()
        .map_err(|e| unavailable(&shared, &e))?;
    let stores: Vec<Value> = (shared.status.plan.stores.iter())
        .map(|store| {
            let mut row = json!({ "name": store.name, "kind": kind_name(store.kind) });
            match readable(store) {
                Ok(_) => {
                    let formats = StoreFormats::of(store, &foreign);
                    row["readable"] = json!(true);
                    row["key"] = formats.key.shown();
                    row["value"] = formats.value.shown();
                }
                Err(error) => {
                    row["readable"] = json!(false);
                    row["why"] = json!(error.message());
                }
            }
            row
        })
        .collect();
    let state = shared.status.state().name();
    Ok(super::answer(
        StatusCode::OK,
        &json!({ "application_id": shared.status.application_id, "state": state, "stores": stores }),
    ))
}

/// `/stores/<name>` and `/stores/<name>/<key>`.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = uri.path().strip_prefix("/stores/").unwrap_or_default();
    let (name, key) = match path.split_once('/') {
        Some((name, key)) => (name, Some(decoded(key)?)),
        None => (path, None),
    };
    let store = named_store(&shared, name)?;
    let params = StoreParams::parse(uri.query().unwrap_or_default(), store.kind, key.is_some())?;
    wait(&shared, &params).await?;

    let known = headers.get(header::IF_NONE_MATCH).cloned();
    let job = Job {
        shared: Arc::clone(&shared),
        store: store.clone(),
        key,
        params,
        known,
    };
    if let Some(answer) = job.run_at_once() {
        return answer;
    }
    // Nothing is read for a client that has disconnected.
    let gone = Arc::new(AtomicBool::new(false));
    let _guard = OnDrop(Arc::clone(&gone));
    let read = tokio::task::spawn_blocking(move || {
        if gone.load(Relaxed) {
            return Err(Problem::bad("the client has gone", "ask again"));
        }
        job.run()
    });
    read.await.unwrap_or_else(|_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Err(Problem::of(status, "internal", &panicked()))
    })
}

fn panicked() -> Error {
    Error::internal("the read ended with a panic, which is in the log")
        .hint("make an archive with 'stoatflow bundle', and report it")
}

/// The store that a path names.
fn named_store<'s>(shared: &'s Shared, name: &str) -> Result<&'s Store, Problem> {
    let name = String::from_utf8(decoded(name)?)
        .map_err(|_| Problem::bad("the name of the store is not UTF-8", "see /stores"))?;
    let store = (shared.status.plan)
        .store_named(&name)
        .map_err(|e| Problem::of(StatusCode::NOT_FOUND, "unknown_store", &e))?;
    readable(store).map_err(|e| Problem::of(StatusCode::BAD_REQUEST, "not_readable", &e))?;
    Ok(store)
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Waits until the input that the request asks for is committed.
async fn wait(shared: &Shared, params: &StoreParams) -> Result<(), Problem> {
    if params.at_least.is_empty() {
        return Ok(());
    }
    let until = shared.clock.monotonic().saturating_add(params.timeout);
    loop {
        match shared.target.is_committed(&params.at_least) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if is_running(shared) => {
                return Err(Problem::of(StatusCode::BAD_REQUEST, "bad_request", &error));
            }
            Err(error) => return Err(unavailable(shared, &error)),
        }
        if shared.clock.monotonic() >= until {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_committed_in_time",
                format!(
                    "what at_least asks for was not committed within {} ms",
                    params.timeout.as_millis()
                ),
                "ask again, with a longer timeout_ms, or look at /offsets",
            )
            .retry_after(1));
        }
        tokio::time::sleep(POSITION_CHECK_INTERVAL).await;
    }
}

fn is_running(shared: &Shared) -> bool {
    matches!(
        shared.status.state(),
        Lifecycle::Running | Lifecycle::Paused | Lifecycle::Stopping
    )
}

/// The answer if there is no state to read, for now or for good.
fn unavailable(shared: &Shared, error: &Error) -> Problem {
    let state = shared.status.state();
    let code = match state {
        Lifecycle::Restoring => "restoring",
        _ => "not_running",
    };
    let problem = Problem::of(StatusCode::SERVICE_UNAVAILABLE, code, error)
        .with("state", json!(state.name()));
    if state.is_final() {
        problem
    } else {
        problem.retry_after(1)
    }
}

/// A read.
struct Job {
    shared: Arc<Shared>,
    store: Store,
    /// As in the path, percent-decoded.
    key: Option<Vec<u8>>,
    params: StoreParams,
    known: Option<HeaderValue>,
}

impl Job {
    /// Reads the value of a key, if that takes neither a new snapshot nor the disk nor a schema registry.
    fn run_at_once(&self) -> Option<Result<Response, Problem>> {
        let is_plain = matches!(
            self.store.kind,
            StoreKind::KeyValue | StoreKind::TimestampedKeyValue
        );
        if self.key.is_none() || self.params.cursor.is_some() || !is_plain {
            return None;
        }
        let foreign = self.shared.target.foreign().ok()?;
        let formats = StoreFormats::of(&self.store, &foreign);
        if !formats.are_built_in() {
            return None;
        }
        let shared = self.shared.target.shared_snapshot(&self.store)?;
        let (snapshot, is_on_disk) = shared.cached();
        let answer = self.answer((&foreign, &formats), snapshot, None);
        (!is_on_disk.load(Relaxed)).then_some(answer)
    }

    /// Reads on a blocking thread.
    fn run(&self) -> Result<Response, Problem> {
        let shared = &self.shared;
        let foreign = shared
            .target
            .foreign()
            .map_err(|e| unavailable(shared, &e))?;
        let formats = StoreFormats::of(&self.store, &foreign);
        let (snapshot, held) = match &self.params.cursor {
            Some(token) => {
                let now = shared.clock.monotonic();
                let held = shared.cursors.find(token, &self.store.name, now)?;
                (held.snapshot.clone(), Some(held))
            }
            None => {
                let taken = shared.target.snapshot(Some(&self.store.name));
                (taken.map_err(|e| unavailable(shared, &e))?, None)
            }
        };
        self.answer((&foreign, &formats), snapshot, held)
    }

    fn answer(
        &self,
        (foreign, formats): (&ForeignCode, &StoreFormats),
        snapshot: CommittedSnapshot,
        held: Option<Found>,
    ) -> Result<Response, Problem> {
        let shared = &self.shared;
        let cursors = &shared.cursors;
        let tag = cursors.tag(snapshot.run(), snapshot.cut().epoch.0);
        if held.is_none() && self.known.as_ref().is_some_and(|known| names(known, &tag)) {
            let mut response = StatusCode::NOT_MODIFIED.into_response();
            with_tag(response.headers_mut(), &tag);
            return Ok(response);
        }
        let reader = snapshot
            .reader_as(&shared.status.plan, foreign, &formats.store)
            .map_err(|e| unavailable(shared, &e))?;
        let reading = Reading {
            reader: &reader,
            formats,
            params: &self.params,
        };
        let (scan, last) = match &held {
            Some(held) => (Some(held.scan.clone()), Some(held.last.clone())),
            None => (None, None),
        };
        let rows = match (&self.key, scan) {
            (_, Some(scan)) => reading.scan(scan, last.as_ref()),
            (None, None) => reading.store(),
            (Some(key), None) => reading.key(key),
        };
        let rows = rows.map_err(|problem| match held.is_some() && is_gone(&snapshot) {
            true => cursors::expired_cursor("the application has restarted since"),
            false => problem,
        })?;
        let cursor = match (&rows, held) {
            (Rows::Page { scan, last, .. }, held) => {
                let now = shared.clock.monotonic();
                let held = held.map(|held| held.id);
                match last {
                    Some(last) => {
                        let of = (&snapshot, self.store.name.as_str());
                        Some(cursors.keep(held, of, scan, last, now)?)
                    }
                    None => {
                        cursors.done(held);
                        None
                    }
                }
            }
            _ => None,
        };
        let body = self.body(formats, snapshot.cut(), rows, cursor.as_deref())?;
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, kind);
        secure(headers, "private, no-cache");
        if self.params.cursor.is_none() {
            with_tag(headers, &tag);
        }
        Ok(response)
    }

    fn body(
        &self,
        formats: &StoreFormats,
        cut: &CommittedCut,
        rows: Rows,
        cursor: Option<&str>,
    ) -> Result<Vec<u8>, Problem> {
        let mut head = json!({
            "store": self.store.name,
            "kind": kind_name(self.store.kind),
            "epoch": cut.epoch.0,
            "positions": positions(cut),
            "key_format": formats.key.format(),
            "value_format": formats.value.format(),
        });
        if let Some(note) = formats.note() {
            head["note"] = json!(note);
        }
        let member = match rows {
            Rows::Nothing => {
                return Err(Problem::new(
                    StatusCode::NOT_FOUND,
                    "unknown_key",
                    format!("the store '{}' has nothing for this key", self.store.name),
                    "check the key and key_format; /stores says how keys are written",
                )
                .with("epoch", json!(cut.epoch.0))
                .with("positions", positions(cut)));
            }
            Rows::One(text) => text,
            Rows::Versions(text) => [b"\"versions\":[".as_slice(), &text, b"]"].concat(),
            Rows::Page { text, plan, .. } => {
                if let Some(plan) = plan {
                    head["plan"] = *plan;
                }
                let cursor = json!(cursor).to_string();
                let lifetime = json!(cursor_lifetime(&cursor)).to_string();
                let rest = format!("],\"cursor\":{cursor},\"cursor_lifetime_ms\":{lifetime}");
                [b"\"entries\":[".as_slice(), &text, rest.as_bytes()].concat()
            }
        };
        let mut out = head.to_string().into_bytes();
        out.pop();
        out.push(b',');
        out.extend_from_slice(&member);
        out.push(b'}');
        Ok(out)
    }
}

/// The lifetime to show, if there is a cursor.
fn cursor_lifetime(cursor: &str) -> Option<u128> {
    (cursor != "null").then_some(cursors::LIFETIME.as_millis())
}

/// Whether the run of a snapshot has ended.
fn is_gone(snapshot: &CommittedSnapshot) -> bool {
    !snapshot.is_open()
}

fn positions(cut: &CommittedCut) -> Value {
    let mut topics = Map::new();
    for (of, offset) in &cut.positions {
        let topic = topics.entry(of.topic.to_string());
        let partitions = topic.or_insert_with(|| json!({}));
        partitions[of.partition.0.to_string()] = json!(offset.0);
    }
    Value::Object(topics)
}

fn with_tag(headers: &mut HeaderMap, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    secure(headers, "private, no-cache");
}

/// Whether an `If-None-Match` header contains this tag.
fn names(known: &HeaderValue, tag: &str) -> bool {
    let Ok(known) = known.to_str() else {
        return false;
    };
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    known
        .split(',')
        .any(|one| one.trim() == "*" || bare(one) == bare(tag))
}
