//! Copies keys and values out of a client's memory, many into one block.
//!
//! Takes keys and values, returns slices of shared memory: a record needs no allocation of its own, and
//! one that is kept alive keeps little else alive.

use bytes::{Bytes, BytesMut};

/// Records share blocks of about this size.
const BLOCK: usize = 64 * 1024;

/// The block that is being filled.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    block: BytesMut,
}

impl Blocks {
    /// Copies key and value into one block.
    pub(super) fn copy(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> (Option<Bytes>, Option<Bytes>) {
        let need = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        if self.block.capacity() < need {
            // A record beyond a quarter of a block gets its own allocation, so that it doesn't stay in
            // memory for the sake of a small one.
            if need > BLOCK / 4 {
                return (
                    key.map(Bytes::copy_from_slice),
                    value.map(Bytes::copy_from_slice),
                );
            }
            self.block = BytesMut::with_capacity(BLOCK);
        }
        (self.part(key), self.part(value))
    }

    /// Copies to the front of a block that has room for it.
    fn part(&mut self, from: Option<&[u8]>) -> Option<Bytes> {
        self.block.extend_from_slice(from?);
        Some(self.block.split().freeze())
    }
}
