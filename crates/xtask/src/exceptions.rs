//! `tidy.toml`: exceptions to the rules, each with its reason.

use crate::toml::{self, Table};
use std::path::Path;

/// The file's name.
pub const FILE_NAME: &str = "tidy.toml";

/// The tables of the file.
#[derive(Debug, Default)]
pub struct Exceptions {
    /// Names that several public types have, with the reason.
    pub same_name: Table,
    /// Import cycles under a name of their own: the files of each.
    pub circles: Table,
    /// Functions that are longer than the limit, as `path function`, with the reason.
    pub long_functions: Table,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Exceptions, String> {
    let mut exceptions = Exceptions::default();
    for (name, table) in toml::read(path)? {
        match name.as_str() {
            "same_name" => exceptions.same_name = table,
            "circles" => exceptions.circles = table,
            "long_functions" => exceptions.long_functions = table,
            other => return Err(format!("{}: unknown table '{other}'", path.display())),
        }
    }
    Ok(exceptions)
}
