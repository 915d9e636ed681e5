//! A slot's key: its bytes in the slot itself, if they are few, so that a look-up touches nothing else.
//!
//! Takes bytes, gives them back. A long key is a copy of its own: the caller's may be a part of a whole input buffer.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use std::ops::Deref;
use stoatflow_core::Short;

/// See the module.
#[derive(Clone, Debug)]
pub(super) enum SlotKey {
    Short(Short),
    Long(Bytes),
}

const _: () = assert!(size_of::<SlotKey>() == size_of::<Bytes>());

/// A key that is looked for, made once.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    short: Option<Short>,
    bytes: &'a [u8],
}

impl<'a> Wanted<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            short: Short::of(0, bytes),
            bytes,
        }
    }

    #[inline]
    pub fn is(&self, key: &SlotKey) -> bool {
        match (key, &self.short) {
            (SlotKey::Short(key), Some(wanted)) => key == wanted,
            (SlotKey::Long(key), None) => **key == *self.bytes,
            _ => false,
        }
    }
}

impl SlotKey {
    pub fn new(bytes: &[u8]) -> Self {
        Short::of(0, bytes).map_or_else(|| Self::Long(Bytes::copy_from_slice(bytes)), Self::Short)
    }

    /// For whoever keeps it longer.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Short(short) => Bytes::copy_from_slice(short.bytes()),
            Self::Long(bytes) => bytes.clone(),
        }
    }
}

impl Deref for SlotKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(short) => short.bytes(),
            Self::Long(bytes) => bytes,
        }
    }
}
