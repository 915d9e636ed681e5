//! `/changes/<store>`: a store as of one commit, then the changes of later commits, as server-sent
//! events.
//!
//! A task for each client reads page by page, on a blocking thread, and hands over one event at a time.
//! A client that doesn't read costs a permit, one event and the changes in its buffer. If the buffer
//! overflows, its changes are lost, and the last event reports that. No commit waits for a client.

use super::formats::StoreFormats;
use super::params::StoreParams;
use super::read::{element, problem, row, span};
use super::{named_store, positions, unavailable, wait};
use crate::admin::problem::Problem;
use crate::admin::{Shared, secure};
use crate::query::{ChangeBatch, FollowSpec, Follower};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use hyper::body::Frame;
use serde_json::json;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use stoatflow_core::{Bytes, Result};
use stoatflow_plan::StoreKind;
use stoatflow_state::Page;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Maximum number of clients that follow stores at a time.
pub(in crate::admin) const MAX_CLIENTS: usize = 32;
/// Maximum size of unread changes per client, besides one commit.
const BUFFER_BYTES: usize = 8 << 20;
/// Approximate size of an event.
const EVENT_BYTES: Page = Page {
    rows: 1_000,
    bytes: 1 << 20,
};
/// How often a comment is sent when nothing changes, so that both sides notice a lost connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The first thing sent: after how long a browser reconnects.
const RECONNECT_HINT: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// Follows a store.
pub(in crate::admin) async fn follow(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let name = uri.path().strip_prefix("/changes/").unwrap_or_default();
    let store = named_store(&shared, name)?;
    if matches!(store.kind, StoreKind::Versioned { .. }) {
        return Err(Problem::bad(
            "a versioned store can't be followed",
            "follow a store of a table without history=, or read it by key",
        ));
    }
    let params = StoreParams::following(uri.query().unwrap_or_default(), store.kind)?;
    if !params.snapshot && headers.contains_key("last-event-id") {
        return Err(Problem::new(
            StatusCode::GONE,
            "changes_lost",
            "the changes since the event that Last-Event-ID names are not kept",
            "follow the store with its snapshot, which replaces what was read before",
        ));
    }
    let permit = Arc::clone(&shared.followers).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_followers",
            format!("{MAX_CLIENTS} clients follow stores already"),
            "share one of them between readers, or ask again later",
        )
        .retry_after(1)
    })?;
    wait(&shared, &params).await?;
    let foreign = (shared.target.foreign()).map_err(|e| unavailable(&shared, &e))?;
    let formats = StoreFormats::of(store, &foreign);
    let spec = FollowSpec {
        snapshot: params.snapshot,
        keys: span(&params, &formats)?,
        condition: None,
        buffer_bytes: BUFFER_BYTES,
    };
    let (port, usable) = (Arc::clone(&shared), formats.store.clone());
    let follower = tokio::task::spawn_blocking(move || port.target.follow(&usable, &spec)).await;
    let follower = follower.unwrap_or_else(|_| Err(super::panicked()));
    let follower = follower.map_err(|e| unavailable(&shared, &e))?;

    let (out, events) = mpsc::channel(1);
    tokio::spawn(send_events(Arc::new(follower), out, permit));
    let mut response = Response::new(Body::new(Events(events)));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    // A proxy that buffers answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    secure(headers, "no-store");
    Ok(response)
}

/// The body of the answer.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.poll_recv(cx);
        next.map(|event| event.map(|text| Ok(Frame::data(text))))
    }
}

enum Next {
    Rows(Bytes),
    Last(Bytes),
    Nothing,
}

/// Sends events until the client disconnects, or the changes end.
async fn send_events(
    follower: Arc<Follower>,
    out: mpsc::Sender<Bytes>,
    permit: OwnedSemaphorePermit,
) {
    let mut event = RECONNECT_HINT;
    while out.send(event).await.is_ok() {
        let next = loop {
            let reader = Arc::clone(&follower);
            let next = tokio::task::spawn_blocking(move || next_event(&reader)).await;
            if !matches!(next, Ok(Next::Nothing)) {
                break next.unwrap_or(Next::Nothing);
            }
            tokio::select! {
                () = readable(&follower) => {}
                () = out.closed() => break Next::Nothing,
                () = tokio::time::sleep(HEARTBEAT) => break Next::Rows(Bytes::from_static(b":\n\n")),
            }
        };
        event = match next {
            Next::Rows(text) => text,
            Next::Last(text) => {
                let _gone = out.send(text).await;
                break;
            }
            Next::Nothing => break,
        };
    }
    follower.close();
    drop(permit);
}

async fn readable(follower: &Follower) {
    poll_fn(|cx| match follower.wake(cx.waker()) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

fn next_event(follower: &Follower) -> Next {
    let next = follower.next(EVENT_BYTES);
    let text = next.and_then(|batch| batch.map(|batch| rows(&batch)).transpose());
    match text {
        Ok(Some(text)) => Next::Rows(text),
        Ok(None) if follower.is_over() => Next::Last(event("end", None, b"{}")),
        Ok(None) => Next::Nothing,
        Err(error) => {
            let body = problem(error).body().to_string();
            Next::Last(event("problem", None, body.as_bytes()))
        }
    }
}

fn rows(batch: &ChangeBatch) -> Result<Bytes> {
    let cut = &batch.cut;
    let mut list = Vec::new();
    for changed in &batch.rows {
        element(&mut list, |out| {
            row(&changed.key, changed.times, changed.value.as_ref(), out)
        })?;
    }
    let about = json!({
        "epoch": cut.epoch.0,
        "positions": positions(cut),
        "complete": batch.is_complete,
    });
    let mut data = about.to_string().into_bytes();
    data.pop();
    data.extend_from_slice(b",\"rows\":[");
    data.append(&mut list);
    data.extend_from_slice(b"]}");
    let name = if batch.is_snapshot {
        "snapshot"
    } else {
        "changes"
    };
    // Only the last event of a commit has an id: a client that has seen it has seen the whole commit.
    Ok(event(name, batch.is_complete.then_some(cut.epoch.0), &data))
}

fn event(name: &str, id: Option<u64>, data: &[u8]) -> Bytes {
    let mut text = format!("event: {name}\n").into_bytes();
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    text.extend_from_slice(b"data: ");
    // A line break would end the event; in JSON it is white space between tokens.
    let one_line = |byte: &u8| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        }
    };
    text.extend(data.iter().map(one_line));
    text.extend_from_slice(b"\n\n");
    text.into()
}
