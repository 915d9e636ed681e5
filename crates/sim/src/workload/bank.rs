//! A bank: a processor moves money between accounts that all lanes share.
//!
//! For each record it moves money immediately, by an event-time timer, and by a timer of the clock. The
//! key of a timer mostly belongs to another lane than the record, and an account to no lane. The amounts
//! depend on the record only, so the balances are known in advance, whatever the order.

use super::functions::FINAL_KEY;
use super::timers::due;
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_operators::{Failed, Processor, ProcessorHost, ProcessorSupplier, Role, Timer};
use stoatflow_state::Stored;
use stoatflow_state::TimerDomain::{self, Event, Processing};

/// The stores of balances and of timers.
pub(crate) const ACCOUNTS: &str = "accounts-store";
pub(crate) const ORDERS: &str = "standing-orders-store";
/// Delay of timers by the clock.
const CLOCK_DELAY_MS: i64 = 90;
/// Few accounts, so that lanes compete for them.
const COUNT: u64 = 3;

/// The name of the processor.
pub(super) const PROCESSOR: &str = "bank.rs BankProcessor";

/// The processor.
pub(super) fn processor() -> Arc<dyn ProcessorSupplier> {
    Arc::new(BankProcessor)
}

/// A transfer from one account to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub from: u64,
    pub to: u64,
    pub amount: i64,
}

/// The transfer for the record with this number: immediately, by event time, or by the clock.
pub(crate) fn transfer(number: u64, when: Option<TimerDomain>) -> Transfer {
    let turn = match when {
        None => 0,
        Some(Event) => 1,
        Some(Processing) => 2,
    };
    let from = (number + turn) % COUNT;
    Transfer {
        from,
        to: (from + 1 + number % (COUNT - 1)) % COUNT,
        amount: 1 + i64::try_from((number * 7 + turn * 5) % 50).unwrap_or(0),
    }
}

/// The name of an account.
pub(crate) fn account(number: u64) -> String {
    format!("account-{number}")
}

/// The number of a record, which is in its value.
pub(crate) fn number(value: &str) -> Option<u64> {
    value.strip_prefix('m')?.parse().ok()
}

pub(super) fn nodes(base: usize, processor: usize) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": ["bank"], "key": "string", "value": "string"}),
        json!({"op": "state_store", "store": ACCOUNTS, "kind": {"type": "key_value"}, "key": "string", "value": "int64"}),
        json!({"op": "state_store", "store": ORDERS, "kind": {"type": "timers"}, "key": "string", "value": "bytes"}),
        json!({"op": "process", "from": [base], "processor": processor, "stores": [ACCOUNTS, ORDERS]}),
        json!({"op": "to", "from": base + 3, "topic": "bank-out", "key": "string", "value": "string"}),
    ]
}

/// See the module.
#[derive(Clone, Copy, Debug)]
struct BankProcessor;

fn add(host: &mut dyn ProcessorHost, account: &Datum, amount: i64, time: i64) -> Result<()> {
    host.update(0, account, &mut |_, had| {
        let balance = match had.map(|stored| stored.value) {
            None => 0,
            Some(Datum::Int(balance)) => balance,
            Some(other) => return Err(Error::internal(format!("{other:?} is no balance"))),
        };
        Ok(Stored {
            value: Datum::Int(balance + amount),
            timestamp: stoatflow_core::Timestamp(time),
        })
    })
}

fn apply_transfer(
    host: &mut dyn ProcessorHost,
    value: &str,
    when: Option<TimerDomain>,
    time: i64,
) -> Result<()> {
    let number = number(value).ok_or_else(|| Error::user("a record of the bank has a number"))?;
    let Transfer { from, to, amount } = transfer(number, when);
    add(host, &Datum::text(account(from)), -amount, time)?;
    add(host, &Datum::text(account(to)), amount, time)
}

impl ProcessorSupplier for BankProcessor {
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

impl BankProcessor {
    fn process_record(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
        host.at(record.origin.order);
        let (Datum::Str(key), Datum::Str(value)) = (&record.key, &record.value) else {
            return Err(Error::user("the bank needs a key and a value"));
        };
        if key.as_str() == FINAL_KEY {
            return Ok(());
        }
        apply_transfer(host, value.as_str(), None, record.timestamp.0)?;
        let order = Datum::text(value.as_str().to_owned());
        let soon = host.wall_time() + CLOCK_DELAY_MS;
        host.timer_register(1, &order, due(record.timestamp.0), Event)?;
        host.timer_register(1, &order, soon, Processing)?;
        host.forward(record.clone(), None)
    }
}

impl Processor for BankProcessor {
    fn init(&mut self, _host: &mut dyn ProcessorHost) -> Result<()> {
        Ok(())
    }

    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            Self::process_record(record, host).map_err(|error| Failed { at, error })?;
        }
        Ok(())
    }

    fn transform(&mut self, _record: &Record, _host: &mut dyn ProcessorHost) -> Result<Datum> {
        Err(Error::user("it gives no values of a table"))
    }

    fn on_timer(&mut self, timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        let Datum::Str(order) = &timer.key else {
            return Err(Error::user("an order has a name"));
        };
        apply_transfer(host, order.as_str(), Some(timer.domain), timer.at.max(0))
    }

    fn close(&mut self) {}
}
