//! Finds members in JSON text.
//!
//! Takes the text and the path to the member; returns the byte range of its value. Allocates nothing and
//! reads nothing after the value. If a name occurs twice, the first one counts. What this can't decide
//! (escaped names, malformed text) is `Unknown`: the caller then uses a parser, which also explains the
//! error.

use super::is_utf8;
use super::scan::JsonScanner;
use smallvec::SmallVec;
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

/// Appends an object with those members of the text that have one of these names, in one pass. False, with
/// nothing appended, if [`find`] would not find each of these members or its absence in the whole text; so
/// paths that begin with one of the names lead to the same values in both.
pub fn pick<N: AsRef<str>>(text: &[u8], names: &[N], out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let picked = append_members(text, names, out).is_some();
    if !picked {
        out.truncate(before);
    }
    picked
}

fn append_members<N: AsRef<str>>(text: &[u8], names: &[N], out: &mut Vec<u8>) -> Option<()> {
    let mut scan = JsonScanner::new(text, None);
    let mut missing: SmallVec<[&[u8]; 8]> = names.iter().map(|n| n.as_ref().as_bytes()).collect();
    let mut sign = b'{';
    scan.open_object()?;
    let mut member = scan.first_member()?;
    while let Some(name) = member {
        let wanted = missing
            .iter()
            .position(|wanted| text[name.clone()] == **wanted);
        let from = name.start - 1;
        scan.whole_value()?;
        if let Some(wanted) = wanted {
            missing.swap_remove(wanted);
            out.push(sign);
            out.extend_from_slice(&text[from..scan.at]);
            sign = b',';
        }
        if missing.is_empty() {
            // What follows the last of them isn't read, but the value must have ended.
            let ended = matches!(scan.past_blanks()?, b',' | b'}');
            return (ended && is_utf8(&text[..scan.at])).then(|| out.push(b'}'));
        }
        member = scan.next_member()?;
    }
    // A member is absent only from an object that is well-formed to its end.
    scan.at += 1;
    if scan.past_blanks().is_some() || !is_utf8(text) {
        return None;
    }
    if sign == b'{' {
        out.push(sign);
    }
    out.push(b'}');
    Some(())
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
