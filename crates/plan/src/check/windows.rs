//! Checks that durations, windows and retentions are valid.
//!
//! Takes a call and the kinds of its inputs, adds findings. The DSL checks durations as well; this pass
//! covers plans from elsewhere (a stored plan, a test). Never sets a default.

use super::{Kind, Shape};
use crate::aggregation::window_of;
use crate::logical::{DslCall, LogicalPlan};
use crate::materialized::{Expiry, Materialized, Ttl};
use crate::problems::{Problems, place};
use crate::spec::Reset;
use crate::window::Emit;
use crate::window::{JoinWindow, StoreKind, Until, WhenFull, Window};

/// Checks the times in a call.
pub(super) fn windows(plan: &LogicalPlan, shape: &Shape, i: usize, problems: &mut Problems) {
    let call = &plan.nodes[i].call;
    let mut found = Vec::new();
    match call {
        DslCall::WindowedBy {
            window,
            close_when_idle_ms: idle,
            ..
        } => {
            found.extend(window_problem(window));
            if idle.is_some_and(|ms| ms < 1) {
                found.push("close_when_idle must be at least a millisecond".into());
            }
            if idle.is_some() && matches!(window, Window::Unlimited { .. } | Window::Count { .. }) {
                found.push(
                    "closes by no time, so close_when_idle means nothing: leave it out".into(),
                );
            }
        }
        DslCall::EmitStrategy {
            from,
            strategy: Emit::OnWindowClose,
        } => {
            if let Some(what) = match window_of(plan, *from) {
                Some(Window::Unlimited { .. }) => Some("an unlimited window never closes"),
                _ => None,
            } {
                found.push(format!(
                    "can't emit on window close: {what}; leave the strategy out"
                ));
            }
        }
        DslCall::Count { from, .. }
        | DslCall::Reduce { from, .. }
        | DslCall::Aggregate { from, .. } => {
            found.extend(retention_problem(call, window_of(plan, *from)));
        }
        DslCall::Suppress {
            from,
            until,
            max_records,
            max_bytes,
            when_full,
            ..
        } => {
            let has_limit = max_records.is_some() || max_bytes.is_some();
            found.extend(suppress_problems(plan, *from, until, has_limit, *when_full));
        }
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
            found.extend(j.window.as_ref().and_then(join_window_problem));
            if let Some(grace) = j.grace_ms
                && grace < 0
            {
                found.push(negative("the grace", grace));
            }
        }
        DslCall::Deduplicate { within_ms, .. } if *within_ms < 1 => {
            found.push(format!(
                "within must be at least a millisecond, not {within_ms}"
            ));
        }
        DslCall::Stream {
            reset: Some(Reset::ByDuration(back)),
            ..
        }
        | DslCall::Table {
            reset: Some(Reset::ByDuration(back)),
            ..
        } if *back < 0 => found.push(negative("the time to go back at the first start", *back)),
        DslCall::StateStore { kind, .. } | DslCall::GlobalStore { kind, .. } => {
            found.extend(kind_problem(kind));
            found.extend(store_expiry_problem(kind, call.expiry()));
            if matches!(call, DslCall::StateStore { headers: true, .. }) && !can_have_headers(*kind)
            {
                found.push(
                    "only session stores, and key-value and window stores with timestamps, keep headers: leave \
                     headers=True out, or use Stores.persistent_timestamped_key_value, \
                     Stores.persistent_timestamped_window or Stores.persistent_session"
                        .into(),
                );
            }
            if matches!(call, DslCall::GlobalStore { .. })
                && !matches!(kind, StoreKind::KeyValue | StoreKind::TimestampedKeyValue)
            {
                found.push("a global store keeps keys and values: timers, window, session and versioned stores are not shared by all lanes".into());
            }
        }
        _ => {}
    }
    if let Some(m) = call.materialized() {
        found.extend(kept_problem(plan, shape, i, m));
    }
    for what in found {
        problems.at(plan, i, what);
    }
}

fn suppress_problems(
    plan: &LogicalPlan,
    from: usize,
    until: &Until,
    has_limit: bool,
    when_full: WhenFull,
) -> Vec<String> {
    let mut found = Vec::new();
    match until {
        Until::TimeLimit { limit_ms } if *limit_ms < 0 => {
            found.push(negative("the time limit", *limit_ms));
        }
        Until::WindowCloses { .. } => {
            if let Err(at) = grace_above(plan, from) {
                found.push(format!(
                    "waits for a window to close, but {} has no windows; call .windowed_by(...) before the aggregation, or suppress until a time limit",
                    place(&plan.nodes[at], at)
                ));
            }
        }
        _ => {}
    }
    if matches!(until, Until::WindowCloses { .. }) && counts_above(plan, from) {
        found.push("waits for time to close a window, but count windows close with their last record: call .emit_strategy(EmitStrategy.on_window_close()) before the aggregation instead".into());
    }
    if matches!(until, Until::WindowCloses { .. }) && when_full == WhenFull::EmitEarly && has_limit
    {
        found.push("gives final results only, so a full buffer can't emit early; shut down when it is full, or leave it unbounded".into());
    }
    found
}

