//! Resets of whole engines: what they change, and what a reset leaves behind wherever it dies.

use super::*;
use crate::commit::guard::InstanceGuard;
use crate::reset::{Plan, ResetInProgress, preview, reset};
use stoatflow_core::{ClockId, Error, ErrorKind};
use stoatflow_log::{Committed, CutEntry};
use stoatflow_plan::ClockSpec;
use stoatflow_protocol::Lease;
use stoatflow_protocol::reset::{OffsetMove, Request, Target};

/// Counts the keys of topics, and has a clock.
fn counting(topics: &[&str]) -> TestBench {
    let mut plan = compile(json!([
        {"op": "stream", "topics": topics, "key": "string", "value": "string"},
        {"op": "group_by_key", "from": 0, "key": "string", "value": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 2},
        {"op": "to", "from": 3, "topic": "out", "key": "string", "value": "int64"},
    ]));
    plan.clocks.push(ClockSpec {
        id: ClockId(0),
        name: "application".into(),
    });
    let made: Vec<&str> = topics.iter().copied().chain(["out"]).collect();
    TestBench::new(&made, 2, plan)
}

const INPUT: [(&str, &str, i64); 4] = [
    ("a", "x", 10),
    ("b", "x", 20),
    ("a", "x", 30),
    ("a", "x", 40),
];
const CHANGELOGS: [&str; 2] = ["stand-counts-changelog", "stand-clocks-changelog"];

/// Runs an engine until everything is counted and committed.
fn run(bench: &TestBench) {
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
}

/// Counts of `a` and `b` in the state.
fn counts(engine: &mut Inline) -> [Option<i64>; 2] {
    ["a", "b"].map(|key| {
        let backend = &engine.parts().backend;
        let row = backend.get(StoreId(0), key.as_bytes()).unwrap()?;
        // The row's timestamp precedes the count.
        Some(i64::from_be_bytes(row[8..].try_into().unwrap()))
    })
}

fn committed(bench: &TestBench, topic: &str) -> Vec<Option<Committed>> {
    let parts: Vec<_> = (0..2).map(|p| TopicPartition::new(topic, p)).collect();
    bench.broker.committed("stand", &parts, SOON).unwrap()
}

/// Sums of offsets over the partitions: the committed ones and the ends.
fn read_of(bench: &TestBench, topic: &str) -> (i64, i64) {
    let parts: Vec<_> = (0..2).map(|p| TopicPartition::new(topic, p)).collect();
    let ends = bench.broker.ranges(&parts, SOON).unwrap();
    let at = committed(bench, topic).into_iter().flatten();
    (
        at.map(|c| c.offset.0).sum(),
        ends.iter().map(|r| r.stable_end.0).sum(),
    )
}

fn all(target: Target) -> Request {
    Request {
        target,
        topics: Vec::new(),
    }
}

fn whole(bench: &TestBench, target: Target) -> Plan {
    reset(&bench.spec, &all(target), |_| Ok(())).unwrap()
}

fn refused(bench: &TestBench) -> Error {
    Inline::start(&bench.spec).err().expect("it must not start")
}

fn ways(plan: &Plan) -> Vec<(Option<i64>, Option<i64>)> {
    let way = |m: &OffsetMove| (m.from.map(|o| o.0), m.to.map(|o| o.0));
    plan.moves.iter().map(way).collect()
}

#[test]
fn everything_is_counted_anew_exactly_once() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    run(&bench);
    let outputs = bench.read("out").len();
    let ends: i64 = read_of(&bench, "in").1;
    let plan = whole(&bench, Target::Earliest);
    assert!(!plan.begun);
    assert_eq!(plan.moves.len(), 2);
    assert_eq!(ways(&plan).iter().map(|w| w.0.unwrap()).sum::<i64>(), ends);
    assert!(ways(&plan).iter().all(|w| w.1 == Some(0)));
    let names: Vec<&str> = plan.changelogs.iter().map(|c| c.0.as_str()).collect();
    assert_eq!(names, CHANGELOGS);
    assert!(plan.changelogs.iter().all(|c| c.1 > 0), "{plan:?}");
    let place = plan.state.expect("there is local state");
    assert!(!place.exists() && !bench.spec.settings.state_dir.exists());
    assert_eq!(
        bench.broker.topics(&CHANGELOGS, SOON).unwrap(),
        [None, None]
    );
    let mut engine = bench.start();
    assert_eq!(counts(&mut engine), [None, None], "nothing is restored");
    engine.run_and_commit().unwrap();
    assert_eq!(counts(&mut engine), [Some(3), Some(1)]);
    assert_eq!(
        bench.read("out").len(),
        2 * outputs,
        "results are written again"
    );
    // A later start continues as usual.
    drop(engine);
    bench.send("in", &[("b", "x", 50)]);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(counts(&mut engine), [Some(3), Some(2)]);
}

