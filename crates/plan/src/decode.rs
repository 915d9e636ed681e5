//! Decodes JSON into the logical plan.
//!
//! Takes the plan's bytes, returns a [`LogicalPlan`]. Refuses other versions, unknown calls and unknown
//! fields: ignoring a field silently would ignore a wish of the user. Never looks at how the calls fit
//! together (that is `check`).

use crate::call::CALLS;
use crate::json::read;
use crate::logical::{LogicalNode, LogicalPlan, VERSION};
use crate::problems::Problems;
use crate::suggestion::suggestion;
use serde_json::{Map, Value};
use stoatflow_core::{Error, Result};

impl LogicalPlan {
    /// Reads a plan.
    ///
    /// # Errors
    /// `Incompatible` for another version of the format, `Topology` for every other problem with its
    /// form, all in one message.
    pub fn decode(json: &[u8]) -> Result<Self> {
        let mut value = read(json)?;
        let Some(object) = value.as_object_mut() else {
            return Err(Error::topology("the plan is not a JSON object")
                .hint("build the plan with the DSL"));
        };
        version(object)?;
        let raw = match object.insert("nodes".into(), Value::Array(vec![])) {
            Some(Value::Array(nodes)) => nodes,
            _ => {
                return Err(Error::topology("the plan has no list 'nodes'")
                    .hint("build the plan with the DSL"));
            }
        };
        let mut problems = Problems::default();
        let mut nodes = Vec::with_capacity(raw.len());
        for (index, node) in raw.into_iter().enumerate() {
            match decode_node(node) {
                Ok(node) => nodes.push(node),
                Err((line, what)) => problems.add(match line {
                    Some(line) => format!("{line}: {what}"),
                    None => format!("node {index}: {what}"),
                }),
            }
        }
        let head = serde_json::from_value::<Self>(value);
        if let Err(e) = &head {
            problems.add(format!("the plan: {e}"));
        }
        problems.finish()?;
        let mut plan = head.expect("an error was reported above");
        plan.nodes = nodes;
        Ok(plan)
    }
}

fn version(object: &Map<String, Value>) -> Result<()> {
    match object.get("version").and_then(Value::as_u64) {
        Some(v) if v == u64::from(VERSION) => Ok(()),
        Some(v) => Err(Error::incompatible(format!(
            "the plan has format version {v}, this engine reads {VERSION}"
        ))
        .hint("install the Python package and its native module from the same release")),
        None => Err(Error::topology("the plan has no number 'version'")
            .hint(format!("write \"version\": {VERSION}"))),
    }
}

type Refused = (Option<String>, String);

fn decode_node(raw: Value) -> Result<LogicalNode, Refused> {
    let line = raw.get("line").and_then(Value::as_str).map(str::to_owned);
    let refuse = |what: String| (line.clone(), what);
    let Value::Object(given) = &raw else {
        return Err(refuse("a node must be a JSON object".into()));
    };
    let op = match given.get("op") {
        Some(Value::String(op)) => op.clone(),
        _ => return Err(refuse("a node needs the name of its call in 'op'".into())),
    };
    if !CALLS.contains(&op.as_str()) {
        return Err(refuse(format!(
            "unknown call '{op}', {}",
            suggestion(&op, CALLS)
        )));
    }
    let given = raw.clone();
    let node: LogicalNode =
        serde_json::from_value(raw).map_err(|e| refuse(format!("{op}(): {e}")))?;
    // serde can't refuse unknown fields of flattened or fieldless variants; but every field that it
    // knows is also written again.
    let known =
        serde_json::to_value(&node).map_err(|e| refuse(format!("{op}() has no JSON form: {e}")))?;
    match unknown_field(&given, &known) {
        Some((field, valid)) => Err(refuse(format!(
            "{op}() has no field '{field}', {}",
            suggestion(field, &valid)
        ))),
        None => Ok(node),
    }
}

/// The first field that was given and not read, with the list of valid ones.
fn unknown_field<'a>(given: &'a Value, known: &'a Value) -> Option<(&'a str, Vec<&'a str>)> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            given
                .iter()
                .find_map(|(field, value)| match known.get(field) {
                    Some(known) => unknown_field(value, known),
                    None => Some((field.as_str(), known.keys().map(String::as_str).collect())),
                })
        }
        (Value::Array(given), Value::Array(known)) => given
            .iter()
            .zip(known)
            .find_map(|(g, k)| unknown_field(g, k)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
