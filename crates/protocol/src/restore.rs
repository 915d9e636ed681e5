//! How a store catches up with its changelog partition.
//!
//! Takes the position that the local data stands for and the range that the broker still has; gives
//! the part to read, or the reason to refuse. Decides too what becomes of local data that can't be used.

use stoatflow_core::{Error, Offset, Result};

/// What is known of one store and changelog partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreFacts {
    /// The next offset that the local data lacks; `None` if there is no local data.
    pub stored: Option<Offset>,
    /// The first offset that the changelog has.
    pub begin: Offset,
    /// One past the last committed offset.
    pub stable_end: Offset,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePlan {
    /// The local data is current.
    Nothing,
    /// Read from here to the stable end, on top of the local data.
    Delta(Offset),
    /// Read everything into an empty store.
    Cold(Offset),
    /// The changelog no longer has what lies between: forget the local data, read everything.
    WipeThenCold(Offset),
}

impl RestoreFacts {
    /// Decides.
    ///
    /// # Errors
    /// `Incompatible` if the local data is ahead of the changelog: the changelog was deleted or
    /// truncated, and to go on silently could lose or double results.
    pub fn decide(self, store: &str) -> Result<RestorePlan> {
        match self.stored {
            None if self.begin >= self.stable_end => Ok(RestorePlan::Nothing),
            None => Ok(RestorePlan::Cold(self.begin)),
            Some(at) if at > self.stable_end => Err(Error::incompatible(format!(
                "the local store '{store}' stands for changelog offset {at}, but the changelog ends at {}",
                self.stable_end
            ))
            .hint("the changelog topic was deleted or truncated: if that was on purpose, delete the state directory too and start again")),
            Some(at) if at == self.stable_end => Ok(RestorePlan::Nothing),
            Some(at) if at < self.begin => Ok(RestorePlan::WipeThenCold(self.begin)),
            Some(at) => Ok(RestorePlan::Delta(at)),
        }
    }
}

/// What to do with local data that can't be used: damaged, or of another format.
///
/// Takes the declared policy, the stores that no changelog can give back, and what was found.
///
/// # Errors
/// What was found, unless it may be thrown away and restored.
pub fn on_damage(rebuild: bool, unlogged: &[&str], found: Error) -> Result<()> {
    if !rebuild {
        return Err(found);
    }
    if unlogged.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        found.kind(),
        format!(
            "{}; it is not rebuilt, because no changelog has the stores {}",
            found.message(),
            unlogged.join(", ")
        ),
    )
    .hint("bring the directory back from a copy, or delete it and start again without what these stores held")
    .caused_by(found.to_string()))
}

#[cfg(test)]
mod tests;
