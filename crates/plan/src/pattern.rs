//! Topic patterns: one dialect for the check of a plan and for the match at the start.
//!
//! Takes the user's pattern, returns a regex that matches whole topic names. Never contacts a broker.

use regex::Regex;
use stoatflow_core::{Error, Result};

/// A regex that matches the topics whose whole names fit `pattern`.
///
/// # Errors
///
/// If the pattern is invalid, or uses features that the engine's regular expressions don't have.
pub fn topic_pattern(pattern: &str) -> Result<Regex> {
    let read = |text: &str| {
        Regex::new(text).map_err(|e| {
            // The last line is the message; the lines before draw the position.
            let what = e.to_string();
            let what = what.lines().last().unwrap_or_default().trim();
            let what = what.strip_prefix("error: ").unwrap_or(what);
            Error::topology(format!("the pattern '{pattern}' can't be read: {what}"))
                .hint("write a regular expression without look-around and back-references, or name the topics")
        })
    };
    // First by itself: the user's pattern must not close the group that is added below.
    read(pattern)?;
    read(&format!(r"\A(?:{pattern})\z"))
}

#[cfg(test)]
mod tests;
