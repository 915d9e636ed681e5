use super::*;
use crate::check::check;
use crate::problems::Problems;
use crate::testing::{logical, udf};
use serde_json::{Value, json};

fn replayed(nodes: &Value) -> Tables {
    let plan = logical(nodes);
    let mut problems = Problems::default();
    let shape = check(&plan, &mut problems);
    problems.finish().expect("a valid plan");
    tables(&plan, &shape)
}

fn table(store: Option<&str>) -> Value {
    json!({"op": "table", "topic": format!("t{}", store.unwrap_or("")), "key": "string", "value": "string", "materialized": {"store": store}})
}

fn filter(from: usize) -> Value {
    json!({"op": "filter", "from": from, "function": udf()})
}

#[test]
fn a_filter_asks_for_old_values_but_does_not_make_its_parent_keep_them() {
    let t = replayed(&json!([table(None), filter(0)]));
    assert_eq!((t.old, t.kept), (vec![false, false], vec![false, false]));
    let t = replayed(&json!([table(Some("s")), filter(0)]));
    assert_eq!((t.old, t.kept), (vec![true, true], vec![true, false]));
}

#[test]
fn a_grouping_makes_everything_above_send_old_values() {
    let map = json!({"op": "map_values", "from": 1, "function": udf()});
    let group =
        json!({"op": "group_by", "from": 2, "function": udf(), "key": "string", "value": "string"});
    let t = replayed(&json!([table(None), filter(0), map, group]));
    assert_eq!(t.old[..3], [true, true, true]);
    assert_eq!(t.kept[..3], [true, false, false]);
}

#[test]
fn a_left_join_asks_its_left_side_and_reads_both() {
    let join = |op: &str| json!({"op": op, "from": 0, "other": 1, "function": udf()});
    let left = replayed(&json!([table(None), table(Some("r")), join("left_join")]));
    assert_eq!(left.old, [true, false, false]);
    assert_eq!(left.kept, [true, true, false]);
    let inner = replayed(&json!([table(None), table(Some("r")), join("join")]));
    assert_eq!(inner.old, [false, false, false]);
    assert_eq!(inner.kept, [true, true, false]);
    let group =
        json!({"op": "group_by", "from": 2, "function": udf(), "key": "string", "value": "string"});
    let grouped = replayed(&json!([table(None), table(Some("r")), join("join"), group]));
    assert_eq!(grouped.old[..3], [true, true, true]);
}
