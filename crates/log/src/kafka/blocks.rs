//! Copies of what lies in a client's memory, many in one block.
//!
//! Takes keys and values, gives slices of shared memory: a record costs no allocation of its own, and one
//! that is kept keeps little else alive.

use bytes::{Bytes, BytesMut};

/// Records share blocks of about this size.
const BLOCK: usize = 64 * 1024;

/// The block that is being filled.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    block: BytesMut,
}

impl Blocks {
    /// Key and value as slices of one block.
    pub(super) fn copy(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> (Option<Bytes>, Option<Bytes>) {
        let need = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        if self.block.capacity() < need {
            // A record beyond a quarter of a block gets its own: nothing small is kept alive by it.
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

    /// A copy at the front of a block that has room for it.
    fn part(&mut self, from: Option<&[u8]>) -> Option<Bytes> {
        self.block.extend_from_slice(from?);
        Some(self.block.split().freeze())
    }
}
