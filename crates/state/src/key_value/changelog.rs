//! Rows as records of the changelog.
//!
//! A value with headers is one row here; in the changelog the headers are those of the record, as in Kafka
//! Streams (KIP-1271). So stores with and without headers have the same changelog.

#[cfg(test)]
mod tests;

use super::{KeyValueStore, Sealed};
use crate::{ChangelogRecord, RestoreRun};
use stoatflow_core::{Result, Serde, Timestamp, headers_from_bytes, put_headers, take_headers};

impl KeyValueStore {
    /// Whether values have headers.
    fn has_headers(&self) -> bool {
        matches!(self.value, Serde::WithHeaders(_))
    }

    /// The changelog record of a sealed write; `None` if the write is not for the changelog.
    ///
    /// # Errors
    /// `Serde` if the value has no valid headers.
    pub fn to_changelog(&self, sealed: &Sealed) -> Result<Option<ChangelogRecord>> {
        let mut record = self.layout.to_changelog(sealed);
        if self.has_headers() {
            record = record.map(with_headers).transpose()?;
        }
        Ok(record)
    }

    /// Adds to a run what the back end stores for a changelog record.
    ///
    /// # Errors
    /// As [`crate::Layout::restore_into`].
    pub fn restore_into(
        &self,
        run: &mut RestoreRun,
        (key, value): (&[u8], Option<&[u8]>),
        timestamp: Timestamp,
        headers: &[u8],
    ) -> Result<()> {
        let Some(plain) = value.filter(|_| self.has_headers()) else {
            return self.layout.restore_into(run, key, value, timestamp);
        };
        let mut row = Vec::with_capacity(5 + headers.len() + plain.len());
        put_headers(&mut row, headers);
        row.extend_from_slice(plain);
        self.layout.restore_into(run, key, Some(&row), timestamp)
    }
}

/// Moves the headers from the value into the record.
fn with_headers(mut record: ChangelogRecord) -> Result<ChangelogRecord> {
    if let Some(value) = record.value.take() {
        let (headers, value) = take_headers(value)?;
        record.headers = headers_from_bytes(headers)?;
        record.value = Some(value);
    }
    Ok(record)
}
