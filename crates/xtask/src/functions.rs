//! Functions of Rust and Python have at most a hundred lines.
//!
//! Takes one file, returns the functions that are longer. `tidy.toml` lists the exceptions.

use crate::Finding;
use crate::code_only::code_only;
use crate::exceptions::{Exceptions, FILE_NAME};
use crate::source_files::SourceFile;
use std::collections::BTreeSet;

const MAX_LINES: usize = 100;

struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// Functions that are too long, and exceptions that are no longer needed.
pub fn check(exceptions: &Exceptions, files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for file in files {
        let code;
        let functions = match file.path.rsplit_once('.') {
            Some((_, "rs")) => {
                code = code_only(&file.text);
                of_rust(&code)
            }
            Some((_, "py")) => of_python(&file.text),
            _ => continue,
        };
        for function in functions.iter().filter(|f| f.lines > MAX_LINES) {
            let known = format!("{} {}", file.path, function.name);
            if exceptions.long_functions.contains_key(&known) {
                used.insert(known);
                continue;
            }
            let Function { name, line, lines } = *function;
            let what = format!(
                "'{name}' has {lines} lines, {MAX_LINES} is the limit: split it by what it decides"
            );
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    for (known, reason) in &exceptions.long_functions {
        if !used.contains(known) {
            findings.push(Finding::new(
                FILE_NAME,
                0,
                format!("[long_functions] '{known}' isn't too long: remove the line"),
            ));
        } else if reason.join("").trim().is_empty() {
            findings.push(Finding::new(
                FILE_NAME,
                0,
                format!("[long_functions] '{known}' has no reason: say why"),
            ));
        }
    }
    findings
}

/// From `fn` to the brace that closes its body.
fn of_rust(code: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let whole_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name = word(&code[at + 3..]);
        let Some(length) = body_end(&code[at..]).filter(|_| whole_word && !name.is_empty()) else {
            continue;
        };
        functions.push(Function {
            name,
            line: code[..at].matches('\n').count() + 1,
            lines: code[at..at + length].matches('\n').count() + 1,
        });
    }
    functions
}

/// The end of the body; `None` for a declaration without one.
fn body_end(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 && brackets == 0 => return None,
            '(' | '[' if depth == 0 => brackets += 1,
            ')' | ']' if depth == 0 => brackets = brackets.saturating_sub(1),
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// From `def` to the last line that is indented deeper. Ends early at a multi-line text whose lines are
/// not indented deeper.
fn of_python(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let code = code.strip_prefix("async ").unwrap_or(code);
        let Some(rest) = code.strip_prefix("def ") else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut last = n;
        for (at, line) in lines.iter().enumerate().skip(n + 1) {
            let inner = line.trim_start();
            if inner.is_empty() || inner.starts_with(')') {
                continue;
            }
            if line.len() - inner.len() <= indent {
                break;
            }
            last = at;
        }
        functions.push(Function {
            name: word(rest),
            line: n + 1,
            lines: last - n + 1,
        });
    }
    functions
}

fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}
