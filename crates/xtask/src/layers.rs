//! `layers.toml`: which arrows are allowed.
//!
//! Takes the file, gives its three tables. Reads the little of TOML that the file needs: tables, and
//! `name = ["a", "b"]` on one line. Anything else is an error, not a guess.

use std::collections::BTreeMap;
use std::path::Path;

type Table = BTreeMap<String, Vec<String>>;

/// The tables of the file.
#[derive(Debug, Default)]
pub struct Layers {
    /// Which crates of the workspace a crate may depend on.
    pub may_use: Table,
    /// Foreign crates, and the only folders that may name them.
    pub only_in: Table,
    /// Foreign crates, and the crates that may not depend on them.
    pub never: Table,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Layers, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("can't read {}: {e}", path.display()))?;
    parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn parse(text: &str) -> Result<Layers, String> {
    let mut layers = Layers::default();
    let mut table: Option<&mut Table> = None;
    for (n, line) in text.lines().enumerate().map(|(n, l)| (n + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = Some(match name {
                "may_use" => &mut layers.may_use,
                "only_in" => &mut layers.only_in,
                "never" => &mut layers.never,
                other => return Err(format!("line {n}: unknown table '{other}'")),
            });
            continue;
        }
        let (Some(table), Some((name, list))) = (table.as_mut(), line.split_once('=')) else {
            return Err(format!("line {n}: expected a table or name = [\"...\"]"));
        };
        let list = serde_json::from_str(list.trim()).map_err(|e| format!("line {n}: {e}"))?;
        table.insert(name.trim().to_owned(), list);
    }
    Ok(layers)
}
