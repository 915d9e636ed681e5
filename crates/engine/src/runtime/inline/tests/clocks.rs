//! Stream time across lanes and restarts.

use super::*;
use stoatflow_core::ClockId;
use stoatflow_plan::ClockSpec;

/// A copying plan with the application's clock, as plans with processors have it.
fn timed(lanes: u32) -> TestBench {
    let mut plan = compile(copy("in"));
    plan.clocks.push(ClockSpec {
        id: ClockId(0),
        name: "application".into(),
    });
    TestBench::new(&["in", "out"], lanes, plan)
}

fn kept(engine: &mut Inline) -> Option<i64> {
    let row = engine.parts().backend.get(StoreId(0), b"application");
    let times = crate::lane::stream_time::stream_times(&row.unwrap()?).unwrap();
    times.into_iter().max()
}

#[test]
fn times_of_all_lanes_are_committed_and_restored() {
    for lanes in [1, 3] {
        let mut bench = timed(lanes);
        let mut engine = bench.start();
        assert_eq!(kept(&mut engine), None);
        bench.send(
            "in",
            &[
                ("a", "1", 10),
                ("b", "2", 70),
                ("c", "3", 30),
                ("d", "4", 20),
            ],
        );
        engine.run_until_idle().unwrap();
        assert_eq!(kept(&mut engine), None, "nothing is kept before the commit");
        engine.run_and_commit().unwrap();
        assert_eq!(kept(&mut engine), Some(70), "{lanes} lanes");
        // After a crash, with another number of lanes and an empty disk: the changelog has the time.
        drop(engine);
        let mut settings = (*bench.spec.settings).clone();
        settings.lanes = 4 - lanes;
        settings.state_dir = settings.state_dir.join("other");
        bench.spec.settings = Arc::new(settings);
        let mut engine = bench.start();
        assert_eq!(kept(&mut engine), Some(70));
        // Time never goes back.
        bench.send("in", &[("a", "5", 40)]);
        engine.run_and_commit().unwrap();
        assert_eq!(kept(&mut engine), Some(70));
        bench.send("in", &[("a", "6", 80)]);
        engine.run_and_commit().unwrap();
        assert_eq!(kept(&mut engine), Some(80));
        assert_eq!(bench.read("out").len(), 6);
    }
}

#[test]
fn a_lane_waits_at_the_barrier_and_holds_what_comes_after_it() {
    let bench = timed(2);
    let mut engine = bench.start();
    // Two keys, one for each lane.
    let keys: Vec<&'static str> = vec!["a", "b", "c", "d", "e", "f", "g", "h"];
    let lane_of = |key: &str| {
        stoatflow_operators::jump_hash(stoatflow_operators::key_hash(key.as_bytes()), 2)
    };
    let of = |lane| *keys.iter().find(|k| lane_of(k) == lane).unwrap();
    bench.send("in", &[(of(0), "1", 10), (of(1), "2", 90)]);
    while engine.take(Turn::Intake).unwrap() {}
    engine.parts().intake.dispatch().barrier();
    bench.send("in", &[(of(1), "3", 200)]);
    while engine.take(Turn::Intake).unwrap() {}
    // Lane 1 reaches the barrier and has the next epoch in its queue, lane 0 has done nothing yet.
    for _ in 0..10 {
        engine.take(Turn::Lane(1)).unwrap();
        engine.take(Turn::Commit).unwrap();
    }
    assert_eq!(bench.read("out"), []);
    assert_eq!(kept(&mut engine), None);
    // Once lane 0 has arrived, epoch 1 is committed, with its own time and not that of the next epoch.
    for _ in 0..10 {
        engine.take(Turn::Lane(0)).unwrap();
        engine.take(Turn::Lane(1)).unwrap();
    }
    while engine.take(Turn::Commit).unwrap() {}
    assert_eq!(kept(&mut engine), Some(90));
    engine.run_and_commit().unwrap();
    assert_eq!(kept(&mut engine), Some(200));
}

#[test]
fn a_punctuation_that_is_due_is_an_epoch_without_records() {
    let bench = timed(1);
    let mut engine = bench.start();
    let shared = Arc::clone(&engine.parts().shared);
    engine.run_and_commit().unwrap();
    assert_eq!(shared.committed().0, 1, "where reading began is committed");
    engine.run_and_commit().unwrap();
    assert_eq!(shared.committed().0, 1, "nothing to do is no epoch");
    shared
        .next_punctuation
        .store(1_000_500, std::sync::atomic::Ordering::Relaxed);
    engine.run_and_commit().unwrap();
    assert_eq!(shared.committed().0, 1, "not due yet");
    bench.clock.advance(Duration::from_millis(500));
    engine.run_until_idle().unwrap();
    assert_eq!(shared.committed().0, 2);
}
