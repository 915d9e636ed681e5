//! The rules of punctuation times, as the recorded vectors and the sources of Kafka Streams have them.

use super::*;
use crate::ProcessorHost;

#[derive(Debug)]
struct Nothing;

impl Punctuator for Nothing {
    fn punctuate(&self, _time: i64, _host: &mut dyn ProcessorHost) -> Result<()> {
        Ok(())
    }
}

const NODE: NodeId = NodeId(3);

fn asked(
    kind: Punctuation,
    interval_ms: i64,
    start_ms: Option<i64>,
    place: Option<u32>,
) -> ScheduleRequest {
    ScheduleRequest {
        node: NODE,
        place,
        kind,
        interval_ms,
        start_ms,
        runs: true,
        punctuator: Arc::new(Nothing),
    }
}

fn now(wall: i64, punctuated: i64) -> ClockReadings {
    ClockReadings {
        wall,
        punctuated: vec![punctuated],
    }
}

/// How often schedules fire in a pass at each of these times.
fn fired(run: &RunCoordinator, kind: Punctuation, times: &[i64]) -> Vec<usize> {
    let pass = |time: &i64| std::iter::from_fn(|| run.due(NODE, kind, (None, *time))).count();
    times.iter().map(pass).collect()
}

#[test]
fn stream_time_fires_with_the_first_record_then_on_the_grid_once_however_far_time_went() {
    use Punctuation::StreamTime;
    let run = RunCoordinator::new("app");
    run.add(asked(StreamTime, 100, None, Some(0)), now(0, -1))
        .unwrap();
    assert_eq!(
        fired(&run, StreamTime, &[5, 99, 100, 350, 399, 400, 1000]),
        [1, 0, 1, 1, 0, 1, 1]
    );
}

#[test]
fn the_wall_clock_fires_after_an_interval_then_on_a_fixed_grid() {
    use Punctuation::WallClock;
    let run = RunCoordinator::new("app");
    run.add(asked(WallClock, 1000, None, Some(0)), now(0, -1))
        .unwrap();
    assert_eq!(run.next_wall(NODE), Some(1000));
    assert_eq!(
        fired(&run, WallClock, &[500, 1000, 4500, 4999, 5000, 5001]),
        [0, 1, 1, 0, 1, 0]
    );
    assert_eq!(run.next_wall(NODE), Some(6000));
}

#[test]
fn a_start_anchors_the_grid() {
    use Punctuation::{StreamTime, WallClock};
    let run = RunCoordinator::new("app");
    run.add(asked(WallClock, 100, Some(30), None), now(210, -1))
        .unwrap();
    assert_eq!(run.next_wall(NODE), Some(230), "a start in the past");
    let run = RunCoordinator::new("app");
    run.add(asked(WallClock, 100, Some(530), None), now(210, -1))
        .unwrap();
    assert_eq!(run.next_wall(NODE), Some(530), "a start in the future");
    run.add(asked(StreamTime, 100, Some(30), None), now(0, -1))
        .unwrap();
    assert_eq!(fired(&run, StreamTime, &[10, 30, 129, 130]), [0, 1, 0, 1]);
}

#[test]
fn after_a_restart_what_fired_does_not_fire_again() {
    use Punctuation::StreamTime;
    let run = RunCoordinator::new("app");
    run.add(asked(StreamTime, 100, None, Some(0)), now(0, 350))
        .unwrap();
    assert_eq!(fired(&run, StreamTime, &[350, 399, 400]), [0, 0, 1]);
    // A schedule that is made while records flow is new.
    run.add(asked(StreamTime, 100, None, None), now(0, 400))
        .unwrap();
    assert_eq!(fired(&run, StreamTime, &[400]), [1]);
}

#[test]
fn each_task_fires_by_its_own_time_and_goes_on_where_it_was() {
    use Punctuation::StreamTime;
    let run = RunCoordinator::new("app");
    let now = ClockReadings {
        wall: 0,
        punctuated: vec![-1, 350],
    };
    run.add(asked(StreamTime, 100, None, Some(0)), now).unwrap();
    let fires = |task, time| {
        let due = || run.due(NODE, StreamTime, (task, time));
        std::iter::from_fn(due).count()
    };
    let (first, second) = (Some(Task(0)), Some(Task(1)));
    assert_eq!(
        [fires(first, 5), fires(first, 99), fires(second, 399)],
        [1, 0, 0]
    );
    assert_eq!([fires(second, 1_000), fires(first, 100)], [1, 1]);
    // For all tasks together: fires once, as soon as the first one is due.
    assert_eq!(
        [fires(None, 199), fires(None, 250), fires(None, 250)],
        [0, 1, 0]
    );
    assert_eq!([fires(second, 1_099), fires(second, 1_100)], [0, 1]);
}

#[test]
fn the_same_call_of_init_in_every_lane_is_one_schedule_and_cancel_ends_it_for_all() {
    use Punctuation::StreamTime;
    let run = RunCoordinator::new("app");
    let first = run
        .add(asked(StreamTime, 10, None, Some(0)), now(0, -1))
        .unwrap();
    let again = run
        .add(asked(StreamTime, 10, None, Some(0)), now(0, -1))
        .unwrap();
    let other = run
        .add(asked(StreamTime, 10, None, Some(1)), now(0, -1))
        .unwrap();
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_eq!(fired(&run, StreamTime, &[1]), [2]);
    run.cancel(first);
    run.cancel(first);
    assert_eq!(fired(&run, StreamTime, &[10]), [1]);
}

#[test]
fn an_interval_must_be_positive() {
    let run = RunCoordinator::new("app");
    let error = run
        .add(asked(Punctuation::WallClock, 0, None, None), now(0, -1))
        .unwrap_err();
    assert!(error.to_string().contains("at least 1 ms"), "{error}");
}
