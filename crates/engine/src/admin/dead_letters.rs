//! `/dead-letters`: the last dead letters that this process has written, newest first.
//!
//! Records what the commit thread sends to dead-letter topics, and shows only letters of committed
//! epochs, so that one that is sent again after a failure appears once. Of a payload, only the beginning
//! is kept. Never reads a topic: an application may write dead letters without permission to read them.
//! `stoatflow dlq` reads the topics.

mod excerpt;
mod letter;
#[cfg(test)]
pub(in crate::admin) mod tests;

use super::problem::Problem;
use super::{Shared, answer};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use letter::Letter;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stoatflow_core::{Epoch, Timestamp};
use stoatflow_log::ProducerRecord;

/// Maximum number of letters kept.
const MAX_LETTERS: usize = 100;
/// Default of `?limit=`.
const DEFAULT_LIMIT: usize = 20;

/// Letters sent in an epoch that is not committed yet.
#[derive(Debug, Default)]
struct Sent {
    count: u64,
    /// The last of them.
    letters: VecDeque<Letter>,
}

#[derive(Debug, Default)]
struct KeptLetter {
    sent: BTreeMap<Epoch, Sent>,
    /// With their numbers, oldest first.
    committed: VecDeque<(u64, Letter)>,
    /// Number of letters committed so far.
    count: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct DeadLetterLog(Mutex<KeptLetter>);

impl DeadLetterLog {
    /// Records the letters sent in this epoch.
    pub fn sent(&self, epoch: Epoch, records: &[ProducerRecord]) {
        // Only the last ones are kept, so only those are converted.
        let last = &records[records.len().saturating_sub(MAX_LETTERS)..];
        let letters: Vec<Letter> = last.iter().map(Letter::of).collect();
        let mut kept = self.0.lock();
        let sent = kept.sent.entry(epoch).or_default();
        sent.count += records.len() as u64;
        sent.letters.extend(letters);
        let over = sent.letters.len().saturating_sub(MAX_LETTERS);
        sent.letters.drain(..over);
    }

    /// The epoch is committed, and with it its letters.
    pub fn committed(&self, epoch: Epoch, now: Timestamp) {
        let mut kept = self.0.lock();
        let Some(sent) = kept.sent.remove(&epoch) else {
            return;
        };
        kept.count += sent.count;
        let mut number = kept.count - sent.letters.len() as u64;
        for mut letter in sent.letters {
            number += 1;
            letter.at_ms = now.0;
            kept.committed.push_back((number, letter));
        }
        let over = kept.committed.len().saturating_sub(MAX_LETTERS);
        kept.committed.drain(..over);
    }

    /// The run restarts from its last commit: letters sent since are aborted, and will be sent again.
    pub fn restarted(&self) {
        self.0.lock().sent.clear();
    }

    /// Returns the number of letters so far, a page of the newest letters before the number `before`,
    /// and the `before` of the next page.
    fn page(&self, before: Option<u64>, limit: usize) -> (u64, Vec<Value>, Option<u64>) {
        let kept = self.0.lock();
        let older = kept.committed.iter().rev();
        let mut older = older
            .skip_while(|(number, _)| before.is_some_and(|before| *number >= before))
            .peekable();
        let (mut letters, mut last) = (Vec::new(), None);
        while let Some((number, letter)) = older.next_if(|_| letters.len() < limit) {
            letters.push(letter.shown(*number));
            last = Some(*number);
        }
        (kept.count, letters, last.filter(|_| older.peek().is_some()))
    }
}

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryParams {
    limit: Option<usize>,
    before: Option<u64>,
}

/// The endpoint.
pub(super) async fn dead_letters(
    State(shared): State<Arc<Shared>>,
    params: Result<Query<QueryParams>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(params) = params.map_err(|why| bad_parameter(why.body_text()))?;
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LETTERS).contains(&limit) {
        return Err(bad_parameter(format!(
            "limit={limit} is not between 1 and {MAX_LETTERS}"
        )));
    }
    let status = &shared.status;
    let (count, letters, next) = status.dead_letters.page(params.before, limit);
    let body = json!({
        "application_id": status.application_id,
        "at_ms": shared.clock.now().0,
        "since_ms": shared.opened_at_ms,
        "topics": status.plan.dead_letter_topics(),
        "count": count,
        "kept": MAX_LETTERS,
        "letters": letters,
        "next": next,
    });
    Ok(answer(StatusCode::OK, &body))
}

fn bad_parameter(detail: String) -> Problem {
    let next_step = format!(
        "give ?limit= as a number from 1 to {MAX_LETTERS}, and ?before= as `next` of the page before, or leave them out"
    );
    Problem::bad(detail, next_step)
}