fn negative(what: &str, ms: i64) -> String {
    format!("{what} must not be negative, it is {ms} ms")
}

fn window_problem(window: &Window) -> Option<String> {
    let positive = |what: &str, ms: i64| {
        (ms <= 0).then(|| format!("the {what} of the window must be positive, it is {ms} ms"))
    };
    let own = match window {
        Window::Tumbling { size_ms, .. } => positive("size", *size_ms),
        Window::Hopping {
            size_ms,
            advance_ms,
            ..
        } => positive("size", *size_ms)
            .or_else(|| positive("advance", *advance_ms))
            .or_else(|| {
                (advance_ms > size_ms).then(|| {
                    format!("the window of {size_ms} ms is smaller than its advance of {advance_ms} ms: records between windows would be in none; make the advance at most the size")
                })
            }),
        Window::Sliding { difference_ms, .. } => {
            (*difference_ms < 0).then(|| negative("the difference", *difference_ms))
        }
        Window::Session { gap_ms, .. } => positive("gap", *gap_ms),
        Window::Unlimited { start_ms } => {
            (*start_ms < 0).then(|| negative("the start", *start_ms))
        }
        Window::Count { records } => (*records <= 0)
            .then(|| format!("a window of {records} records holds nothing: give at least 1")),
    };
    own.or_else(|| (window.grace_ms() < 0).then(|| negative("the grace", window.grace_ms())))
}

fn join_window_problem(w: &JoinWindow) -> Option<String> {
    if w.before_ms.saturating_add(w.after_ms) < 0 {
        return Some(format!(
            "the window ends before it starts (before {} ms, after {} ms): their sum must not be negative",
            w.before_ms, w.after_ms
        ));
    }
    (w.grace_ms < 0).then(|| negative("the grace", w.grace_ms))
}

fn retention_problem(call: &DslCall, window: Option<Window>) -> Option<String> {
    let retention = call.materialized()?.retention_ms?;
    let Some(window) = window else {
        return Some(
            "keeps no windows, so a retention means nothing: leave it out, or call .windowed_by(...) first"
                .into(),
        );
    };
    if matches!(window, Window::Count { .. }) {
        return Some(
            "keeps the open and the last full window of each key, so a retention means nothing: leave it out"
                .into(),
        );
    }
    let least = window.retention_ms();
    (retention < least).then(|| {
        format!("a retention of {retention} ms is smaller than the window and its grace: give at least {least} ms")
    })
}

/// Whether such a store can keep headers with each value, as in Kafka Streams.
const fn can_have_headers(kind: StoreKind) -> bool {
    matches!(
        kind,
        StoreKind::TimestampedKeyValue
            | StoreKind::Session { .. }
            | StoreKind::Window {
                timestamped: true,
                ..
            }
    )
}

fn kind_problem(kind: &StoreKind) -> Option<String> {
    match kind {
        StoreKind::Window {
            retention_ms,
            size_ms,
            ..
        } => (*size_ms <= 0)
            .then(|| format!("the size of the windows must be positive, it is {size_ms} ms"))
            .or_else(|| {
                (retention_ms < size_ms).then(|| {
                    format!(
                        "a retention of {retention_ms} ms is smaller than a window of {size_ms} ms"
                    )
                })
            }),
        StoreKind::Session { retention_ms } => (*retention_ms <= 0)
            .then(|| format!("the retention must be positive, it is {retention_ms} ms")),
        StoreKind::Versioned { history_ms } => {
            (*history_ms < 0).then(|| negative("the history", *history_ms))
        }
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue | StoreKind::Timers => None,
        StoreKind::TimeOrdered => {
            Some("stores ordered by time belong to the engine: use a window store".into())
        }
    }
}

fn kept_problem(plan: &LogicalPlan, shape: &Shape, i: usize, m: &Materialized) -> Vec<String> {
    let mut found = Vec::new();
    let (call, kind) = (&plan.nodes[i].call, shape.kind(i));
    let windowed = match call {
        DslCall::Count { from, .. }
        | DslCall::Reduce { from, .. }
        | DslCall::Aggregate { from, .. } => window_of(plan, *from).is_some(),
        call => matches!(call, DslCall::Deduplicate { .. }),
    };
    if let Some(history) = m.history_ms {
        if history < 0 {
            found.push(negative("the history", history));
        }
        if kind == Kind::GlobalTable {
            found.push("a global table can't be versioned: leave history out".into());
        }
        if m.store.is_none() {
            found.push("a versioned table needs a name for its store: add store=".into());
        }
        if windowed {
            found.push("windows are not versioned: leave history out (retention= says how long they are kept)".into());
        } else if m.retention_ms.is_some() {
            found.push("windows are not versioned: give a retention or a history, not both".into());
        }
    }
    if let Some(expiry) = &m.expiry {
        let global = kind == Kind::GlobalTable;
        found.extend(expiry_problem(shape, call, m, expiry, global, windowed));
    }
    if m.retention_ms.is_some()
        && !matches!(
            call,
            DslCall::Count { .. }
                | DslCall::Reduce { .. }
                | DslCall::Aggregate { .. }
                | DslCall::Deduplicate { .. }
        )
    {
        found.push("keeps no windows, so a retention means nothing: leave it out".into());
    }
    found
}

