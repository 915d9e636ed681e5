//! Whether an index alone answers a query.
//!
//! The entries of a covering index keep the values of its fields and of `storing`, as a JSON array.
//! Takes a query and an index, returns the query over this array if it reads nothing else of a row than
//! these values and the key. Pure.

use super::FindSpec;
use crate::expression::Expression;
use crate::materialized::IndexSpec;
use serde_json::{Value, json};

impl IndexSpec {
    /// The expressions whose values an entry keeps, in their order: none, unless the index stores some.
    pub fn covered(&self) -> impl Iterator<Item = &Expression> {
        let fields = self.fields.iter().filter(|_| !self.storing.is_empty());
        fields.chain(&self.storing).map(|field| &field.expr)
    }
}

/// The query over the values that the entries of an index keep; `None` if it reads more.
#[must_use]
pub fn covered(spec: &FindSpec, index: &IndexSpec) -> Option<FindSpec> {
    // Without `select` the result is whole rows.
    if index.storing.is_empty() || spec.select.is_none() {
        return None;
    }
    let kept = index
        .covered()
        .map(|kept| serde_json::to_value(kept.without_places()));
    let kept: Vec<Value> = kept.collect::<Result<_, _>>().ok()?;
    let over = |expression: &mut Expression| {
        let mut data = serde_json::to_value(expression.without_places()).ok()?;
        replace(&mut data, &kept)?;
        *expression = serde_json::from_value(data).ok()?;
        Some(())
    };
    let mut found = spec.clone();
    found.condition.as_mut().map_or(Some(()), over)?;
    for by in &mut found.order_by {
        over(&mut by.expr)?;
    }
    let select = found.select.iter_mut().flat_map(|select| &mut select.exprs);
    select.map(over).collect::<Option<()>>()?;
    Some(found)
}

/// Replaces the kept expressions by elements of the array; `None` if something else reads the row.
fn replace(data: &mut Value, kept: &[Value]) -> Option<()> {
    if let Some(at) = kept.iter().position(|kept| kept == data) {
        *data = json!({"op": "at", "args": [{"op": "value"}], "index": at});
        return Some(());
    }
    if data["op"] == "value" || data["op"] == "timestamp" {
        return None;
    }
    let Some(Value::Array(args)) = data.get_mut("args") else {
        return Some(());
    };
    args.iter_mut().try_for_each(|arg| replace(arg, kept))
}
