//! Finds the valid name nearest to a mistyped one.

use super::clients::bare_names;
use super::streams::STREAMS_CONFIG;
use super::table::KEYS;

/// Names less similar than this are unrelated.
const MIN_SIMILARITY: f64 = 0.9;

/// The nearest name of a setting or of a client property, if one is similar enough.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let keys = KEYS.iter().flat_map(|key| [Some(key.name), key.alias]);
    let streams = STREAMS_CONFIG.iter().map(|(name, _)| *name);
    keys.flatten()
        .chain(streams)
        .chain(bare_names())
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(alike, _)| *alike >= MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
