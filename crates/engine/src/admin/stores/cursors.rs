//! Cursors: page-by-page reads of a store as of one commit.
//!
//! A cursor holds the snapshot of its first page, so later commits don't change what it reads. Its text
//! contains the place where the next page begins, so a client may request a page again. A cursor expires
//! after [`LIFETIME`] without use, and all expire when the run ends.

use super::read::CursorScan;
use crate::admin::problem::Problem;
use crate::query::CommittedSnapshot;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use stoatflow_core::Bytes;

/// An unused cursor expires after this time.
pub(super) const LIFETIME: Duration = Duration::from_secs(60);
/// Lifetime of a cursor after its last page.
const FINISHED_LIFETIME: Duration = Duration::from_secs(5);
/// Maximum number of open cursors.
const MAX_CURSORS: usize = 64;

/// See the module.
#[derive(Debug)]
pub(in crate::admin) struct Cursors {
    /// Identifies this process, so that cursors of another one are refused.
    process: String,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    snapshot: CommittedSnapshot,
    store: String,
    scan: CursorScan,
    /// When it expires (monotonic).
    until: Duration,
    is_done: bool,
}

/// A cursor in use.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub id: u64,
    pub snapshot: CommittedSnapshot,
    pub scan: CursorScan,
    /// The last key or row of the previous page.
    pub last: Bytes,
}

impl Cursors {
    pub(in crate::admin) fn new(opened_at_ms: i64) -> Self {
        Self {
            process: format!("{opened_at_ms:x}.{:x}", std::process::id()),
            open: Mutex::default(),
        }
    }

    /// An entity tag for the state as of an epoch of a run.
    pub(super) fn tag(&self, run: u64, epoch: u64) -> String {
        format!("W/\"{}.{run}.{epoch}\"", self.process)
    }

    /// Finds a cursor by its text.
    pub(super) fn find(&self, token: &str, store: &str, now: Duration) -> Result<Found, Problem> {
        let bad = || Problem::bad("this is no cursor", "give one of a page, unchanged");
        let (process, rest) = token.split_once('-').ok_or_else(bad)?;
        let (id, last) = rest.split_once('-').ok_or_else(bad)?;
        let id: u64 = id.parse().map_err(|_| bad())?;
        let last = URL_SAFE_NO_PAD.decode(last).map_err(|_| bad())?;
        if process != self.process {
            return Err(expired_cursor("it is of another process"));
        }
        let mut open = self.open.lock();
        open.sweep(now);
        let held = open.held.get_mut(&id);
        let held =
            held.ok_or_else(|| expired_cursor("it was unused for too long, or its walk is over"))?;
        if held.store != store {
            return Err(Problem::bad(
                format!("this cursor is of the store '{}'", held.store),
                format!("ask for it at /stores/{}", held.store),
            ));
        }
        if !held.is_done {
            held.until = now.saturating_add(LIFETIME);
        }
        Ok(Found {
            id,
            snapshot: held.snapshot.clone(),
            scan: held.scan.clone(),
            last: last.into(),
        })
    }

    /// Returns a cursor for the page after `last`: of the same read if it has an `id`, else of a new
    /// one.
    pub(super) fn keep(
        &self,
        id: Option<u64>,
        (snapshot, store): (&CommittedSnapshot, &str),
        scan: &CursorScan,
        last: &Bytes,
        now: Duration,
    ) -> Result<String, Problem> {
        let mut open = self.open.lock();
        open.sweep(now);
        let id = match id.filter(|id| open.held.contains_key(id)) {
            Some(id) => id,
            None => {
                open.make_room()?;
                open.next += 1;
                open.next
            }
        };
        let held = Held {
            snapshot: snapshot.clone(),
            store: store.to_owned(),
            scan: scan.clone(),
            until: now.saturating_add(LIFETIME),
            is_done: false,
        };
        open.held.insert(id, held);
        let last = URL_SAFE_NO_PAD.encode(last);
        Ok(format!("{}-{id}-{last}", self.process))
    }

    /// The read is complete. Its last page may be requested again for [`FINISHED_LIFETIME`].
    pub(super) fn done(&self, id: Option<u64>) {
        let mut open = self.open.lock();
        if let Some(held) = id.and_then(|id| open.held.get_mut(&id)) {
            held.until = (held.until).min(held.until.saturating_sub(LIFETIME) + FINISHED_LIFETIME);
            held.is_done = true;
        }
    }

    /// Drops expired cursors.
    pub(in crate::admin) fn sweep(&self, now: Duration) {
        self.open.lock().sweep(now);
    }

    /// The number of cursors.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.lock().held.len()
    }
}

impl Open {
    fn sweep(&mut self, now: Duration) {
        self.held
            .retain(|_, held| held.until > now && held.snapshot.is_open());
    }

    fn make_room(&mut self) -> Result<(), Problem> {
        if self.held.len() < MAX_CURSORS {
            return Ok(());
        }
        let done = self.held.iter().find(|(_, held)| held.is_done);
        let Some(id) = done.map(|(id, _)| *id) else {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_cursors",
                format!("{MAX_CURSORS} cursors are open, each of which holds a commit"),
                "walk to the end, or ask again when one of them has expired",
            )
            .retry_after(5));
        };
        self.held.remove(&id);
        Ok(())
    }
}

/// The answer for a cursor that no longer exists.
pub(super) fn expired_cursor(why: &str) -> Problem {
    Problem::new(
        StatusCode::GONE,
        "cursor_expired",
        format!("this cursor has expired: {why}"),
        "begin the walk again, without cursor=",
    )
    .with("cursor_lifetime_ms", json!(LIFETIME.as_millis()))
}
