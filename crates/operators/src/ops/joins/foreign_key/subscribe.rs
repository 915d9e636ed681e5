//! `foreign_subscribe`: subscribes left rows at the lanes of their foreign keys.
//!
//! Takes the left table's changes, emits subscriptions under their foreign keys. A row that moves to
//! another foreign key leaves the old one first. A row without a foreign key subscribes under the null
//! key and gets an empty answer (in an inner join it is also counted as dropped, if it has a value).
//! Each value gets an answer, because the answer to the previous value is dropped if it arrives late.
//! Updates that aren't the newest of a versioned table are left out.

use crate::ops::joins::foreign_key::epoch_rows::{Row, SharedEpochRows};
use crate::ops::joins::foreign_key::message::{Fingerprint, Subscription, fingerprint};
use crate::ops::tables::table_update;
use crate::support::dropped;
use crate::support::function::{Function, batch_or_single_records};
use crate::{Context, Operator};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result, Serde};

/// Serdes of the parts of a message.
#[derive(Debug)]
pub(crate) struct Serdes {
    pub key: Serde,
    pub value: Serde,
    pub foreign: Serde,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ForeignSubscribe {
    function: Function,
    serdes: Serdes,
    /// True for a left join.
    outer: bool,
    /// Without record caching: the left table's rows of this epoch, for the answers.
    rows: Option<SharedEpochRows>,
    probes: Vec<Record>,
    scratch: Vec<Datum>,
}

/// The flags of a subscription.
#[derive(Clone, Copy)]
struct SubscriptionFlags {
    delete: bool,
    always: bool,
}

impl ForeignSubscribe {
    pub fn new(
        function: Function,
        serdes: Serdes,
        outer: bool,
        rows: Option<SharedEpochRows>,
    ) -> Self {
        Self {
            function: function.together(),
            serdes,
            outer,
            rows,
            probes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Computes the foreign keys of all new and old values, with one attach for all, and returns the
    /// fingerprints. `None`: the only record of the batch was left out.
    fn prepare(
        &mut self,
        batch: &[Record],
        context: &mut Context<'_>,
    ) -> Result<Option<Vec<Fingerprint>>> {
        table_update::probe(batch, true, &mut self.probes);
        let asked = self.probes.len();
        let set = |probe: &mut Record, foreign| probe.value = foreign;
        self.function
            .one(&mut self.probes, &mut self.scratch, context, set)?;
        if self.probes.len() < asked {
            return Ok(None);
        }
        let (serde, function) = (&self.serdes.value, &self.function);
        let prints = |_: &mut Context<'_>| {
            let mut prints = Ok(Vec::new());
            function.scope(&mut || {
                prints = batch
                    .iter()
                    .map(|record| {
                        fingerprint(table_update::new(&record.value), serde)
                            .map_err(|e| function.locate(e, record))
                    })
                    .collect();
            });
            prints
        };
        match batch {
            [one] => function.node_context.attempt(one, context, prints),
            _ => prints(context).map(Some),
        }
    }

    fn subscribe(
        &self,
        record: &Record,
        sides: [Option<Datum>; 2],
        print: Fingerprint,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let left_bytes = self.serdes.key.encode(&record.key)?.ok_or_else(|| {
            Error::internal("a table with a null key reached a join by foreign key")
        })?;
        if let Some(rows) = &self.rows {
            let row = Row {
                order: record.origin.order,
                fingerprint: print,
                value: table_update::new(&record.value).clone(),
                timestamp: record.timestamp,
            };
            let left = Bytes::clone(&left_bytes);
            rows.lock().add(context.epoch, left, row);
        }
        let [old, new] = sides;
        let neither = old.is_none() && new.is_none();
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let moved = !old.is_null() && !self.same(&old, &new)?;
        let leave = |always| SubscriptionFlags {
            delete: true,
            always,
        };
        let enter = |always| SubscriptionFlags {
            delete: false,
            always,
        };
        let mut send = |foreign: Datum, flags: SubscriptionFlags| {
            let left_bytes = Bytes::clone(&left_bytes);
            let message = Subscription {
                left: record.key.clone(),
                left_bytes,
                fingerprint: print,
                delete: flags.delete,
                always: flags.always,
            };
            out.push(record.with_pair(foreign, message.wrap()));
        };
        if self.outer {
            if moved {
                send(old, leave(false));
            }
            // Always one answer, for a deletion and for a null foreign key too.
            send(new, enter(!neither));
        } else if new.is_null() {
            // Deleted, or no longer has a foreign key: a tombstone, even if there never was a row.
            if !old.is_null() {
                send(old, leave(true));
            } else {
                if print.is_some() {
                    let node = self.function.node_context.node;
                    context.effects.dropped.push((node, dropped::NULL_KEY));
                }
                send(Datum::Null, enter(false));
            }
        } else if moved {
            send(old, leave(false));
            // A tombstone if there is no right value for the new key, even if there was none for the old
            // one.
            send(new, enter(true));
        } else {
            send(new, enter(false));
        }
        Ok(())
    }

    fn same(&self, a: &Datum, b: &Datum) -> Result<bool> {
        Ok(a == b || self.serdes.foreign.encode(a)? == self.serdes.foreign.encode(b)?)
    }
}

impl ForeignSubscribe {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        input.retain(|record| table_update::is_latest(&record.value));
        let Some(prints) = self.prepare(input, context)? else {
            input.clear();
            return Ok(());
        };
        let probes = std::mem::take(&mut self.probes);
        let mut found = probes.into_iter().map(|probe| probe.value);
        for (record, print) in input.drain(..).zip(prints) {
            let mut foreign = |value: &Datum| (!value.is_null()).then(|| found.next()).flatten();
            let new = foreign(table_update::new(&record.value));
            let old = foreign(table_update::old(&record.value));
            let node_context = &self.function.node_context;
            let spare = node_context
                .is_lenient()
                .then(|| [old.clone(), new.clone()]);
            if let Err(error) = self.subscribe(&record, [old, new], print, out, context) {
                let error = self.function.locate(error, &record);
                let sides = spare.unwrap_or_default();
                node_context.rescue(error, &record, context, |context| {
                    self.subscribe(&record, sides.clone(), print, out, context)
                })?;
            }
        }
        Ok(())
    }
}

impl Operator for ForeignSubscribe {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let singly = self.function.singly(input.len());
        batch_or_single_records(singly, input, |batch| self.take(batch, out, context))
    }
}
