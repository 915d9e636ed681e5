//! Timers of a processor, and a source that ticks by the clock.
//!
//! The processor sets two timers for each record: one by event time, one by the clock. Each has a unique
//! key, so a timer that fires twice is an error. The key mostly belongs to another lane than the record:
//! the timer is set in one lane and fires in another. The event-time timer sets another one, the echo,
//! which is due immediately and must wait for the next barrier.

use super::functions::FINAL_KEY;
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result, Timestamp};
use stoatflow_operators::{
    Failed, NO_ORIGIN, Processor, ProcessorHost, ProcessorSupplier, Role, Timer,
};
use stoatflow_state::TimerDomain::{Event, Processing};

/// The store of the timers.
pub(crate) const STORE: &str = "bells-store";
/// The scheduled source, its topic, and the interval of its ticks.
pub(crate) const SCHEDULE: &str = "beat";
pub(crate) const TICKS: &str = "beats-out";
pub(crate) const EVERY_MS: i64 = 200;
/// Event-time timers are due at full tenths of a second.
const DUE_STEP_MS: i64 = 100;
/// Delay of timers by the clock.
const CLOCK_DELAY_MS: i64 = 120;

/// The name of the processor.
pub(super) const PROCESSOR: &str = "timers.rs TimerProcessor";

/// The processor.
pub(super) fn processor() -> Arc<dyn ProcessorSupplier> {
    Arc::new(TimerProcessor)
}

/// When a record's event-time timer is due.
pub(crate) fn due(time: i64) -> i64 {
    (time + DUE_STEP_MS - 1).div_euclid(DUE_STEP_MS) * DUE_STEP_MS
}

/// The key of a record's timers.
pub(crate) fn timer_key(key: &str, value: &str) -> String {
    format!("{key}:{value}")
}

/// The key of the echo.
pub(crate) fn echo_key(timer: &str) -> String {
    format!("{timer}!")
}

pub(super) fn nodes(base: usize, with_ticks: bool) -> Vec<Value> {
    let mut nodes = vec![
        json!({"op": "stream", "topics": ["bells"], "key": "string", "value": "string"}),
        json!({"op": "state_store", "store": STORE, "kind": {"type": "timers"}, "key": "string", "value": "bytes"}),
        json!({"op": "process", "from": [base], "processor": 0, "stores": [STORE]}),
        json!({"op": "to", "from": base + 2, "topic": "bells-out", "key": "string", "value": "string"}),
    ];
    if with_ticks {
        nodes.extend([
        json!({"op": "scheduled", "name": SCHEDULE, "every_ms": EVERY_MS, "catch_up": "all", "max_catch_up": 1_000_000}),
        json!({"op": "to", "from": base + 4, "topic": TICKS, "key": "string", "value": "int64"}),
        ]);
    }
    nodes
}

/// See the module.
#[derive(Clone, Copy, Debug)]
struct TimerProcessor;

impl TimerProcessor {
    fn register(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
        host.at(record.origin.order);
        let (Datum::Str(key), Datum::Str(value)) = (&record.key, &record.value) else {
            return Err(Error::user("a bell needs a key and a value"));
        };
        // Nothing follows the final records, so whether their timers are due is unknown.
        if key.as_str() == FINAL_KEY {
            return Ok(());
        }
        let timer = Datum::text(timer_key(key.as_str(), value.as_str()));
        let soon = host.wall_time() + CLOCK_DELAY_MS;
        host.timer_register(0, &timer, due(record.timestamp.0), Event)?;
        host.timer_register(0, &timer, soon, Processing)
    }
}

impl ProcessorSupplier for TimerProcessor {
    fn name(&self) -> &str {
        PROCESSOR
    }

    fn create(&self, _role: Role) -> Result<Box<dyn Processor>> {
        Ok(Box::new(*self))
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

impl Processor for TimerProcessor {
    fn init(&mut self, _host: &mut dyn ProcessorHost) -> Result<()> {
        Ok(())
    }

    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            Self::register(record, host).map_err(|error| Failed { at, error })?;
        }
        Ok(())
    }

    fn transform(&mut self, _record: &Record, _host: &mut dyn ProcessorHost) -> Result<Datum> {
        Err(Error::user("it gives no values of a table"))
    }

    fn on_timer(&mut self, timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        if let (Event, Datum::Str(key)) = (timer.domain, &timer.key)
            && !key.as_str().ends_with('!')
        {
            host.timer_register(0, &Datum::text(echo_key(key.as_str())), timer.at, Event)?;
        }
        let now = match timer.domain {
            Event => host.stream_time(),
            Processing => host.wall_time(),
        };
        let report = format!("{}@{}@{now}", timer.domain.name(), timer.at);
        let firing = Record {
            key: timer.key.clone(),
            value: Datum::text(report),
            timestamp: Timestamp(timer.at),
            headers: None,
            origin: NO_ORIGIN,
        };
        host.forward(firing, None)
    }

    fn close(&mut self) {}
}
