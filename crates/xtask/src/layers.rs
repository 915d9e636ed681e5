//! `layers.toml`: which dependencies are allowed.

use crate::toml::{self, Table};
use std::path::Path;

/// The tables of the file.
#[derive(Debug, Default)]
pub struct Layers {
    /// Which crates of the workspace a crate may depend on.
    pub may_use: Table,
    /// Foreign crates, and the only directories that may name them.
    pub only_in: Table,
    /// Foreign crates, and the crates that may not depend on them.
    pub never: Table,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Layers, String> {
    let mut layers = Layers::default();
    for (name, table) in toml::read(path)? {
        match name.as_str() {
            "may_use" => layers.may_use = table,
            "only_in" => layers.only_in = table,
            "never" => layers.never = table,
            other => return Err(format!("{}: unknown table '{other}'", path.display())),
        }
    }
    Ok(layers)
}
