//! How large a record is when it is sent.
//!
//! Takes its parts, gives bytes: what the producer compares with `message.max.bytes`. Never less than it
//! takes.

use stoatflow_core::Headers;

/// What a record takes beside its key, value and headers, at most.
const FRAME: usize = 64;
/// And a header beside its name and value.
const HEADER_FRAME: usize = 10;

/// What a record takes on the wire, at most.
#[must_use]
pub fn size_on_wire(key: Option<&[u8]>, value: Option<&[u8]>, headers: &Headers) -> usize {
    let of = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let each = headers.iter().flat_map(|headers| headers.iter());
    let each = each.map(|h| HEADER_FRAME + h.name.len() + of(h.value.as_deref()));
    FRAME + of(key) + of(value) + each.sum::<usize>()
}
