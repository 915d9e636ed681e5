//! The files of the tree that are written by hand.
//!
//! Takes the root, returns the text files below it. Skips built, downloaded and recorded files.

use std::fs;
use std::path::Path;

/// A text file.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path from the root, with slashes.
    pub path: String,
    /// Its content.
    pub text: String,
}

const SKIPPED: &[&str] = &[
    "target",
    "node_modules",
    "__pycache__",
    "venv",
    "dist",
    "conformance",
    "lib",
    "site-packages",
];
const EXTENSIONS: &[&str] = &[
    "rs", "py", "pyi", "java", "sh", "toml", "yml", "yaml", "md", "html", "js", "css",
];

/// All text files below the root.
pub fn files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("can't read {}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci" && name != ".github";
            if !hidden && !SKIPPED.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
            continue;
        }
        let extension = name.rsplit_once('.').map_or("", |(_, e)| e);
        let known = EXTENSIONS.contains(&extension) || name == "Makefile" || path == ".ci/run";
        if kind.is_file() && known {
            let text = fs::read(entry.path()).map_err(failed)?;
            files.push(SourceFile {
                path,
                text: String::from_utf8_lossy(&text).into_owned(),
            });
        }
    }
    Ok(())
}
