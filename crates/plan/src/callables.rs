//! Which callables a part of a plan names.
//!
//! Takes anything that a plan is made of; gives the numbers under `udf`, wherever in it they stand. So an
//! operator that gets a function more needs no line here. Never runs per record: it goes over the plan's
//! JSON form.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

/// The numbers of the callables, in the order of the plan's form.
#[must_use]
pub fn callables(part: &impl Serialize) -> Vec<u32> {
    let mut found = Vec::new();
    // A plan has a JSON form, or `/topology` would have shown that it has none.
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
