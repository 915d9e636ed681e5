//! Scheduled sources in an engine that reads no topic, and crashes at any step.

use super::*;
use stoatflow_operators::key_hash;

fn ticking() -> PhysicalPlan {
    compile(json!([
        {"op": "scheduled", "name": "tick", "every_ms": 100, "catch_up": "all"},
        {"op": "map_values", "from": 0, "function": {"expr": {"op": "cast", "args": [{"op": "value"}], "to": "str"}}},
        {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "string"},
        {"op": "group_by_key", "from": 0},
        {"op": "count", "from": 3, "materialized": {"store": "ticks"}},
    ]))
}

fn counted(engine: &mut Inline) -> i64 {
    let row = engine.parts().backend.get(StoreId(0), b"tick").unwrap();
    // The row's timestamp precedes the count.
    row.map_or(0, |row| {
        i64::from_be_bytes(row[8..16].try_into().expect("eight bytes"))
    })
}

#[test]
fn an_idle_engine_without_topics_wakes_up_for_ticks() {
    for lanes in [1, 3] {
        let bench = TestBench::new(&["out"], lanes, ticking());
        let mut engine = bench.start();
        engine.run_and_commit().unwrap();
        assert_eq!(engine.parts().shared.committed().0, 1, "the start is kept");
        engine.run_and_commit().unwrap();
        assert_eq!(engine.parts().shared.committed().0, 1);
        bench.clock.advance(Duration::from_millis(250));
        engine.run_until_idle().unwrap();
        let expected: Vec<_> = [1_000_100, 1_000_200].map(|at| (at.to_string(), at)).into();
        assert_eq!(bench.read("out"), expected, "{lanes} lanes");
        assert_eq!(counted(&mut engine), 2);
    }
}

#[test]
fn wherever_it_dies_each_tick_is_made_once() {
    for seed in 0..8_u64 {
        let mut drawn = 0_u64;
        let mut draw = |below: u64| {
            drawn += 1;
            key_hash(&[seed.to_be_bytes(), drawn.to_be_bytes()].concat()) % below
        };
        let mut bench = TestBench::new(&["out"], 1, ticking());
        let mut engine = bench.start();
        engine.run_and_commit().unwrap();
        for _ in 0..25 {
            bench.clock.advance(Duration::from_millis(draw(400)));
            for _ in 0..draw(40) {
                let turns = engine.turns();
                let turn = draw(turns.len() as u64);
                engine.take(turns[usize::try_from(turn).unwrap()]).unwrap();
            }
            if draw(2) == 0 {
                drop(engine);
                bench.clock.advance(Duration::from_millis(draw(300)));
                let mut settings = (*bench.spec.settings).clone();
                settings.lanes = u32::try_from(1 + draw(3)).unwrap();
                bench.spec.settings = Arc::new(settings);
                engine = bench.start();
            }
        }
        engine.run_until_idle().unwrap();
        engine.run_and_commit().unwrap();
        let now = bench.spec.components.clock.now().0;
        let ticks: Vec<_> = bench.read("out").iter().map(|(_, at)| *at).collect();
        let expected: Vec<_> = (1_000_100..=now).step_by(100).collect();
        assert_eq!(ticks, expected, "seed {seed}");
        let count = i64::try_from(ticks.len()).unwrap();
        assert_eq!(counted(&mut engine), count, "seed {seed}");
    }
}
