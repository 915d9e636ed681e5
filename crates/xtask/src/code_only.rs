//! Rust source without its comments and literals.
//!
//! Takes a source, returns one with the same lines and columns in which comments and the contents of
//! string and character literals are blanks: the rest can be searched for words and braces.

/// The source with blanks for everything that is not code.
pub fn code_only(source: &str) -> String {
    let mut rest = source;
    let mut out = String::with_capacity(source.len());
    while let Some(first) = rest.chars().next() {
        let after_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            'r' | 'b' if !after_word => raw_text(rest).unwrap_or(0),
            '"' => text(rest),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(
                rest[..length]
                    .chars()
                    .map(|c| if c == '\n' { c } else { ' ' }),
            );
            rest = &rest[length..];
        }
    }
    out
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `r"..."`, `br#"..."#`.
fn raw_text(rest: &str) -> Option<usize> {
    let start = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let marks = start.len() - start.trim_start_matches('#').len();
    let inner = start[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let closed = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(rest.len() - inner.len() + closed)
}

/// `'x'`, `'\n'`, `'\u{7f}'`; not a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inner = &rest[1..];
    let first = inner.chars().next()?;
    if first == '\\' {
        let skipped = 1 + inner[1..].chars().next()?.len_utf8();
        return inner[skipped..].find('\'').map(|at| 1 + skipped + at + 1);
    }
    let end = first.len_utf8();
    inner[end..].starts_with('\'').then_some(1 + end + 1)
}
