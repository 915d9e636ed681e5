//! Refuses to run beside members of the group `application.id`, such as Kafka Streams.
//!
//! An engine doesn't join a group: it commits the group's offsets in its transactions. Brokers allow
//! that even if the group has members. Then both would process all input, and each would continue from
//! offsets that the other has committed. The broker fences neither, so the engine ends when it finds a
//! member.

use super::EngineSpec;
use crate::runtime::shared::Shared;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, TopicPartition};
use stoatflow_log::GroupInUse;

#[cfg(test)]
mod tests;

/// How often to check whether the members have left.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a request while the application runs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of members in an error message.
const MAX_NAMED_MEMBERS: usize = 5;

impl EngineSpec {
    /// Waits until the group has no members. `false` if a stop was requested meanwhile.
    ///
    /// # Errors
    /// `Fenced` if they stay; errors of the broker.
    pub(super) fn refuse_members(&self, shared: &Shared) -> Result<bool> {
        let (settings, broker) = (&self.settings, self.components.broker.as_ref());
        let (group, timeout) = (&settings.application_id, settings.broker_wait);
        // By default, longer than it takes until the group drops a member that died
        // (`session.timeout.ms`, 45 s).
        let patience = timeout * 2;
        until_alone(shared, group, patience, || {
            broker.group_in_use(group, timeout)
        })
    }

    /// Checks once, before a reset: a member would continue from its own position and commit that again.
    ///
    /// # Errors
    /// `Fenced` if there is one; errors of the broker.
    pub(crate) fn refuse_members_of_reset(&self) -> Result<()> {
        let (settings, broker) = (&self.settings, self.components.broker.as_ref());
        let group = &settings.application_id;
        let look = || broker.group_in_use(group, settings.broker_wait);
        match warn_if_refused(group, look())? {
            Some(found) => Err(not_reset(group, &found)),
            None => Ok(()),
        }
    }

    /// The committed offsets of another group. It must have no members, which would go on committing.
    ///
    /// # Errors
    /// `Config` if it is this application's own group; `Fenced` if it has members; errors of the broker.
    pub(crate) fn committed_of_group(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<Offset>>> {
        let (settings, broker) = (&self.settings, self.components.broker.as_ref());
        if group == settings.application_id {
            return Err(Error::config(format!(
                "'{group}' is the group of this application itself, whose offsets it goes on from anyway"
            ))
            .hint("start the application, or name the group of another one"));
        }
        let look = broker.group_in_use(group, settings.broker_wait);
        if let Some(found) = warn_if_refused(group, look)? {
            return Err(still_commits(group, &found));
        }
        let committed = broker.committed(group, partitions, settings.broker_wait)?;
        Ok(committed
            .into_iter()
            .map(|committed| Some(committed?.offset))
            .collect())
    }

    /// Checks once for members that joined the group while this engine runs.
    ///
    /// # Errors
    /// `Fenced` if there is one.
    pub(crate) fn refuse_joined_members(&self) -> Result<()> {
        let group = &self.settings.application_id;
        match self.components.broker.group_in_use(group, REQUEST_TIMEOUT) {
            Ok(None) => Ok(()),
            Ok(Some(found)) => Err(joined(group, &found)),
            Err(error) => {
                tracing::debug!(%error, "can't look for members of the group");
                Ok(())
            }
        }
    }
}

/// See [`EngineSpec::refuse_members`].
fn until_alone(
    shared: &Shared,
    group: &str,
    patience: Duration,
    ask: impl Fn() -> Result<Option<GroupInUse>>,
) -> Result<bool> {
    let clock = &shared.clock;
    let mut since = None;
    loop {
        let found = warn_if_refused(group, ask())?;
        let Some(found) = found else {
            if since.is_some() {
                tracing::info!(application = group, "the members of the group have left");
            }
            return Ok(true);
        };
        let now = clock.monotonic();
        let began = *since.get_or_insert_with(|| {
            tracing::warn!(
                application = group,
                state = found.state,
                wait_ms = patience.as_millis(),
                "the group has members: {}; waiting until they have left, since both would process all input. \
                 One that was stopped without leaving, as Kafka Streams is, counts until its session.timeout.ms is over",
                named(&found)
            );
            now
        });
        if now.saturating_sub(began) >= patience {
            return Err(still_there(group, &found));
        }
        if shared.is_stopping() {
            return Ok(false);
        }
        shared.pause(CHECK_INTERVAL);
    }
}

/// `None` with a warning if the broker refuses to answer.
fn warn_if_refused(group: &str, asked: Result<Option<GroupInUse>>) -> Result<Option<GroupInUse>> {
    match asked {
        Err(error) if is_refused(&error) => {
            tracing::warn!(
                application = group,
                %error,
                "can't see whether the group has members; if Kafka Streams runs under this \
                 application.id, everything is processed twice. Next: {}",
                error.next_step()
            );
            Ok(None)
        }
        asked => asked,
    }
}

/// The broker doesn't let this user see the group, or doesn't support the request.
fn is_refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Config)
}

/// `'client' on host` of each member.
fn named(group: &GroupInUse) -> String {
    let members = group.members.iter();
    let mut names: Vec<String> = members
        .map(|m| format!("'{}' on {}", m.client_id, m.host))
        .collect();
    names.sort_unstable();
    if names.is_empty() {
        return format!("the broker doesn't name them, the group is {}", group.state);
    }
    let more = names.len().saturating_sub(MAX_NAMED_MEMBERS);
    names.truncate(MAX_NAMED_MEMBERS);
    let names = names.join(", ");
    match more {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

fn still_there(group: &str, found: &GroupInUse) -> Error {
    Error::fenced(format!(
        "the group '{group}' has members ({}): Kafka Streams, or another consumer, runs under this application.id, \
         and both would process all input",
        named(found)
    ))
    .hint(
        "stop it, wait until its session.timeout.ms is over (45 s by default: Kafka Streams doesn't leave its group \
         when it is closed), and start again; or give this application another application.id",
    )
}

fn not_reset(group: &str, found: &GroupInUse) -> Error {
    Error::fenced(format!(
        "the group '{group}' has members ({}): a reset would not move those, and they would commit their own offsets again",
        named(found)
    ))
    .hint(stop_them("run the reset again"))
}

fn stop_them(then: &str) -> String {
    format!(
        "stop them, wait until their session.timeout.ms is over (45 s by default: Kafka Streams doesn't leave its group \
         when it is closed), and {then}"
    )
}

fn still_commits(group: &str, found: &GroupInUse) -> Error {
    Error::fenced(format!(
        "the group '{group}' has members ({}): they go on, and what they do from now on would be done twice",
        named(found)
    ))
    .hint(stop_them("ask again"))
}

fn joined(group: &str, found: &GroupInUse) -> Error {
    Error::fenced(format!(
        "the group '{group}' has got members while this application runs ({}): Kafka Streams, or another consumer, \
         was started under its application.id, and both process all input",
        named(found)
    ))
    .hint(
        "run only one of the two, or give one of them another application.id; what has come since then may have been \
         processed by both",
    )
}
