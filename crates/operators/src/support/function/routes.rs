//! Functions that choose where a record is sent: its topic, and partitions of that topic.
//!
//! Takes whole batches, returns a topic or partitions for each record, and refuses impossible ones. An
//! implementation that calls a user function checks each result at once, so that later records aren't
//! called for.

use super::{Callee, Function, each};
use crate::{Context, Partitions};
use std::cell::RefCell;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Partition, Record, Result};

impl Function {
    /// A topic per record.
    pub fn topics(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<Arc<str>>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        out.clear();
        self.run(
            batch,
            out,
            context,
            |_| {},
            |rest, _, out| match &self.callee {
                Callee::Foreign(udf) => {
                    udf.topics(rest, &|origin| self.node_context.topic_of(origin), out)
                }
                Callee::Native(expr) => each(rest, |record| {
                    let topic: Arc<str> = match expr.eval(record)? {
                        Datum::Str(topic) => topic.as_str().into(),
                        other => {
                            return Err(Error::user(format!(
                                "a topic's name was expected, but the expression gave {}",
                                other.type_name()
                            ))
                            .hint("give a text for every record: sf.coalesce(..., \"other\")"));
                        }
                    };
                    check_topic(&topic)?;
                    out.push(topic);
                    Ok(())
                }),
            },
        )?;
        // An implementation without such a check has called for the later records already.
        self.checked(batch, out.iter().map(|topic| check_topic(topic)))
    }

    /// The partitions of its topic that each record is sent to. `to`: topics, with their partition
    /// counts. `gone` is called for each record that is left out.
    pub fn partitions(
        &self,
        batch: &mut Vec<Record>,
        with_headers: bool,
        to: &mut Vec<(Arc<str>, u32)>,
        out: &mut Vec<Partitions>,
        context: &mut Context<'_>,
        mut gone: impl FnMut(usize),
    ) -> Result<()> {
        out.clear();
        // Borrowed by the call and by the handling of a failure, never at the same time.
        let to = RefCell::new(to);
        let told = |at: usize| {
            to.borrow_mut().remove(at);
            gone(at);
        };
        self.run(batch, out, context, told, |rest, from, out| {
            let to = to.borrow();
            let to = &to[from..];
            let mut next = to.iter();
            match &self.callee {
                Callee::Foreign(udf) => udf.partitions(rest, with_headers, to, out),
                Callee::Native(expr) => each(rest, |record| {
                    let chosen = chosen(expr.eval(record)?)?;
                    next.next()
                        .map_or(Ok(()), |to| check_partitions(&chosen, to))?;
                    out.push(chosen);
                    Ok(())
                }),
            }
        })?;
        let to = to.into_inner();
        let checks = out.iter().zip(to.iter());
        self.checked(
            batch,
            checks.map(|(chosen, to)| check_partitions(chosen, to)),
        )
    }

    fn checked(&self, batch: &[Record], checks: impl Iterator<Item = Result<()>>) -> Result<()> {
        let mut all = batch.iter().zip(checks);
        all.try_for_each(|(record, check)| check.map_err(|e| self.locate(e, record)))
    }
}

/// The partition that an expression chose.
fn chosen(given: Datum) -> Result<Partitions> {
    match given {
        Datum::Null => Ok(None),
        Datum::Int(number) => Ok(Some(vec![Partition(i32::try_from(number).unwrap_or(-1))])),
        other => Err(Error::user(format!(
            "a partition was expected, but the expression gave {}",
            other.type_name()
        ))
        .hint("give a number, or null to let the key decide")),
    }
}

/// Checks the name of a topic.
///
/// # Errors
/// `User` for an empty text.
pub fn check_topic(topic: &str) -> Result<()> {
    if topic.is_empty() {
        return Err(
            Error::user("the function gave an empty text for a topic's name")
                .hint("give the name of a topic for every record"),
        );
    }
    Ok(())
}

/// Checks that the topic has all the partitions that a partitioner chose.
///
/// # Errors
/// `User` for one that it doesn't have.
pub fn check_partitions(chosen: &Partitions, (topic, count): &(Arc<str>, u32)) -> Result<()> {
    let beyond = chosen
        .iter()
        .flatten()
        .find(|partition| u32::try_from(partition.0).map_or(true, |number| number >= *count));
    let Some(partition) = beyond else {
        return Ok(());
    };
    Err(Error::user(format!(
        "the partitioner chose partition {partition} of the topic {topic}, which has {count}"
    ))
    .hint("give numbers from 0 to partitions - 1, such as hash % partitions"))
}
