//! Where local state lives if `state.dir` isn't set: beside embedded topics, or else in a directory that
//! survives a reboot, if there is one.
//!
//! The choice itself does no I/O; [`default_state_dir`] queries the machine.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the choice depends on.
struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    can_write: &'a dyn Fn(&Path) -> bool,
    temporary: PathBuf,
    user: u32,
}

/// The first of these that is writable: the directory that systemd gives a unit with `StateDirectory=`,
/// the XDG state home if it is set, `/var/lib`, the default XDG state home, the temporary directory.
fn choose(machine: &Environment<'_>) -> PathBuf {
    let named = |name: &str| {
        (machine.variable)(name)
            .filter(|value| value.starts_with('/'))
            .map(PathBuf::from)
    };
    let of_systemd = (machine.variable)("STATE_DIRECTORY")
        .and_then(|all| all.split(':').next().map(str::to_owned))
        .filter(|first| first.starts_with('/'))
        .map(PathBuf::from);
    let places = [
        of_systemd,
        named("XDG_STATE_HOME").map(|home| home.join("stoatflow")),
        Some(PathBuf::from("/var/lib/stoatflow")),
        named("HOME").map(|home| home.join(".local/state/stoatflow")),
    ];
    let mut places = places.into_iter().flatten();
    places
        .find(|place| (machine.can_write)(place))
        .unwrap_or_else(|| {
            // One directory per user: the first user's would keep the others out.
            machine
                .temporary
                .join(format!("stoatflow-{}", machine.user))
        })
}

/// The user of this process, from /proc; 0 if that doesn't exist.
fn user() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

/// Whether this user may write into a directory with these permissions.
const fn may_write(user: u32, (owner, mode): (u32, u32)) -> bool {
    const OWNER_MAY: u32 = 0o300;
    const ALL_MAY: u32 = 0o003;
    let (wanted, by_user) = if owner == user {
        (OWNER_MAY, mode & OWNER_MAY)
    } else {
        (ALL_MAY, mode & ALL_MAY)
    };
    user == 0 || by_user == wanted
}

/// Whether a directory can be created here, or written if it exists.
fn can_write(place: &Path) -> bool {
    let existing = place.ancestors().find_map(|above| above.metadata().ok());
    existing.is_some_and(|above| above.is_dir() && may_write(user(), (above.uid(), above.mode())))
}

/// The default of `state.dir`. Unless systemd provides a directory, embedded topics have their state beside
/// them: it is removed with them, and no other topics ever meet it.
#[allow(clippy::disallowed_methods)] // these variables belong to the machine, and are part of the settings
pub(super) fn default_state_dir(bootstrap_servers: &str) -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(topics) = bootstrap_servers.strip_prefix("embedded:")
        && !topics.is_empty()
        && variable("STATE_DIRECTORY").is_none()
    {
        return Path::new(topics).join("state");
    }
    choose(&Environment {
        variable: &variable,
        can_write: &can_write,
        temporary: std::env::temp_dir(),
        user: user(),
    })
}

#[cfg(test)]
mod tests;
