//! Finds the callables that a part of a plan uses.
//!
//! Takes any part of a plan; returns the numbers under `udf`, wherever they occur in it. So an operator
//! with another function argument needs no line here. Never runs per record: it walks through the plan's
//! JSON form.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

/// The indexes of the callables, in the order of the JSON form.
#[must_use]
pub fn callables(part: &impl Serialize) -> Vec<u32> {
    let mut found = Vec::new();
    // Every part of a plan has a JSON form; otherwise `/topology` would fail too.
    gather(&serde_json::to_value(part).unwrap_or_default(), &mut found);
    found
}

fn gather(part: &Value, found: &mut Vec<u32>) {
    match part {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value.as_u64()) {
                    ("udf", Some(number)) => found.extend(u32::try_from(number)),
                    _ => gather(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        _ => {}
    }
}
