//! Patterns of topics: one dialect for the check of a plan and for the match at the start.
//!
//! Takes what the user wrote, gives what matches whole names of topics. Never looks at a broker.

use regex::Regex;
use stoatflow_core::{Error, Result};

/// What matches the topics whose whole names fit `pattern`.
///
/// # Errors
///
/// The pattern uses what the engine's regular expressions don't have, or is none.
pub fn topic_pattern(pattern: &str) -> Result<Regex> {
    let read = |text: &str| {
        Regex::new(text).map_err(|e| {
            // The last line says what is wrong; those before draw the place.
            let what = e.to_string();
            let what = what.lines().last().unwrap_or_default().trim();
            let what = what.strip_prefix("error: ").unwrap_or(what);
            Error::topology(format!("the pattern '{pattern}' can't be read: {what}"))
                .hint("write a regular expression without look-around and back-references, or name the topics")
        })
    };
    // On its own first: parentheses that close the group below are not the user's to write.
    read(pattern)?;
    read(&format!(r"\A(?:{pattern})\z"))
}

#[cfg(test)]
mod tests;
