//! The subset of TOML that tidy's lists need: tables, and `name = ["a", "b"]` on one line.
//!
//! Anything else is an error, not a guess.

use std::collections::BTreeMap;
use std::path::Path;

/// A table: names with lists of texts.
pub type Table = BTreeMap<String, Vec<String>>;

/// The tables of a file.
pub fn read(path: &Path) -> Result<BTreeMap<String, Table>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("can't read {}: {e}", path.display()))?;
    parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn parse(text: &str) -> Result<BTreeMap<String, Table>, String> {
    let mut tables = BTreeMap::<String, Table>::new();
    let mut current: Option<String> = None;
    for (n, line) in text.lines().enumerate().map(|(n, l)| (n + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            tables.entry(name.to_owned()).or_default();
            current = Some(name.to_owned());
            continue;
        }
        let table = current.as_ref().and_then(|name| tables.get_mut(name));
        let (Some(table), Some((name, list))) = (table, line.split_once('=')) else {
            return Err(format!("line {n}: expected a table or name = [\"...\"]"));
        };
        let list = serde_json::from_str(list.trim()).map_err(|e| format!("line {n}: {e}"))?;
        let name = name.trim().trim_matches('"').to_owned();
        if table.insert(name, list).is_some() {
            return Err(format!("line {n}: the name is there already"));
        }
    }
    Ok(tables)
}
