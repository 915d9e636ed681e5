//! A slot's key. Short keys are stored in the slot itself, so that a lookup touches nothing else.
//!
//! A long key is copied: the caller's may be a slice of a whole input buffer.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use std::ops::Deref;
use stoatflow_core::InlineBytes;

/// See the module.
#[derive(Clone, Debug)]
pub(super) enum SlotKey {
    Inline(InlineBytes),
    Long(Bytes),
}

const _: () = assert!(size_of::<SlotKey>() == size_of::<Bytes>());

impl SlotKey {
    pub fn new(bytes: &[u8]) -> Self {
        InlineBytes::of(0, bytes)
            .map_or_else(|| Self::Long(Bytes::copy_from_slice(bytes)), Self::Inline)
    }

    /// Converts the key to `Bytes`.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Inline(short) => Bytes::copy_from_slice(short.bytes()),
            Self::Long(bytes) => bytes,
        }
    }

    /// As [`Self::into_bytes`].
    pub fn to_bytes(&self) -> Bytes {
        self.clone().into_bytes()
    }
}

/// Keeps the bytes as they are; for scans that collect keys as `SlotKey`.
impl From<Bytes> for SlotKey {
    fn from(bytes: Bytes) -> Self {
        Self::Long(bytes)
    }
}

impl Deref for SlotKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(short) => short.bytes(),
            Self::Long(bytes) => bytes,
        }
    }
}
