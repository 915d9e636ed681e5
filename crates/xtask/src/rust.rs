//! A Rust file as the checks need it: its crate, its module path, its code.

use crate::code_only::code_only;
use crate::source_files::SourceFile;

/// A file below `crates/<name>/src`.
#[derive(Debug)]
pub struct RustFile {
    /// Its path from the root.
    pub path: String,
    /// The crate's directory.
    pub owner: String,
    /// `["lazy", "open"]` for `lazy/open.rs`; the crate's root has none.
    pub module: Vec<String>,
    /// Its text without comments and literals.
    pub code: String,
}

impl RustFile {
    /// The Rust file, if this file of the tree is one.
    pub fn of(file: &SourceFile) -> Option<Self> {
        let inside = file.path.strip_prefix("crates/")?.strip_suffix(".rs")?;
        let (owner, inside) = inside.split_once("/src/")?;
        let mut module: Vec<_> = inside.split('/').map(str::to_owned).collect();
        let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
        if is_root || module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        Some(Self {
            path: file.path.clone(),
            owner: owner.to_owned(),
            module,
            code: code_only(&file.text),
        })
    }

    /// Whether it is a module of tests, or below one.
    pub fn is_test(&self) -> bool {
        self.module
            .iter()
            .any(|part| part == "tests" || part == "testing" || part == "testkit")
    }
}