/// Problems with the time to live of a processor's store.
fn store_expiry_problem(kind: &StoreKind, expiry: Option<&Expiry>) -> Option<String> {
    let expiry = expiry?;
    Some(match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => match expiry.ttl {
            _ if expiry.forward => {
                "a processor's store has no ttl_forward: nothing reads its rows as updates".into()
            }
            Ttl::Fixed(ms) if ms <= 0 => format!("a ttl must be positive, it is {ms} ms"),
            _ => return None,
        },
        StoreKind::Window { .. } => {
            "a window store has no ttl: its retention says how long windows are kept".into()
        }
        StoreKind::Session { .. } => {
            "a session store has no ttl: its retention says how long sessions are kept".into()
        }
        StoreKind::Versioned { .. } => {
            "a versioned store has no ttl: its history_retention says how far back versions are kept"
                .into()
        }
        StoreKind::Timers => "a store of timers has no ttl: a timer is deleted when it fires".into(),
        StoreKind::TimeOrdered => return None,
    })
}

/// Problems with a time to live.
fn expiry_problem(
    shape: &Shape,
    call: &DslCall,
    m: &Materialized,
    expiry: &Expiry,
    global: bool,
    windowed: bool,
) -> Option<String> {
    let fixed = match expiry.ttl {
        Ttl::Fixed(ms) => ms,
        Ttl::Row(_) => i64::MAX,
    };
    Some(match call {
        _ if fixed <= 0 => format!("a ttl must be positive, it is {fixed} ms"),
        _ if global => {
            "a global table has no ttl: what its topic keeps is what it has".into()
        }
        _ if windowed => {
            "windows have no ttl: retention= says how long they are kept".into()
        }
        _ if m.history_ms.is_some() => {
            "a versioned table has no ttl: history= says how far back its versions are kept".into()
        }
        _ if m.store.is_none() => {
            "a table with a ttl needs a name for its store: add store=".into()
        }
        DslCall::Count { from, .. } | DslCall::Reduce { from, .. } | DslCall::Aggregate { from, .. }
            if shape.kind(*from) == Kind::GroupedTable =>
        {
            "what is aggregated from a table has no ttl, or what leaves the table later would be taken off twice: \
             give it to the table that is grouped, with ttl_forward=True"
                .into()
        }
        DslCall::Table { .. }
        | DslCall::ToTable { .. }
        | DslCall::Count { .. }
        | DslCall::Reduce { .. }
        | DslCall::Aggregate { .. } => return None,
        _ => {
            "a view of tables has no ttl of its own: give it to the table that it is made of, with ttl_forward=True"
                .into()
        }
    })
}

/// Whether the windows above are count windows.
fn counts_above(plan: &LogicalPlan, i: usize) -> bool {
    let call = &plan.nodes[i].call;
    if let DslCall::Count { from, .. }
    | DslCall::Reduce { from, .. }
    | DslCall::Aggregate { from, .. } = call
        && let Some(window) = window_of(plan, *from)
    {
        return matches!(window, Window::Count { .. });
    }
    call.inputs().iter().any(|from| counts_above(plan, *from))
}

/// Kafka Streams' `GraphGraceSearchUtil`: the grace of the windows above, the largest one of all
/// parents. `Err` names a node without windows above.
pub(crate) fn grace_above(plan: &LogicalPlan, i: usize) -> Result<i64, usize> {
    let call = &plan.nodes[i].call;
    if let DslCall::Count { from, .. }
    | DslCall::Reduce { from, .. }
    | DslCall::Aggregate { from, .. } = call
        && let Some(window) = window_of(plan, *from)
    {
        return Ok(match window {
            Window::Session { gap_ms, grace_ms } => gap_ms.saturating_add(grace_ms),
            window => window.grace_ms(),
        });
    }
    let inputs = call.inputs();
    if inputs.is_empty() {
        return Err(i);
    }
    let mut highest = -1;
    for from in inputs {
        highest = highest.max(grace_above(plan, from)?);
    }
    Ok(highest)
}

#[cfg(test)]
mod tests;
