//! Regular expressions and their replacements.
//!
//! Takes a pattern and a replacement in Python's syntax (`\1`, `\g<name>`), returns both ready to use,
//! or an error message. Features of Python's `re` that this lacks (look-around, back-references) are
//! refused: in return no pattern and no text can make a search take longer than linear time.

use regex::Regex;

/// A part of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// The match of a group.
    Group(usize),
}

/// A pattern, ready to use.
///
/// # Errors
/// A sentence that says why it is invalid.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| {
        let why = e.to_string();
        // The last line is the message; the lines before draw the pattern.
        let why = why.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("{text:?} is no regular expression: {why}")
    })
}

/// The index of a group, by its number or name.
///
/// # Errors
/// The list of existing groups.
pub fn group(pattern: &Regex, wanted: &str) -> Result<usize, String> {
    let by_number = wanted.parse().ok().filter(|n| *n < pattern.captures_len());
    let by_name = || {
        let mut names = pattern.capture_names();
        names.position(|name| name == Some(wanted))
    };
    by_number.or_else(by_name).ok_or_else(|| {
        format!(
            "the pattern {:?} has no group {wanted}: it has {} (0 is all of it)",
            pattern.as_str(),
            pattern.captures_len() - 1,
        )
    })
}

/// The parts of a replacement.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn replacement(pattern: &Regex, text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        let wanted = match chars.next() {
            Some('\\') => {
                plain.push('\\');
                continue;
            }
            Some('n') => {
                plain.push('\n');
                continue;
            }
            Some('t') => {
                plain.push('\t');
                continue;
            }
            Some('g') => {
                if chars.next() != Some('<') {
                    return Err(format!("{text:?}: write \\g<name> for a group"));
                }
                let name: String = chars.by_ref().take_while(|c| *c != '>').collect();
                name
            }
            Some(digit @ '1'..='9') => {
                let mut number = digit.to_string();
                if let Some(second) = chars.next_if(char::is_ascii_digit) {
                    number.push(second);
                }
                number
            }
            Some(other) => {
                return Err(format!(
                    "{text:?}: \\{other} means nothing; write \\\\ for a backslash, \\1 for a group"
                ));
            }
            None => return Err(format!("{text:?} ends with a single backslash")),
        };
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Group(group(pattern, &wanted)?));
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}
