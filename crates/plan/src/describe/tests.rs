use crate::testing::{compiled, stream, udf};
use serde_json::json;

#[test]
fn a_fork_lists_the_longer_branch_by_size_and_name() {
    let plan = compiled(&json!([
        stream(),
        {"op": "to", "from": 0, "topic": "a"},
        {"op": "peek", "from": 0, "function": udf()},
        {"op": "to", "from": 2, "topic": "b"},
    ]));
    let expected = "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-PEEK-0000000002, KSTREAM-SINK-0000000001
    Processor: KSTREAM-PEEK-0000000002 (stores: [])
      --> KSTREAM-SINK-0000000003
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000001 (topic: a)
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000003 (topic: b)
      <-- KSTREAM-PEEK-0000000002

";
    assert_eq!(plan.description, expected);
}

#[test]
fn a_table_without_a_named_store_shows_none() {
    let plan =
        compiled(&json!([{"op": "table", "topic": "t", "key": "string", "value": "string"}]));
    assert!(
        plan.description
            .contains("Processor: KTABLE-SOURCE-0000000002 (stores: [])\n"),
        "{}",
        plan.description
    );
}
