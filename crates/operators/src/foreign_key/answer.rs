//! `foreign_answer`: keeps who has a foreign key, and answers with the right value.
//!
//! Takes subscriptions at the foreign key's lane, gives answers under the left keys: always, or only if
//! there is a right value, as the subscription says. An answer has the later time of both rows.

use crate::foreign_key::message::{Answer, Subscription};
use crate::foreign_key::subscriptions;
use crate::site::Site;
use crate::view_read::{AsOf, ViewRead};
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result, Serde, StoreId};

/// See the module.
#[derive(Debug)]
pub(crate) struct ForeignAnswer {
    site: Site,
    store: StoreId,
    right: ViewRead,
    foreign: Serde,
}

impl ForeignAnswer {
    pub fn new(site: Site, store: StoreId, right: ViewRead, foreign: Serde) -> Self {
        Self {
            site,
            store,
            right,
            foreign,
        }
    }

    fn remember(&self, record: &Record, context: &mut Context<'_>) -> Result<()> {
        // A row without a foreign key waits for nobody.
        let Some(foreign) = self.foreign.encode(&record.key)? else {
            return Ok(());
        };
        let message = Subscription::of(record)?;
        let (left, time) = (&message.left_bytes, record.timestamp);
        if message.delete {
            return subscriptions::delete(self.store, &foreign, left, time, context);
        }
        let print = message.fingerprint;
        subscriptions::put(self.store, &foreign, left, print, time, context)
    }
}

impl Operator for ForeignAnswer {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.iter() {
            self.remember(record, context)
                .map_err(|e| self.site.locate(e, &record.origin))?;
        }
        let found = self
            .right
            .read(input, AsOf::Latest, context)
            .map_err(|e| self.site.name_node(e))?;
        for (mut record, found) in input.drain(..).zip(found) {
            if let Some(found) = &found {
                record.timestamp = record.timestamp.max(found.timestamp);
            }
            let message = Subscription::of(&record)?;
            let right = match found {
                Some(found) if !message.delete => found.value,
                _ => Datum::Null,
            };
            if right.is_null() && !message.always {
                continue;
            }
            let answer = Answer {
                fingerprint: message.fingerprint,
                right,
            };
            out.push(record.with_pair(message.left.clone(), answer.wrap()));
        }
        Ok(())
    }
}
