//! How long the rows of a store live, and when a row expires.
//!
//! Takes the plan's rule, and a row with its timestamp; returns the time at which the row expires. That
//! time is also given rounded down to a sixteenth of the ttl, so that a row that is updated often needs
//! few timers. Never reads a clock or a store.

use crate::expr::{Compiled, kind};
use stoatflow_core::{Datum, Error, Record, Result, Timestamp};
use stoatflow_plan::{Expiry, ExpiryClock, Ttl};
use stoatflow_state::{Stored, TimerDomain};

/// Number of parts of a ttl; times are rounded to one part.
const PARTS: i64 = 16;

/// How long rows live.
#[derive(Debug)]
enum TtlRule {
    Fixed(i64),
    Row(Compiled),
}

/// Expiry of a row, and the earliest time to look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowExpiry {
    pub at: i64,
    pub rounded: i64,
}

impl RowExpiry {
    fn new(timestamp: Timestamp, ttl_ms: i64) -> Self {
        let (at, part) = (timestamp.0.saturating_add(ttl_ms), (ttl_ms / PARTS).max(1));
        Self {
            at,
            rounded: at - at.rem_euclid(part),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RowTtl {
    rule: TtlRule,
    /// The clock by which rows expire.
    pub domain: TimerDomain,
}

impl RowTtl {
    pub fn new(expiry: &Expiry) -> Result<Self> {
        Ok(Self {
            rule: match &expiry.ttl {
                Ttl::Fixed(ms) => TtlRule::Fixed(*ms),
                Ttl::Row(ttl) => TtlRule::Row(Compiled::new(ttl)?),
            },
            domain: match expiry.clock {
                ExpiryClock::Event => TimerDomain::Event,
                ExpiryClock::Processing => TimerDomain::Processing,
            },
        })
    }

    /// Whether all rows live equally long. Otherwise key and value of a row decide.
    pub const fn is_fixed(&self) -> bool {
        matches!(self.rule, TtlRule::Fixed(_))
    }

    /// When the row expires; `None`: never.
    pub fn expiry(&self, row: &Record) -> Result<Option<RowExpiry>> {
        let ttl_ms = match &self.rule {
            TtlRule::Fixed(ms) => *ms,
            TtlRule::Row(ttl) => match ttl.compared(row)? {
                Datum::Null => return Ok(None),
                Datum::Int(ms) => ms,
                other => {
                    let error = Error::user(format!(
                        "the ttl of a row is milliseconds, an int, or null, but its expression gave {}",
                        kind(&other)
                    ));
                    return Err(error
                        .hint("make one of a float with .cast(\"int\"); null keeps the row")
                        .at(|at| at.function = Some(ttl.text().to_owned())));
                }
            },
        };
        Ok(Some(RowExpiry::new(row.timestamp, ttl_ms.max(0))))
    }

    /// When a stored row expires. `decode` returns its key and value, which only a rule for each row
    /// needs. A failing expression counts as never: the failure was handled when the row was written.
    pub fn expiry_of(
        &self,
        row: &Stored,
        decode: impl FnOnce() -> Result<(Datum, Datum)>,
    ) -> Result<Option<RowExpiry>> {
        if let TtlRule::Fixed(ms) = self.rule {
            return Ok(Some(RowExpiry::new(row.timestamp, ms)));
        }
        let (key, value) = decode()?;
        let row = Record {
            key,
            value,
            timestamp: row.timestamp,
            ..Record::default()
        };
        Ok(self.expiry(&row).unwrap_or_default())
    }
}
