//! When an application must not continue from its committed offsets.
//!
//! Compares the offsets topic with the cluster. Returns an error with the next step if a newer instance
//! has started, the application runs on Spark, a topic was recreated, or a changelog has a different
//! number of partitions.

use super::rows::OffsetRows;
use crate::runtime::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, Result};
use stoatflow_log::TopicInfo;

/// Beginning of a format that is no format, but the mark of a hand-over; `MARK` of
/// `python/stoatflow/spark/handover/application.py`, which writes it.
const HANDED_OVER: &str = "handed over to Spark";

impl OffsetRows {
    /// The first topic whose id has changed since its offsets were committed: name, old id, new id.
    fn recreated<'a>(&'a self, now: &'a BTreeMap<Arc<str>, Arc<str>>) -> Option<[&'a Arc<str>; 3]> {
        let both = now.iter().filter_map(|(name, id)| {
            let (name, then) = self.topics.get_key_value(name)?;
            (then != id).then_some([name, then, id])
        });
        both.into_iter().next()
    }

    /// Refuses to continue if another instance has started since this one did. Only for an application
    /// that restarts by itself: one that a user starts takes over.
    ///
    /// # Errors
    /// `Fenced`.
    pub fn refuse_successor(&self, shared: &Shared) -> Result<()> {
        let announced = shared.status.announced.load(Relaxed);
        match self.started {
            Some(started) if announced != 0 && started.0 != announced => Err(Error::fenced(
                "another instance of the application was started while this one was cut off from the broker",
            )
            .hint("only one instance of an application may run: stop the other one, or leave this one stopped")),
            _ => Ok(()),
        }
    }

    /// Refuses to start while a query on Spark processes the records of this application.
    ///
    /// # Errors
    /// `Incompatible`, with the checkpoint and the next step.
    pub fn refuse_handed_over(&self, application: &str) -> Result<()> {
        let mut formats = self.formats.values();
        let Some(mark) = formats.find(|format| format.starts_with(HANDED_OVER)) else {
            return Ok(());
        };
        let (what, next) = mark
            .split_once("; next: ")
            .unwrap_or((mark, "stoatflow hand-over from-spark"));
        Err(Error::incompatible(format!(
            "the application '{application}' is {what}: a query there processes its records"
        ))
        .hint(format!(
            "hand it back: {next}. To compute everything again without Spark: stoatflow reset"
        )))
    }

    /// Refuses a changelog whose number of partitions has changed since its rows were written: newer
    /// rows of a key may be in another partition than its older ones, and a restore can't tell which are
    /// newer.
    ///
    /// # Errors
    /// `Incompatible`, with the topic and the next step.
    pub fn refuse_other_partitions(&self, changelogs: &[TopicInfo]) -> Result<()> {
        for TopicInfo {
            name, partitions, ..
        } in changelogs
        {
            let then = self.partitions.get(name).filter(|then| *then != partitions);
            if let Some(then) = then {
                return Err(Error::incompatible(format!(
                    "the changelog topic '{name}' has {partitions} partitions, and had {then} when its rows were \
                        written: rows of one key may be in two of them, and state that is restored from it may be older \
                        than the offsets"
                ))
                .hint("partitions of a changelog must not be added; to compute everything again: stoatflow reset")
                .at(|at| at.topic = Some(name.to_string())));
            }
        }
        Ok(())
    }

    /// Refuses offsets of a topic that was deleted and created again.
    ///
    /// # Errors
    /// `Incompatible`, with the topic and the next step.
    pub fn refuse_recreated(
        &self,
        application: &str,
        now: &BTreeMap<Arc<str>, Arc<str>>,
        changelogs: &[Option<Arc<str>>],
    ) -> Result<()> {
        let Some([name, then, id]) = self.recreated(now) else {
            return Ok(());
        };
        if changelogs.iter().flatten().any(|c| c == name) {
            return Err(changelog_recreated(application, [name, then, id]));
        }
        let next = format!(
            "if that was on purpose, start over with it: stoatflow reset --input-topic {name} \
                (application '{application}')"
        );
        let lost = "the committed offsets belong to the old one";
        Err(recreated([name, then, id], lost, next))
    }
}

/// A changelog topic (name, old id, new id) was deleted and created again.
pub(crate) fn changelog_recreated(application: &str, topic: [&Arc<str>; 3]) -> Error {
    let lost = "it lacks what the application's state was";
    let next = format!(
        "restore the old topic from a copy, or recompute everything: stoatflow reset \
            (application '{application}')"
    );
    recreated(topic, lost, next)
}

fn recreated([name, then, id]: [&Arc<str>; 3], lost: &str, next: String) -> Error {
    Error::incompatible(format!(
        "the topic '{name}' was deleted and created again since the last commit (its id was {then}, \
            and is {id}): {lost}"
    ))
    .hint(next)
    .at(|at| at.topic = Some(name.to_string()))
}
