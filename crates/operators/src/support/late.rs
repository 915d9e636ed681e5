//! Decides what becomes of records older than the watermark, by the policy of their source.
//!
//! Takes the policy of the plan, and late records if a callable must see them, a batch at a time;
//! returns a verdict for each, and dead letters without their bodies. The engine counts, drops and
//! sends. Never looks at a window: the grace of windows is applied later, to records that are accepted.

#[cfg(test)]
mod tests;

use crate::support::error_policy::{DeadLetter, ErrorOrigin, header};
use crate::{Failed, ForeignCode, PartitionCounts, Udf};
use std::sync::Arc;
use stoatflow_core::{Error, ErrorKind, Late, Origin, Record, Result, Timestamp};

/// What to do with one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LateVerdict {
    /// It is accepted; each window decides by its grace.
    Grace,
    /// It is dropped.
    Drop,
    /// It is dropped, and sent to this topic.
    DeadLetter(Arc<str>),
}

impl LateVerdict {
    /// The value of the metric's label `policy`.
    #[must_use]
    pub const fn policy(&self) -> &'static str {
        match self {
            Self::Grace => "grace",
            Self::Drop => "drop",
            Self::DeadLetter(_) => "dlq",
        }
    }
}

/// What the dead letter of a late record needs.
#[derive(Clone, Copy, Debug)]
pub struct LateRecord<'a> {
    /// Where it was read.
    pub origin: Origin,
    /// Its topic.
    pub topic: &'a str,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The watermark that it is older than.
    pub watermark: i64,
}

#[derive(Clone, Debug)]
enum LateDecision {
    /// The same verdict for all records.
    Always(LateVerdict),
    /// The verdict of a callable, and the topics that it has declared.
    Ask(Arc<dyn Udf>, Arc<[String]>),
}

/// See the module. Sources that accept every record have no policy.
#[derive(Debug)]
pub struct LatePolicy {
    decision: LateDecision,
    node: Arc<str>,
    counts: Option<Arc<dyn PartitionCounts>>,
}

impl LatePolicy {
    /// The policy of a source; `None` if all of its records are accepted.
    ///
    /// # Errors
    /// `Internal` if the plan and the table of callables don't belong together.
    pub fn new(
        late: &Late,
        node: &str,
        foreign: &ForeignCode,
        counts: Option<&Arc<dyn PartitionCounts>>,
    ) -> Result<Option<Arc<Self>>> {
        let decision = match late {
            Late::Grace => return Ok(None),
            Late::Call(calling) => {
                LateDecision::Ask(foreign.udf(calling.udf)?, calling.topics.clone().into())
            }
            plain => LateDecision::Always(verdict(plain)?),
        };
        Ok(Some(Arc::new(Self {
            decision,
            node: node.into(),
            counts: counts.cloned(),
        })))
    }

    /// The verdict, if it is the same for every record: then records need not be decoded.
    #[must_use]
    pub const fn always(&self) -> Option<&LateVerdict> {
        match &self.decision {
            LateDecision::Always(verdict) => Some(verdict),
            LateDecision::Ask(..) => None,
        }
    }

    /// Asks for the verdicts on late records of one topic, in their order.
    ///
    /// # Errors
    /// [`Failed`] if the callable raises, returns something else, or a topic that doesn't exist.
    pub fn decide(
        &self,
        batch: &[Record],
        topic: &str,
        watermark: i64,
        out: &mut Vec<LateVerdict>,
    ) -> Result<(), Failed> {
        let (udf, declared) = match &self.decision {
            LateDecision::Ask(udf, declared) => (udf, declared),
            LateDecision::Always(verdict) => {
                out.extend(batch.iter().map(|_| verdict.clone()));
                return Ok(());
            }
        };
        let located = |error: Error| {
            error.at(|at| {
                at.node = Some(self.node.to_string());
                at.function = Some(udf.name().to_owned());
            })
        };
        let mut said = Vec::with_capacity(batch.len());
        udf.late(batch, topic, watermark, &mut said)
            .map_err(|Failed { at, error }| Failed {
                at,
                error: located(error),
            })?;
        if said.len() != batch.len() {
            let error = Error::internal("a late policy gave fewer answers than records");
            return Err(Failed { at: 0, error });
        }
        for (at, late) in said.iter().enumerate() {
            let known = self.find(late, declared, topic);
            let found = known.and_then(|()| verdict(late)).map_err(located);
            out.push(found.map_err(|error| Failed { at, error })?);
        }
        Ok(())
    }

    /// A topic that was not declared must exist, and must not be the one that the record comes from.
    fn find(&self, said: &Late, declared: &[String], own: &str) -> Result<()> {
        let Late::Dlq(to) = said else {
            return Ok(());
        };
        if to == own {
            return Err(Error::user(format!(
                "a late policy gave DLQ(\"{to}\") for a record of that topic: it would be late there again, for ever"
            ))
            .hint("name another topic"));
        }
        let counts = self.counts.as_ref();
        let Some(counts) = counts.filter(|_| !declared.contains(to)) else {
            return Ok(());
        };
        counts.partitions(to).map(drop).map_err(|e| match e.kind() {
            ErrorKind::MissingTopic => Error::missing_topic(format!(
                "a late policy gave DLQ(\"{to}\"), but there is no such topic"
            ))
            .hint("create it, or name another one"),
            _ => e,
        })
    }

    /// A dead letter, whose body the engine adds.
    #[must_use]
    pub fn letter(&self, to: Arc<str>, late: LateRecord<'_>, place: ErrorOrigin) -> DeadLetter {
        let LateRecord {
            origin,
            topic,
            timestamp,
            watermark,
        } = late;
        let message = format!(
            "the record is {} ms older than the watermark {watermark}",
            watermark.saturating_sub(timestamp.0)
        );
        let headers = vec![
            header("kind", "late"),
            header("node", (*self.node).to_owned()),
            header("message", message),
            header("topic", topic.to_owned()),
            header("partition", origin.partition.to_string()),
            header("offset", origin.offset.to_string()),
            header("timestamp", timestamp.0.to_string()),
            header("watermark", watermark.to_string()),
            header("lane", place.lane.0.to_string()),
            header("epoch", place.epoch.0.to_string()),
        ];
        DeadLetter {
            topic: to,
            origin,
            timestamp,
            headers,
        }
    }
}

fn verdict(late: &Late) -> Result<LateVerdict> {
    match late {
        Late::Grace => Ok(LateVerdict::Grace),
        Late::Drop => Ok(LateVerdict::Drop),
        Late::Dlq(topic) => Ok(LateVerdict::DeadLetter(topic.as_str().into())),
        Late::Call(_) => Err(Error::internal("a late policy gave another callable")),
    }
}
