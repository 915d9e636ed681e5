//! Rules for a file's path and text.
//!
//! Takes one file, returns its findings: length, name, banned words, tests inside sources, foreign
//! crates outside their directories. Looks at words, not at syntax: clippy does the rest.

use crate::Finding;
use crate::layers::Layers;
use crate::source_files::SourceFile;

/// Limit for a file; aim at 500.
const MAX_LINES: usize = 600;
/// Limit for comments. Code is as wide as its formatter makes it.
const MAX_COLUMNS: usize = 110;
/// Limit for pages.
const MAX_COLUMNS_OF_PAGES: usize = 120;
/// Names that say nothing about the content.
const MEANINGLESS_NAMES: &[&str] = &[
    "utils", "util", "helpers", "helper", "common", "misc", "manager", "types",
];
// Split, so that this file passes its own check.
const UNFINISHED_WORK: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/tmp/", "t-"),
];

/// The findings about a file.
pub fn check(layers: &Layers, file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ending = file.path.rsplit_once('.').map_or("", |(_, e)| e);
    let source = matches!(ending, "rs" | "py" | "pyi" | "java");
    let mut add = |line, what: String| findings.push(Finding::new(&file.path, line, what));
    if source {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            add(
                0,
                format!(
                    "has {lines} lines, {MAX_LINES} is the limit (aim at 500): split it by what it decides"
                ),
            );
        }
        for part in file.path.split('/') {
            let stem = part.split('.').next().unwrap_or_default();
            if MEANINGLESS_NAMES.contains(&stem) {
                add(
                    0,
                    format!("the name '{stem}' says nothing: name it after what it does"),
                );
            }
        }
    }
    let rust_source = ending == "rs" && file.path.contains("/src/");
    let mut fenced = false;
    let max_columns = if ending == "md" {
        MAX_COLUMNS_OF_PAGES
    } else {
        MAX_COLUMNS
    };
    for (n, line) in file.text.lines().enumerate().map(|(n, l)| (n + 1, l)) {
        if ending != "md" {
            for word in UNFINISHED_WORK.iter().filter(|w| has_word(line, w)) {
                add(
                    n,
                    format!("'{word}' is unfinished work: finish it, or describe it in an issue"),
                );
            }
        }
        fenced ^= ending == "md" && line.trim_start().starts_with("```");
        let columns = line.chars().count();
        if columns > max_columns && !fenced && is_prose(line, ending) {
            add(
                n,
                format!("has {columns} columns, {max_columns} is the limit: wrap it"),
            );
        }
        for path in MACHINE_PATHS.iter().filter(|p| has_word(line, p)) {
            add(
                n,
                format!(
                    "'{path}' is a path of one machine: take it from a setting or the file's own place"
                ),
            );
        }
        if rust_source
            && line
                .trim_start()
                .trim_start_matches("pub ")
                .starts_with(concat!("mod ", "tests {"))
        {
            add(
                n,
                "tests live beside the source: `mod tests;` and a file of their own".into(),
            );
        }
        // The samples in tidy's own tests name foreign crates; its manifest is still checked.
        if rust_source && !file.path.starts_with("crates/xtask/") {
            check_external_crates(layers, file, line, &mut |what| add(n, what));
        }
    }
    findings
}

/// A comment, or a line of a page that is not a table row or part of a drawing. Lines with a piece that
/// can't be wrapped (an address, a command within backticks) don't count.
fn is_prose(line: &str, ending: &str) -> bool {
    let line = line.trim_start();
    let comment = match ending {
        "md" => !line.starts_with('|') && !line.starts_with('<'),
        "rs" | "java" => line.starts_with("//") || line.starts_with("* "),
        "py" | "pyi" | "sh" | "toml" | "yml" | "yaml" => line.starts_with('#'),
        _ => false,
    };
    let drawing = line.contains(['│', '─', '►']);
    let mut quoted = false;
    let mut pieces = line.split(|c| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    });
    comment && !drawing && pieces.all(|piece| piece.chars().count() < MAX_COLUMNS / 2)
}

/// All banned words, for the tests.
#[cfg(test)]
pub fn banned() -> impl Iterator<Item = &'static str> {
    UNFINISHED_WORK.iter().chain(MACHINE_PATHS).copied()
}

fn check_external_crates(
    layers: &Layers,
    file: &SourceFile,
    line: &str,
    add: &mut impl FnMut(String),
) {
    let code = line.split("//").next().unwrap_or_default();
    for (name, places) in &layers.only_in {
        let word = name.replace('-', "_");
        let allowed = places.iter().any(|p| {
            file.path
                .strip_prefix("crates/")
                .and_then(|f| f.strip_prefix(p.as_str()))
                .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
        });
        if !allowed && names_crate(code, &word) {
            add(format!(
                "only {} may name {name}: go through the port",
                places.join(", ")
            ));
        }
    }
}

/// `x::`, `use x;` or `extern crate x`, but not a module of that name (`crate::x::`).
fn names_crate(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let path = before.strip_suffix("::").unwrap_or(before);
        let inner =
            before.len() != path.len() && path.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        let import = before.trim_end().ends_with("use") || before.trim_end().ends_with("crate");
        whole
            && !inner
            && (after.starts_with("::") || (import && after.trim_start().starts_with([';', ' '])))
    })
}

/// A word that is not the tail of a longer one and, if it ends in a letter, not the head of one either.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let tail = before
            .is_some_and(|c| joins(c) || (word.starts_with('/') && matches!(c, '.' | '}' | ')')));
        let head = word.ends_with(char::is_alphanumeric) && after.is_some_and(joins);
        !tail && !head
    })
}
