//! Reads JSON that is nested deeper than `serde_json` allows by default, up to a limit of our own.

use serde::Deserialize;
use serde_json::Value;
use stoatflow_core::{Error, Result};

/// Maximum nesting of JSON. The DSL produces four levels for an operation with a line of its own, and
/// refuses more than 100 nested operations.
const MAX_DEPTH: usize = 512;

/// Reads JSON nested deeper than `serde_json` allows by default (128), but not so deep that the stack
/// overflows.
pub(crate) fn read(json: &[u8]) -> Result<Value> {
    if nesting(json) > MAX_DEPTH {
        return Err(Error::topology(format!(
            "an expression is too deep: the plan is nested deeper than {MAX_DEPTH} levels"
        ))
        .hint("compute a part of it in a map_values before, or write a function"));
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| {
        Error::topology("the plan is not valid JSON")
            .caused_by(e)
            .hint("build the plan with the DSL; if it was, report this")
    })
}

/// The maximum nesting of lists and objects.
fn nesting(json: &[u8]) -> usize {
    let (mut deepest, mut depth) = (0_usize, 0_usize);
    let (mut text, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            b'[' | b'{' if !text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
