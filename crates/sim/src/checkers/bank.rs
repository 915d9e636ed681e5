//! Checks a bank whose accounts all lanes share.
//!
//! Takes the input topic and the changelogs. Under exactly-once each balance must match the input, so
//! that no update was lost between two lanes; all accounts then add up to zero. Under at-least-once it
//! only checks that no order is left.

use super::{Verdict, ensure, history, newest};
use crate::broker::SimBroker;
use crate::workload::APPLICATION;
use crate::workload::bank::{ACCOUNTS, ORDERS, Transfer, account, number, transfer};
use crate::workload::functions::FINAL_KEY;
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_state::TimerDomain::{Event, Processing};

fn changelog(store: &str) -> String {
    format!("{APPLICATION}-{store}-changelog")
}

/// The expected balances.
fn expected_balances(broker: &SimBroker) -> Result<BTreeMap<String, i64>, String> {
    let mut balances = BTreeMap::new();
    for (_, kept) in broker.visible("bank").into_iter().flatten() {
        if kept.key.as_deref() == Some(FINAL_KEY.as_bytes()) {
            continue;
        }
        let value = kept.value.unwrap_or_default();
        let number = number(&String::from_utf8_lossy(&value))
            .ok_or_else(|| format!("{value:?} has no number"))?;
        for when in [None, Some(Event), Some(Processing)] {
            let Transfer { from, to, amount } = transfer(number, when);
            *balances.entry(account(from)).or_default() -= amount;
            *balances.entry(account(to)).or_default() += amount;
        }
    }
    Ok(balances)
}

fn stored_balances(broker: &SimBroker) -> Result<BTreeMap<String, i64>, String> {
    let rows = newest(&history(broker, &changelog(ACCOUNTS))?).into_iter();
    let balance = |(key, value): (Bytes, Bytes)| {
        let bytes = value.first_chunk::<8>();
        let bytes = bytes.ok_or_else(|| format!("{value:?} is no balance"))?;
        Ok((
            String::from_utf8_lossy(&key).into_owned(),
            i64::from_be_bytes(*bytes),
        ))
    };
    rows.map(balance).collect()
}

/// Checks the balances. `once` means exactly-once, otherwise at-least-once.
pub(super) fn balances(broker: &SimBroker, once: bool) -> Verdict {
    check_idle(broker)?;
    if !once {
        return Ok(());
    }
    let (wanted, held) = (expected_balances(broker)?, stored_balances(broker)?);
    ensure!(
        held == wanted,
        "the accounts hold {held:?} (together {}) instead of {wanted:?}",
        held.values().sum::<i64>()
    );
    Ok(())
}

/// Checks that no order is left.
pub(super) fn check_idle(broker: &SimBroker) -> Verdict {
    let pending: Vec<Bytes> = newest(&history(broker, &changelog(ORDERS))?)
        .into_keys()
        .collect();
    ensure!(pending.is_empty(), "orders are still kept: {pending:?}");
    Ok(())
}
