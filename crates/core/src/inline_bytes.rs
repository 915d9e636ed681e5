//! Up to 22 bytes stored inline.
//!
//! Two of them are compared in three steps without following a pointer. Owners keep longer ones
//! elsewhere.

#[cfg(test)]
mod tests;

/// The most bytes: together with kind and length they fill three machine words.
const MAX_BYTES: usize = 22;

/// Layout: kind, length, the bytes, zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineBytes([u8; MAX_BYTES + 2]);

impl InlineBytes {
    /// Stores these bytes, if they are few enough. Two are equal if kind and bytes are equal.
    #[inline]
    #[must_use]
    pub fn of(kind: u8, bytes: &[u8]) -> Option<Self> {
        let len = bytes.len();
        let mut short = [0; MAX_BYTES + 2];
        let room = short[2..].get_mut(..len)?;
        // In chunks of constant length: a copy of variable length is a function call.
        if let (Some((first, _)), Some((_, last))) = (
            bytes.split_first_chunk::<8>(),
            bytes.split_last_chunk::<8>(),
        ) {
            if let Some((middle, _)) = bytes[8..].split_first_chunk::<8>() {
                room[8..16].copy_from_slice(middle);
            }
            room[..8].copy_from_slice(first);
            room[len - 8..].copy_from_slice(last);
        } else {
            room.iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
        }
        short[0] = kind;
        #[allow(clippy::cast_possible_truncation)] // there was room for them
        {
            short[1] = len as u8;
        }
        Some(Self(short))
    }

    /// Stores the four bytes of a number.
    #[must_use]
    pub fn number(kind: u8, number: u32) -> Self {
        let mut short = [0; MAX_BYTES + 2];
        (short[0], short[1]) = (kind, 4);
        short[2..6].copy_from_slice(&number.to_be_bytes());
        Self(short)
    }

    /// The kind of the bytes.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.0[0]
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let [_, len, bytes @ ..] = &self.0;
        &bytes[..usize::from(*len)]
    }
}