/// Takes this many steps of a reset and dies.
fn die_after(bench: &TestBench, steps: usize) {
    let mut reset = ResetInProgress::open(&bench.spec, &all(Target::Earliest)).unwrap();
    let taken = [
        ResetInProgress::begin,
        ResetInProgress::wipe_state,
        ResetInProgress::delete_changelogs,
    ];
    for step in &taken[..steps] {
        step(&mut reset).unwrap();
    }
}

#[test]
fn wherever_it_dies_nothing_starts_until_it_is_made_again() {
    for steps in 0..=4 {
        let bench = counting(&["in"]);
        bench.send("in", &INPUT);
        run(&bench);
        // Also in the middle of a step: one of two changelogs is deleted.
        die_after(&bench, steps.min(3));
        if steps == 3 {
            bench.broker.delete_topics(&CHANGELOGS[..1], SOON).unwrap();
        }
        if steps == 0 {
            // It has only fenced the running instance: nothing has changed.
            let mut engine = bench.start();
            engine.run_and_commit().unwrap();
            assert_eq!(counts(&mut engine), [Some(3), Some(1)]);
        } else {
            for _ in 0..2 {
                let error = refused(&bench);
                assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
                assert!(error.message().contains("reset of 'stand' was started"));
                assert!(error.next_step().contains("run it again"), "{error}");
            }
        }
        if steps == 4 {
            // It dies again, earlier than before.
            die_after(&bench, 1);
            assert_eq!(refused(&bench).kind(), ErrorKind::Incompatible);
        }
        let plan = whole(&bench, Target::Earliest);
        assert_eq!(plan.begun, steps > 0, "after {steps} steps");
        let mut engine = bench.start();
        assert_eq!(counts(&mut engine), [None, None], "after {steps} steps");
        engine.run_and_commit().unwrap();
        assert_eq!(
            counts(&mut engine),
            [Some(3), Some(1)],
            "after {steps} steps"
        );
        let (read, there) = read_of(&bench, "in");
        assert_eq!(read, there);
    }
}

#[test]
fn the_same_request_decides_the_same_after_a_death() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    run(&bench);
    let back = all(Target::Shift(-1));
    let first = preview(&bench.spec, &back).unwrap();
    let mut begun = ResetInProgress::open(&bench.spec, &back).unwrap();
    begun.begin().unwrap();
    drop(begun);
    let again = preview(&bench.spec, &back).unwrap();
    assert_eq!(again.moves, first.moves, "it does not go back twice");
    assert_eq!((first.begun, again.begun), (false, true));
    let done = whole(&bench, Target::Shift(-1));
    assert_eq!(done.moves, first.moves);
    let at: Vec<_> = committed(&bench, "in")
        .into_iter()
        .map(|c| c.map(|c| (c.offset, c.metadata)))
        .collect();
    let expected: Vec<_> = first
        .moves
        .iter()
        .map(|m| Some((m.to.unwrap(), "st=-1".to_owned())))
        .collect();
    assert_eq!(at, expected);
}

