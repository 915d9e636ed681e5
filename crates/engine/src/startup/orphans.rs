//! Names stores that the topology no longer has: those in the local state, and changelog topics.
//!
//! Only logs them. A topic whose name looks like one may belong to an application whose id begins with
//! this one's, so nothing is removed automatically.

use super::EngineSpec;
use stoatflow_plan::Store;

/// The store of a changelog topic of an application.
fn store_of<'t>(application: &str, topic: &'t str) -> Option<&'t str> {
    let rest = topic.strip_prefix(application)?.strip_prefix('-')?;
    rest.strip_suffix("-changelog")
}

/// Changelog topics of stores that are not among these, sorted by name.
pub(crate) fn left_over<'t>(
    application: &str,
    topics: impl Iterator<Item = &'t str>,
    stores: &[&str],
) -> Vec<&'t str> {
    let mut found: Vec<&str> = topics
        .filter(|topic| store_of(application, topic).is_some_and(|store| !stores.contains(&store)))
        .collect();
    found.sort_unstable();
    found
}

impl EngineSpec {
    /// Logs orphaned stores and topics, if there are any. `disk`: stores of the local state.
    pub(super) fn name_orphans(&self, disk: &[String], specs: &[Store]) {
        let settings = &self.settings;
        let own: Vec<&str> = specs.iter().map(|store| store.name.as_str()).collect();
        let kept = disk.iter().map(String::as_str);
        let disk: Vec<&str> = kept.filter(|name| !own.contains(name)).collect();
        // The application also starts if the broker doesn't answer.
        let names = self.components.broker.topic_names(settings.broker_wait);
        let names = names.unwrap_or_default();
        let topics = left_over(
            &settings.application_id,
            names.iter().map(AsRef::as_ref),
            &own,
        );
        let (stores, topics) = (disk.join(", "), topics.join(", "));
        if !stores.is_empty() {
            tracing::warn!(
                stores,
                topics,
                "the local state has stores that the topology doesn't have (any more), and there may be topics \
                 that are named like their changelogs. Next: when no release needs them, remove them: stoatflow reset --orphans"
            );
        } else if !topics.is_empty() {
            // They may be another application's, so this is no reason to warn at each start.
            tracing::info!(
                topics,
                "there are topics that are named like changelogs of this application, of stores that the topology \
                 doesn't have. Next: if they are this application's and no release needs them, delete them: \
                 stoatflow reset --orphans --topic NAME"
            );
        }
    }
}
