use super::*;

#[test]
fn a_time_survives_its_row() {
    for time in [
        Time::NONE,
        Time {
            stream: 1_700_000_000_000,
            ..Time::NONE
        },
        Time {
            mark: 42,
            newest: 43,
            stream: i64::MAX,
        },
    ] {
        assert_eq!(decode(&encode(&[time]).value).unwrap(), [time]);
        let several = [Time::NONE, time, time];
        assert_eq!(decode(&encode(&several).value).unwrap(), several);
    }
    assert_eq!(decode(&encode(&[]).value).unwrap(), []);
    // The format from before rows had a newest record; still written if there is none.
    let Datum::Bytes(row) = encode(&[Time::NONE]).value else {
        unreachable!()
    };
    assert_eq!(row.len(), 16);
    assert!(decode(&Datum::Bytes(Bytes::from_static(b"short"))).is_err());
    assert!(decode(&Datum::Int(3)).is_err());
}

#[test]
fn a_plan_without_clocks_has_no_store_and_no_meetings() {
    let plan = stoatflow_plan::compile(
        serde_json::json!({"version": 1, "functions": [], "nodes": [
            {"op": "stream", "topics": ["a"], "key": "string", "value": "string"},
            {"op": "group_by_key", "from": 0, "key": "string", "value": "string"},
            {"op": "count", "from": 1, "materialized": {"store": "counts"}},
        ]})
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    let timing = Timing::new(&plan);
    assert_eq!(timing.store, None);
    assert!(timing.store_spec(&plan).unwrap().is_none());
    assert!(timing.stages.iter().all(|s| *s == StageTiming::default()));
}

#[test]
fn a_store_may_not_take_the_name() {
    let mut plan = stoatflow_plan::compile(
        serde_json::json!({"version": 1, "functions": [], "nodes": [
            {"op": "table", "topic": "a", "key": "string", "value": "string", "materialized": {"store": "clocks"}},
        ]})
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    plan.clocks.push(stoatflow_plan::ClockSpec {
        id: ClockId(0),
        name: "application".into(),
    });
    let timing = Timing::new(&plan);
    assert_eq!(timing.application, Some(ClockId(0)));
    assert!(timing.stages[0].timed && !timing.stages[0].punctuates);
    let refused = timing.store_spec(&plan).unwrap_err().to_string();
    assert!(refused.contains("'clocks'"), "{refused}");
    plan.stores[0].name = "rows".into();
    let spec = timing.store_spec(&plan).unwrap().unwrap();
    assert_eq!((spec.id, spec.name.as_str()), (StoreId(1), "clocks"));
}
