//! When unmatched records are looked through again, and the row that keeps it.

use bytes::{BufMut, BytesMut};
use stoatflow_core::{Datum, Timestamp};
use stoatflow_state::Stored;

/// When the next pass over a task's waiting entries takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextPass {
    /// See the module; `None`: no condition.
    pub min_time: Option<i64>,
    /// Not before this wall time.
    pub not_before: i64,
}

impl NextPass {
    pub const AT_ONCE: Self = Self {
        min_time: None,
        not_before: i64::MIN,
    };

    /// Whether it is too early for a pass. A `not_before` further away than the interval is ignored: the
    /// clock was set back, or the interval was longer before a restart.
    pub const fn is_early(self, now: i64, interval: i64) -> bool {
        now < self.not_before && self.not_before.saturating_sub(now) <= interval
    }

    /// The row to store; `None` for the default.
    pub fn stored(self) -> Option<Stored> {
        (self != Self::AT_ONCE).then(|| {
            let mut value = BytesMut::with_capacity(17);
            value.put_i64(self.min_time.unwrap_or(i64::MIN));
            value.put_i64(self.not_before);
            value.put_u8(u8::from(self.min_time.is_some()));
            Stored {
                value: Datum::Bytes(value.freeze()),
                timestamp: Timestamp(self.min_time.unwrap_or(0)),
            }
        })
    }

    /// Rows of eight bytes hold `min_time` only.
    pub fn restored(row: &Stored) -> Self {
        let Datum::Bytes(bytes) = &row.value else {
            return Self::AT_ONCE;
        };
        let number = |at: usize| Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        Self {
            min_time: number(0).filter(|_| bytes.get(16) != Some(&0)),
            not_before: number(8).unwrap_or(i64::MIN),
        }
    }
}
