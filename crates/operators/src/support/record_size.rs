//! The size of a record when it is sent.
//!
//! Takes its parts, returns the bytes that the producer compares with `message.max.bytes`. Never less
//! than the real size.

use stoatflow_core::Headers;

/// Maximum size of a record besides its key, value and headers.
const FRAME: usize = 64;
/// Maximum size of a header besides its name and value.
const HEADER_FRAME: usize = 10;

/// The maximum size of a record on the wire.
#[must_use]
pub fn size_on_wire(key: Option<&[u8]>, value: Option<&[u8]>, headers: &Headers) -> usize {
    let of = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let each = headers.iter().flat_map(|headers| headers.iter());
    let each = each.map(|h| HEADER_FRAME + h.name.len() + of(h.value.as_deref()));
    FRAME + of(key) + of(value) + each.sum::<usize>()
}
