//! Queue of log lines for Python's `logging`.
//!
//! Any thread adds events, one Python thread takes them. Adding never waits and never attaches to the
//! interpreter, because a line may report that a function holds it. Lines that Python doesn't take
//! within two seconds go to standard error. At most 10,000 lines are queued; beyond that the oldest is
//! dropped.

use super::fields::Fields;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Maximum number of queued lines.
const MAX_LINES: usize = 10_000;
/// If the oldest line has waited longer than this, all lines go to standard error, in case Python never
/// takes them.
const MAX_WAIT: Duration = Duration::from_secs(2);

static ON: AtomicBool = AtomicBool::new(false);
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
static QUEUE: Mutex<LineQueue> = Mutex::new(LineQueue {
    lines: VecDeque::new(),
    dropped: 0,
});
static ARRIVED: Condvar = Condvar::new();

struct LineQueue {
    lines: VecDeque<Line>,
    dropped: u64,
}

struct Line {
    /// JSON, for Python and for standard error.
    text: String,
    /// When it was queued, by the monotonic clock.
    queued_at: Duration,
}

pub(super) fn is_on() -> bool {
    ON.load(Relaxed)
}

pub(super) fn set_on(on: bool) {
    ON.store(on, Relaxed);
    ARRIVED.notify_all();
}

/// Takes all queued lines; if there are none, waits for one. Each line is a JSON object.
#[pyfunction]
pub fn take_log_lines(py: Python<'_>, timeout_s: f64) -> Vec<String> {
    let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or_default();
    py.detach(|| {
        let mut queue = QUEUE.lock();
        let is_empty = |w: &mut LineQueue| w.lines.is_empty();
        ARRIVED.wait_while_for(&mut queue, is_empty, timeout);
        queue.take()
    })
}

/// Writes the queued lines to standard error before the process ends.
pub fn flush_to_stderr() {
    // A thread that died while holding the lock must not prevent the process from ending.
    if let Some(mut queue) = QUEUE.try_lock_for(Duration::from_millis(50)) {
        write_all(&queue.take());
    }
}

#[allow(clippy::print_stderr)] // same destination as lines that don't go to Python
fn write_all(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

impl LineQueue {
    fn take(&mut self) -> Vec<String> {
        let dropped = std::mem::take(&mut self.dropped);
        let mut lines: Vec<String> = self.lines.drain(..).map(|line| line.text).collect();
        if dropped > 0 {
            let message =
                format!("{dropped} older log lines were dropped: Python did not take them in time");
            lines.push(to_json(
                Level::WARN,
                "stoatflow::log",
                &message,
                &Map::new(),
            ));
        }
        lines
    }

    fn push(&mut self, text: String) {
        let queued_at = CLOCK.monotonic();
        self.lines.push_back(Line { text, queued_at });
        if self.lines.len() > MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }

    /// Whether Python has stopped taking lines.
    fn is_stalled(&self) -> bool {
        let first = self.lines.front();
        first.is_some_and(|line| CLOCK.monotonic().saturating_sub(line.queued_at) > MAX_WAIT)
    }
}

/// Queues events for Python while that is enabled.
pub(super) struct ToPython;

impl<S> Layer<S> for ToPython
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !is_on() {
            return;
        }
        let fields = Fields::of(event, &context);
        let of = event.metadata();
        let text = to_json(*of.level(), of.target(), &fields.message, &fields.named);
        let mut queue = QUEUE.lock();
        queue.push(text);
        if queue.is_stalled() {
            write_all(&queue.take());
        }
        ARRIVED.notify_one();
    }
}

fn to_json(level: Level, target: &str, message: &str, fields: &Map<String, Value>) -> String {
    json!({
        "timestamp_ms": CLOCK.now().0,
        "level": level.as_str(),
        "target": target,
        "thread": std::thread::current().name(),
        "message": message,
        "fields": fields,
    })
    .to_string()
}
