//! A public type has a name of its own in the whole workspace, so that a search finds one thing.
//!
//! Takes the sources, returns every name that two files give to a public type. `tidy.toml` lists the
//! exceptions.

use crate::Finding;
use crate::exceptions::{Exceptions, FILE_NAME};
use crate::rust::RustFile;
use std::collections::{BTreeMap, BTreeSet};

const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Names that occur twice, and exceptions that are no longer needed.
pub fn check(exceptions: &Exceptions, files: &[RustFile]) -> Vec<Finding> {
    let mut declared_in: BTreeMap<&str, BTreeSet<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|f| !f.is_test()) {
        for (n, line) in file.code.lines().enumerate() {
            if let Some(name) = public_type(line) {
                declared_in
                    .entry(name)
                    .or_default()
                    .insert((&file.path, n + 1));
            }
        }
    }
    declared_in.retain(|_, found| {
        found
            .iter()
            .map(|(path, _)| path)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    });
    let mut findings = Vec::new();
    for (name, found) in &declared_in {
        if exceptions.same_name.contains_key(*name) {
            continue;
        }
        let all: Vec<_> = found
            .iter()
            .map(|(path, line)| format!("{path}:{line}"))
            .collect();
        let (path, line) = found.first().copied().unwrap_or_default();
        let all = all[1..].join(", ");
        findings.push(Finding::new(
            path,
            line,
            format!("the public type '{name}' is also in {all}: give each its own name"),
        ));
    }
    for name in exceptions
        .same_name
        .keys()
        .filter(|name| !declared_in.contains_key(name.as_str()))
    {
        findings.push(Finding::new(
            FILE_NAME,
            0,
            format!("[same_name] '{name}' is unique now: remove the line"),
        ));
    }
    findings
}

/// The name of `pub struct Name`, also of an indented one.
fn public_type(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
    let mut kind = words.next()?;
    if matches!(kind, "unsafe" | "auto") {
        kind = words.next()?;
    }
    let name = words.next().filter(|_| KINDS.contains(&kind))?;
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    // An associated type of an implementation is not a declaration, and is never `pub`.
    (end > 0).then_some(&name[..end])
}
