//! Chores of the repository: `cargo run --release -p xtask -- tidy`.
//!
//! Takes the name of a chore, prints findings as `path:line: what`, exits with 1 if there are any. Never
//! changes a file.

mod code_only;
mod dependencies;
mod exceptions;
mod functions;
mod import_cycles;
mod imports;
mod layers;
mod names;
mod rust;
mod source_files;
mod text;
mod toml;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// All findings in a source tree.
fn tidy(root: &Path) -> Result<Vec<Finding>, String> {
    let layers = layers::read(&root.join("layers.toml"))?;
    let exceptions = exceptions::read(&root.join(exceptions::FILE_NAME))?;
    let files = source_files::files(root)?;
    let rust: Vec<_> = files.iter().filter_map(rust::RustFile::of).collect();
    let mut findings = dependencies::check(&layers, &dependencies::metadata(root)?);
    findings.extend(files.iter().flat_map(|file| text::check(&layers, file)));
    findings.extend(functions::check(&exceptions, &files));
    findings.extend(names::check(&exceptions, &rust));
    findings.extend(import_cycles::check(&exceptions, &rust));
    findings.sort();
    Ok(findings)
}

#[allow(clippy::disallowed_methods)] // the directory is not a setting
fn main() -> ExitCode {
    let chore = std::env::args().nth(1);
    // The clone that runs it: clones may share a target directory, and with it this binary.
    let own = std::env::var_os("CARGO_MANIFEST_DIR");
    let own = own.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&own).join("../..");
    match chore.as_deref() {
        Some("tidy") => match tidy(&root) {
            Ok(findings) if findings.is_empty() => {
                println!("tidy: nothing to say");
                ExitCode::SUCCESS
            }
            Ok(findings) => {
                for finding in &findings {
                    println!("{finding}");
                }
                println!("tidy: {} findings", findings.len());
                ExitCode::FAILURE
            }
            Err(e) => {
                eprintln!("tidy: {e}");
                ExitCode::from(2)
            }
        },
        other => {
            eprintln!("unknown chore {other:?}; use: cargo run --release -p xtask -- tidy");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests;
