//! A produce request as slices, so that batches are not copied into it.

use bytes::{BufMut, BytesMut};

/// A frame in pieces: its own short ones, and batches in place.
#[derive(Debug)]
pub(in crate::kafka::native) struct Frame<'a> {
    pub(super) between: BytesMut,
    /// Each batch, and the number of bytes of `between` before it.
    batches: Vec<(usize, &'a [u8])>,
}

impl<'a> Frame<'a> {
    pub(super) const fn new(head: BytesMut) -> Self {
        Self {
            between: head,
            batches: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, batch: &'a [u8]) {
        self.batches.push((self.between.len(), batch));
    }

    pub(super) fn close(&mut self) {
        let batches: usize = self.batches.iter().map(|(_, batch)| batch.len()).sum();
        let size = u32::try_from(self.between.len() - 4 + batches).unwrap_or(u32::MAX);
        self.between[..4].copy_from_slice(&size.to_be_bytes());
    }

    pub(in crate::kafka::native) fn pieces(&self) -> Vec<&[u8]> {
        let mut pieces = Vec::with_capacity(2 * self.batches.len() + 1);
        let mut from = 0;
        for (to, batch) in &self.batches {
            pieces.push(&self.between[from..*to]);
            pieces.push(*batch);
            from = *to;
        }
        pieces.push(&self.between[from..]);
        pieces
    }
}

/// A length in the compact encoding: an unsigned varint of the length plus one.
pub(super) fn compact_length(into: &mut BytesMut, length: usize) {
    let mut n = length + 1;
    while n >= 0x80 {
        into.put_u8(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    into.put_u8(n.to_le_bytes()[0]);
}

pub(super) fn compact_text(into: &mut BytesMut, text: &str) {
    compact_length(into, text.len());
    into.put_slice(text.as_bytes());
}
