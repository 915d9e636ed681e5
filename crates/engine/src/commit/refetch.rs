//! Fetches input records again, for dead letters of records that are no longer in memory.
//!
//! If a record is gone (compacted, or past its retention), its dead letter has no body and a header that
//! says so. Runs in commit, so that the dead letter belongs to the epoch's transaction. Refetches are
//! rare, so a consumer is opened for each and closed again. Takes at most the commit timeout.

use crate::commit::outbox::PendingDeadLetter;
use crate::lane::with_body;
use std::time::Duration;
use stoatflow_core::{Clock, Error, Header, Offset, Result, TopicPartition};
use stoatflow_log::{Broker, Consumer, ProducerRecord};

#[cfg(test)]
mod tests;

/// Up to this many offsets ahead, reading on is faster than seeking.
const MAX_OFFSETS_TO_SKIP: i64 = 4096;
/// Timeout of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum records per poll.
const MAX_POLL_RECORDS: usize = 1024;

/// Adds the bodies that dead letters lack; the letters stay in order.
///
/// # Errors
/// `Unavailable` if the broker doesn't return them in time; then the epoch is aborted, and its input is
/// read again.
pub fn refetch(
    broker: &dyn Broker,
    group: &str,
    letters: Vec<PendingDeadLetter>,
    timeout: Duration,
    clock: &dyn Clock,
) -> Result<Vec<ProducerRecord>> {
    if letters.iter().all(|letter| letter.missing.is_none()) {
        return Ok(letters.into_iter().map(|letter| letter.record).collect());
    }
    let all = letters.iter().enumerate();
    let missing = all.filter_map(|(at, letter)| {
        let (from, offset) = letter.missing.as_ref()?;
        Some(Missing {
            at,
            from,
            offset: *offset,
        })
    });
    let mut order: Vec<Missing<'_>> = missing.collect();
    order.sort_by_key(|one| (one.from, one.offset));
    let mut found: Vec<Option<ProducerRecord>> = letters.iter().map(|_| None).collect();
    let mut reader = Reader {
        consumer: broker.consumer(group, 1)?,
        until: clock.monotonic() + timeout,
        clock,
    };
    for run in order.chunk_by(|a, b| a.from == b.from) {
        let from = run[0].from;
        let range = broker.ranges(std::slice::from_ref(from), timeout)?;
        let (begin, end) = range
            .first()
            .map_or((Offset(0), Offset(0)), |r| (r.begin, r.stable_end));
        let there = run.iter().copied();
        let there = there.filter(|one| (begin..end).contains(&one.offset));
        reader.run(from, &letters, there, &mut found)?;
    }
    let all = letters.into_iter().zip(found);
    Ok(all
        .map(|(letter, found)| match (found, letter.missing) {
            (Some(found), _) => found,
            (None, None) => letter.record,
            (None, Some(_)) => gone(letter.record),
        })
        .collect())
}

/// A letter without a body, by its index in the list.
#[derive(Clone, Copy)]
struct Missing<'l> {
    at: usize,
    from: &'l TopicPartition,
    offset: Offset,
}

struct Reader<'c> {
    consumer: Box<dyn Consumer>,
    until: Duration,
    clock: &'c dyn Clock,
}

impl Reader<'_> {
    /// Reads the wanted records of one partition, in order of offset; all of them lie within its range.
    fn run<'l>(
        &mut self,
        from: &TopicPartition,
        letters: &[PendingDeadLetter],
        wanted: impl Iterator<Item = Missing<'l>>,
        found: &mut [Option<ProducerRecord>],
    ) -> Result<()> {
        let mut wanted = wanted.peekable();
        let mut position = Offset(i64::MIN);
        let mut fetched = Vec::new();
        while let Some(one) = wanted.peek().copied() {
            let target = one.offset;
            if position > target {
                // Its offset was passed: compacted away.
                wanted.next();
                continue;
            }
            if target.0.saturating_sub(MAX_OFFSETS_TO_SKIP) > position.0 {
                self.consumer.assign(&[(from.clone(), target)])?;
                position = target;
            }
            fetched.clear();
            self.consumer
                .poll(MAX_POLL_RECORDS, POLL_TIMEOUT, &mut fetched)?;
            for record in &fetched {
                while let Some(one) = wanted.next_if(|one| one.offset <= record.offset) {
                    if one.offset == record.offset {
                        let letter = letters[one.at].record.clone();
                        found[one.at] = Some(with_body(letter, record));
                    }
                }
            }
            position = match fetched.last() {
                Some(last) => Offset(last.offset.0 + 1),
                None => {
                    let now = self.consumer.positions().first().copied();
                    now.unwrap_or(position).max(position)
                }
            };
            if self.clock.monotonic() > self.until {
                return Err(Error::unavailable(format!(
                    "the record at {from}, offset {target}, could not be fetched again in time for its \
                        dead letter"
                )));
            }
        }
        Ok(())
    }
}

/// Adds the header of a dead letter whose record is gone.
fn gone(mut letter: ProducerRecord) -> ProducerRecord {
    let gone = Header {
        name: "__stoatflow.errors.gone".into(),
        value: Some("true".into()),
    };
    let own = letter.headers.as_deref().unwrap_or_default();
    letter.headers = Some(own.iter().cloned().chain([gone]).collect());
    letter
}
