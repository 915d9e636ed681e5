//! Finds a member in JSON text.
//!
//! Takes the text and the path to the member; returns the byte range of its value. Allocates nothing and
//! reads nothing after the value. If a name occurs twice, the first one counts. What this can't decide
//! (escaped names, malformed text) is `Unknown`: the caller then uses a parser, which also explains the
//! error.

use super::is_utf8;
use super::scan::JsonScanner;
use std::ops::Range;

/// The result of [`find`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberPlace {
    /// The range of the value. It and everything before it are well-formed.
    At(Range<usize>),
    /// An object on the path doesn't have the member.
    Nowhere,
    /// Malformed text, an escaped name, or a value on the path that is not an object.
    Unknown,
}

/// Follows a path of names from the outermost object. `None` stands for a step that is not a name.
pub fn find<'p>(text: &[u8], path: impl IntoIterator<Item = Option<&'p str>>) -> MemberPlace {
    let mut scan = JsonScanner::new(text, None);
    for name in path {
        match name.and_then(|name| scan.member(name.as_bytes())) {
            Some(true) => {}
            Some(false) => return MemberPlace::Nowhere,
            None => return MemberPlace::Unknown,
        }
    }
    value(&mut scan, text).map_or(MemberPlace::Unknown, MemberPlace::At)
}

/// The range of the value that starts at the scan's position.
fn value(scan: &mut JsonScanner<'_>, text: &[u8]) -> Option<Range<usize>> {
    scan.past_blanks()?;
    let from = scan.at;
    scan.whole_value()?;
    let place = from..scan.at;
    // "01" or "1x": the scan stops after the 0 or the 1, so look at what follows.
    let ends = matches!(scan.past_blanks(), None | Some(b',' | b'}' | b']'));
    (ends && is_utf8(&text[..place.end])).then_some(place)
}

#[cfg(test)]
mod tests;
