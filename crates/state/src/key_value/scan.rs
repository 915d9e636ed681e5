//! Ordered reads over what is staged and what is committed.
//!
//! Takes an epoch and a range; gives entries in byte order of keys. Owns the merge. It looks at the
//! overlay first and at the back end second: a commit in between moves entries from the first to the
//! second, so the other order could miss them.

use super::slot::stamp;
use super::{KeyValueStore, Stored};
use crate::KeyRange;
use bytes::Bytes;
use std::cmp::Ordering;
use stoatflow_core::{Epoch, Result};

impl KeyRange {
    /// Is the key in the range?
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| key >= from.as_ref())
            && self.to.as_ref().is_none_or(|to| key < to.as_ref())
    }

    /// Which of two keys comes first.
    #[must_use]
    pub fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.reverse { b.cmp(a) } else { a.cmp(b) }
    }
}

impl KeyValueStore {
    /// Entries in byte order of keys (descending if the range says so) as `epoch` sees them, at most
    /// `limit`. Each entry is right on its own; other lanes may write between two of them.
    ///
    /// # Errors
    /// Those of `get`.
    pub fn scan(
        &self,
        epoch: Epoch,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Stored)>> {
        let staged = self.staged_in(epoch, range)?;
        // Every staged key may hide one committed entry.
        let committed = self
            .backend
            .scan(self.id, range, limit.saturating_add(staged.len()))?;
        let mut out = Vec::new();
        let (mut staged, mut committed) = (
            staged.into_iter().peekable(),
            committed.into_iter().peekable(),
        );
        while out.len() < limit {
            let side = match (staged.peek(), committed.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => range.order(a, b),
            };
            if side == Ordering::Greater {
                if let Some((key, bytes)) = committed.next() {
                    out.push((key, self.decode_stored(bytes)?));
                }
                continue;
            }
            if side == Ordering::Equal {
                committed.next();
            }
            if let Some((key, Some(value))) = staged.next() {
                out.push((key, value));
            }
        }
        Ok(out)
    }

    /// Uncommitted writes that `epoch` sees, sorted; `None` is a delete.
    fn staged_in(&self, epoch: Epoch, range: &KeyRange) -> Result<Vec<(Bytes, Option<Stored>)>> {
        let reader = stamp(epoch);
        let mut found = Vec::new();
        let mut foreign = Vec::new();
        for shard in &self.shards {
            let table = shard.lock();
            for slot in table.staged().filter(|s| range.contains(&s.key)) {
                let Some(version) = slot.visible(reader).filter(|v| v.stamp > 0) else {
                    continue;
                };
                match version.read(reader) {
                    Some(value) => found.push((
                        slot.key.clone(),
                        Some(value.clone()).filter(|v| !v.value.is_null()),
                    )),
                    None => foreign.push(slot.key.clone()),
                }
            }
        }
        for key in foreign {
            let value = self.get(epoch, &key)?;
            found.push((key, value));
        }
        found.sort_unstable_by(|(a, _), (b, _)| range.order(a, b));
        Ok(found)
    }
}
