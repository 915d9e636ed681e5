//! Fetches input records again, for dead letters of records that are no longer in memory.
//!
//! A record that is gone (compacted, or past its retention) gives a dead letter without a body and
//! a header that says so. Runs in commit, so that the dead letter belongs to the epoch's
//! transaction. These are rare, so a consumer is opened for them and closed again. Takes at most
//! the commit timeout.

use crate::commit::outbox::PendingDeadLetter;
use crate::lane::with_body;
use std::time::Duration;
use stoatflow_core::{Clock, Error, Header, Offset, Result, TopicPartition};
use stoatflow_log::{Broker, Consumer, ProducerRecord};

#[cfg(test)]
mod tests;

/// Up to this many offsets ahead it is quicker to read on than to seek.
const NEAR: i64 = 4096;
/// Timeout of one poll.
const STEP: Duration = Duration::from_millis(100);
/// Most records per poll.
const FETCH: usize = 1024;

/// Adds the bodies to dead letters, which stay in order.
///
/// # Errors
/// `Unavailable` if the broker doesn't give them in time; then the epoch is aborted, and all of it
/// comes again.
pub fn refetch(
    broker: &dyn Broker,
    group: &str,
    letters: Vec<PendingDeadLetter>,
    timeout: Duration,
    clock: &dyn Clock,
) -> Result<Vec<ProducerRecord>> {
    let mut order: Vec<usize> = (0..letters.len()).collect();
    order.sort_by(|a, b| place(&letters[*a]).cmp(&place(&letters[*b])));
    let mut found: Vec<Option<ProducerRecord>> = letters.iter().map(|_| None).collect();
    let mut reader = Reader {
        consumer: broker.consumer(group, 1)?,
        until: clock.monotonic() + timeout,
        clock,
    };
    for run in order.chunk_by(|a, b| letters[*a].from == letters[*b].from) {
        let from = &letters[run[0]].from;
        let range = broker.ranges(std::slice::from_ref(from), timeout)?;
        let (begin, end) = range
            .first()
            .map_or((Offset(0), Offset(0)), |r| (r.begin, r.stable_end));
        let there = |at: &usize| (begin..end).contains(&letters[*at].offset);
        let wanted: Vec<usize> = run.iter().copied().filter(there).collect();
        reader.run(from, &letters, &wanted, &mut found)?;
    }
    let all = letters.into_iter().zip(found);
    Ok(all
        .map(|(letter, found)| found.unwrap_or_else(|| gone(letter.record)))
        .collect())
}

fn place(letter: &PendingDeadLetter) -> (&TopicPartition, Offset) {
    (&letter.from, letter.offset)
}

struct Reader<'c> {
    consumer: Box<dyn Consumer>,
    until: Duration,
    clock: &'c dyn Clock,
}

impl Reader<'_> {
    /// Reads the records of one partition, in order of offset; the range contains all of them.
    fn run(
        &mut self,
        from: &TopicPartition,
        letters: &[PendingDeadLetter],
        wanted: &[usize],
        found: &mut [Option<ProducerRecord>],
    ) -> Result<()> {
        let mut wanted = wanted.iter().copied().peekable();
        let mut position = Offset(i64::MIN);
        let mut fetched = Vec::new();
        while let Some(at) = wanted.peek().copied() {
            let target = letters[at].offset;
            if position > target {
                // Its offset was passed: compacted away.
                wanted.next();
                continue;
            }
            if target.0.saturating_sub(NEAR) > position.0 {
                self.consumer.assign(&[(from.clone(), target)])?;
                position = target;
            }
            fetched.clear();
            self.consumer.poll(FETCH, STEP, &mut fetched)?;
            for record in &fetched {
                while let Some(at) = wanted.next_if(|at| letters[*at].offset <= record.offset) {
                    if letters[at].offset == record.offset {
                        found[at] = Some(with_body(letters[at].record.clone(), record));
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

/// A dead letter without a body.
fn gone(mut letter: ProducerRecord) -> ProducerRecord {
    let gone = Header {
        name: "__stoatflow.errors.gone".into(),
        value: Some("true".into()),
    };
    let own = letter.headers.as_deref().unwrap_or_default();
    letter.headers = Some(own.iter().cloned().chain([gone]).collect());
    letter
}