#[test]
fn omitted_topics_keep_position_and_time_and_a_mistyped_topic_changes_nothing() {
    let bench = counting(&["in", "rates"]);
    bench.send("in", &INPUT);
    bench.send("rates", &[("c", "x", 50), ("d", "x", 60)]);
    run(&bench);
    let before = (committed(&bench, "in"), committed(&bench, "rates"));
    let of = |topic: &str| Request {
        target: Target::Earliest,
        topics: vec![topic.to_owned()],
    };
    let mut engine = bench.start();
    let error = reset(&bench.spec, &of("inn"), |_| Ok(())).unwrap_err();
    assert!(error.message().contains("did you mean 'in'?"), "{error}");
    engine.parts().intake.dispatch().barrier();
    engine
        .run_until_idle()
        .expect("a refused reset fences no instance");
    drop(engine);
    assert_eq!(
        before,
        (committed(&bench, "in"), committed(&bench, "rates"))
    );
    let no = |_: &Plan| Err(Error::user("no"));
    let error = reset(&bench.spec, &of("in"), no).unwrap_err();
    assert_eq!(error.message(), "no");
    assert_eq!(
        before,
        (committed(&bench, "in"), committed(&bench, "rates"))
    );
    reset(&bench.spec, &of("in"), |_| Ok(())).unwrap();
    assert_eq!(before.1, committed(&bench, "rates"));
    let anew = committed(&bench, "in").into_iter().map(Option::unwrap);
    assert!(
        anew.map(|c| (c.offset.0, c.metadata))
            .all(|c| c == (0, "st=-1".to_owned()))
    );
}

#[test]
fn looking_changes_nothing() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let before = committed(&bench, "in");
    let plan = preview(&bench.spec, &all(Target::Earliest)).unwrap();
    assert!(ways(&plan).iter().all(|w| w.1 == Some(0)), "{plan:?}");
    assert_eq!(before, committed(&bench, "in"));
    bench.send("in", &[("a", "x", 50)]);
    engine.run_and_commit().expect("it was not fenced");
    assert_eq!(counts(&mut engine), [Some(4), Some(1)]);
}

#[test]
fn a_running_instance_is_fenced_and_one_that_starts_meanwhile_stops_the_reset() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let mut running = ResetInProgress::open(&bench.spec, &all(Target::Earliest)).unwrap();
    bench.send("in", &[("a", "x", 50)]);
    let fenced = engine.run_and_commit().unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced);
    drop(engine);
    running.begin().unwrap();
    assert_eq!(refused(&bench).kind(), ErrorKind::Incompatible);
    running.wipe_state().unwrap();
    running.delete_changelogs().unwrap();
    let error = running.end().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.next_step().contains("run the reset again"), "{error}");
    whole(&bench, Target::Earliest);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(counts(&mut engine), [Some(4), Some(1)]);
}

#[test]
fn a_reset_waits_until_nothing_of_an_unfenced_sender_can_come() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    run(&bench);
    let held = |held: bool| {
        let cut: Vec<CutEntry> = committed(&bench, "in")
            .into_iter()
            .enumerate()
            .map(|(p, c)| CutEntry {
                partition: TopicPartition::new("in", i32::try_from(p).unwrap()),
                offset: c.unwrap().offset,
                metadata: "st=1".into(),
            })
            .collect();
        let mut guard = InstanceGuard::new(Lease::STANDARD, &[]);
        let cut = if held { guard.begin_commit(&cut) } else { &cut };
        let mode = ProducerMode::Plain {
            id: "stand".into(),
            timeout: SOON,
        };
        let mut producer = bench.broker.producer(&mode, SOON).unwrap();
        producer.begin().unwrap();
        producer.offsets("stand", cut, SOON).unwrap();
        producer.commit(SOON).unwrap();
        let before = stoatflow_core::Clock::now(&*bench.clock);
        ResetInProgress::open(&bench.spec, &all(Target::Earliest)).unwrap();
        stoatflow_core::Clock::now(&*bench.clock).0 - before.0
    };
    assert_eq!(held(false), 0);
    assert_eq!(held(true), 2_000);
}

#[test]
fn a_topology_that_reads_its_own_changelog_is_refused() {
    let bench = counting(&["in", CHANGELOGS[0]]);
    bench.send(CHANGELOGS[0], &[("a", "12345678", 1)]);
    let error = reset(&bench.spec, &all(Target::Earliest), |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Topology);
    assert_eq!(bench.read(CHANGELOGS[0]).len(), 1, "it is still there");
}

#[test]
fn only_what_the_engine_put_there_is_removed() {
    let bench = counting(&["in"]);
    bench.send("in", &INPUT);
    run(&bench);
    let home = &bench.spec.settings.state_dir;
    std::fs::write(home.join("mine"), "untouched").unwrap();
    whole(&bench, Target::Latest);
    let left: Vec<_> = std::fs::read_dir(home).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        std::fs::read_to_string(home.join("mine")).unwrap(),
        "untouched"
    );
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(
        counts(&mut engine),
        [None, None],
        "nothing is read before the end"
    );
}
