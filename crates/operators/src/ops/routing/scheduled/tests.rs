use super::Scheduled;
use crate::support::dropped;
use crate::testing::manual_async_udf::{self, ManualAsyncUdf};
use crate::{Context, Effects, KeyAssignment, LaneClocks, Operator, RunCoordinator};
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Epoch, NodeId, Record, Timestamp};
use stoatflow_plan::{CatchUp, TimetableSpec};

const CLOCK: ClockId = ClockId(0);

fn times(catch_up: CatchUp, max_catch_up: u32) -> TimetableSpec {
    TimetableSpec {
        every_ms: Some(100),
        cron: None,
        tz: "UTC".into(),
        start_ms: None,
        catch_up,
        max_catch_up,
    }
}

struct Rig {
    operator: Scheduled,
    times: TimetableSpec,
    clocks: LaneClocks,
    effects: Effects,
    run: Arc<RunCoordinator>,
}

impl Rig {
    fn new(times: TimetableSpec) -> Self {
        Self {
            operator: Self::made(&times),
            times,
            clocks: LaneClocks::new(1, true),
            effects: Effects::default(),
            run: Arc::default(),
        }
    }

    fn made(times: &TimetableSpec) -> Scheduled {
        Scheduled::new(NodeId(7), "beat", CLOCK, times.clone()).unwrap()
    }

    fn at(
        &mut self,
        wall: i64,
        act: impl FnOnce(&mut Scheduled, &mut Vec<Record>, &mut Context<'_>),
    ) -> Vec<Record> {
        self.clocks.wall = Timestamp(wall);
        let mut out = Vec::new();
        let mut context = Context {
            epoch: Epoch(1),
            stores: &mut [],
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: KeyAssignment::new(0, 1),
            run: &self.run,
        };
        act(&mut self.operator, &mut out, &mut context);
        out
    }

    /// Opens the source; returns when it wants its next cut.
    fn open(&mut self, wall: i64) -> Option<i64> {
        self.at(wall, |op, _, context| op.open(context).unwrap());
        self.operator.next_punctuation()
    }

    /// A new engine that starts from the committed state.
    fn restart(&mut self, wall: i64) -> Option<i64> {
        self.operator = Self::made(&self.times);
        self.open(wall)
    }

    /// Returns the ticks, and when the source wants its next cut.
    fn look(&mut self, wall: i64) -> (Vec<i64>, Option<i64>) {
        let out = self.at(wall, |op, out, context| {
            op.punctuate(out, context).unwrap();
        });
        let ticks = out.iter().map(|r| r.timestamp.0).collect();
        (ticks, self.operator.next_punctuation())
    }
}

#[test]
fn a_tick_is_a_record() {
    let mut rig = Rig::new(times(CatchUp::Latest, 1000));
    rig.open(250);
    let out = rig.at(300, |op, out, context| op.punctuate(out, context).unwrap());
    let [tick] = out.as_slice() else {
        panic!("{out:?}");
    };
    assert_eq!(tick.key, Datum::Str("beat".into()));
    assert_eq!(tick.value, Datum::Int(300));
    assert_eq!(tick.timestamp, Timestamp(300));
    assert_eq!(tick.origin, crate::NO_ORIGIN);
    // Stream time hasn't moved.
    assert_eq!(rig.clocks.stream(CLOCK, stoatflow_core::Task(0)), -1);
}

#[test]
fn the_first_start_misses_nothing_and_asks_for_a_commit() {
    let mut rig = Rig::new(times(CatchUp::All, 1000));
    // At once: the time from which ticks count has to be stored.
    assert_eq!(rig.open(250), Some(250));
    assert_eq!(rig.clocks.mark(CLOCK, stoatflow_core::Task(0)), 250);
    assert_eq!(rig.look(250), (vec![], Some(300)));
    assert_eq!(rig.look(299), (vec![], Some(300)));
    assert_eq!(rig.look(300), (vec![300], Some(400)));
    assert_eq!(rig.look(300), (vec![], Some(400)), "once");
    assert_eq!(rig.clocks.mark(CLOCK, stoatflow_core::Task(0)), 300);
}

#[test]
fn an_engine_that_stood_still_makes_every_tick() {
    for catch_up in [CatchUp::Latest, CatchUp::All, CatchUp::Skip] {
        let mut rig = Rig::new(times(catch_up, 2));
        rig.open(250);
        assert_eq!(rig.look(650), (vec![300, 400, 500, 600], Some(700)));
    }
}

#[test]
fn a_run_that_goes_on_in_its_process_makes_every_tick() {
    for catch_up in [CatchUp::Latest, CatchUp::All, CatchUp::Skip] {
        let mut rig = Rig::new(times(catch_up, 2));
        rig.open(250);
        assert_eq!(rig.look(310).0, [300]);
        rig.run.mark_as_restart();
        assert_eq!(rig.restart(650), Some(400));
        assert_eq!(rig.look(650), (vec![400, 500, 600], Some(700)));
    }
    // Before the first commit no ticks count.
    let mut rig = Rig::new(times(CatchUp::Latest, 2));
    rig.run.mark_as_restart();
    assert_eq!(rig.open(650), Some(650));
    assert_eq!(rig.look(650), (vec![], Some(700)));
}

#[test]
fn very_many_ticks_come_in_pieces() {
    let mut rig = Rig::new(times(CatchUp::Latest, 1000));
    rig.open(50);
    let (ticks, next) = rig.look(1_000_250);
    assert_eq!((ticks.len(), ticks.last()), (10_000, Some(&1_000_000)));
    assert_eq!(next, Some(1_000_100));
    assert!(rig.run.ticks_wait());
    assert_eq!(
        rig.look(1_000_250),
        (vec![1_000_100, 1_000_200], Some(1_000_300))
    );
    assert!(!rig.run.ticks_wait());
}

#[test]
fn a_clock_that_is_put_back_repeats_nothing() {
    let mut rig = Rig::new(times(CatchUp::Latest, 1000));
    rig.open(250);
    assert_eq!(rig.look(510).0, [300, 400, 500]);
    assert_eq!(rig.look(310), (vec![], Some(600)));
    assert_eq!(rig.restart(310), Some(310));
    assert_eq!(rig.look(310), (vec![], Some(600)));
    assert_eq!(rig.look(600).0, [600]);
}

#[test]
fn missed_ticks_follow_the_rule() {
    for (catch_up, most, made, counted) in [
        (CatchUp::Latest, 1000, vec![900], 0),
        (CatchUp::Skip, 1000, vec![], 0),
        (CatchUp::All, 1000, vec![400, 500, 600, 700, 800, 900], 0),
        (CatchUp::All, 6, vec![400, 500, 600, 700, 800, 900], 0),
        (CatchUp::All, 2, vec![800, 900], 4),
    ] {
        let mut rig = Rig::new(times(catch_up, most));
        rig.open(250);
        rig.look(300);
        assert_eq!(rig.restart(950), Some(950));
        // The barrier was late: ticks that fell due since the start are not missed.
        let mut made = made;
        made.push(1000);
        assert_eq!(rig.look(1010), (made, Some(1100)), "{catch_up:?} {most}");
        let more = std::mem::take(&mut rig.effects.dropped_more);
        let expected = (counted > 0).then_some((NodeId(7), dropped::MISSED_TICK, counted));
        assert_eq!(more, Vec::from_iter(expected));
        // Ticks that were left out are done.
        rig.restart(1020);
        assert_eq!(rig.look(1020).0, Vec::<i64>::new());
    }
}

#[test]
fn a_start_that_was_never_committed_begins_again() {
    let mut rig = Rig::new(times(CatchUp::All, 1000));
    rig.open(250);
    rig.clocks = LaneClocks::new(1, true);
    rig.restart(450);
    assert_eq!(rig.look(450), (vec![], Some(500)));
}

#[test]
fn nothing_comes_before_the_start() {
    let mut rig = Rig::new(TimetableSpec {
        start_ms: Some(1_030),
        ..times(CatchUp::All, 1000)
    });
    rig.open(250);
    assert_eq!(rig.look(260), (vec![], Some(1_030)));
    assert_eq!(rig.look(1_140).0, [1_030, 1_130]);
}

#[test]
fn no_tick_is_made_while_calls_have_no_room_and_none_is_lost_by_that() {
    let manual = ManualAsyncUdf::new();
    // Two calls may be in flight; when a barrier is late, more are admitted.
    let mut calls = manual_async_udf::rig(&manual, 1, 0);
    calls.run.set_barrier_late(true);
    let mut rig = Rig::new(times(CatchUp::Skip, 1000));
    rig.run = Arc::clone(&calls.run);
    rig.open(250);
    assert_eq!(rig.look(300).0, [300]);
    let all = ["a", "b", "c"].map(|key| crate::testing::record(key, key, 1));
    calls.push(all.to_vec()).unwrap();
    assert!(rig.run.has_too_many_calls());
    // This alone causes no further cut.
    assert_eq!(rig.look(410), (vec![], Some(910)));
    assert_eq!(rig.look(910), (vec![], Some(1410)));
    assert!(!rig.run.ticks_wait());
    assert_eq!(rig.clocks.mark(CLOCK, stoatflow_core::Task(0)), 300);
    manual.gives("a", "A");
    // One tick first: its effects are unknown.
    assert_eq!(rig.look(1010), (vec![400], Some(500)));
    assert!(rig.run.ticks_wait());
    assert_eq!(rig.look(1010).0, [500, 600]);
    assert_eq!(rig.look(1010), (vec![700, 800, 900, 1000], Some(1100)));
    assert!(!rig.run.ticks_wait());
}

#[test]
fn missed_ticks_wait_for_room_too() {
    let manual = ManualAsyncUdf::new();
    let mut calls = manual_async_udf::rig(&manual, 1, 0);
    calls.run.set_barrier_late(true);
    let mut rig = Rig::new(times(CatchUp::All, 1000));
    rig.open(250);
    rig.look(300);
    rig.run = Arc::clone(&calls.run);
    let all = ["a", "b", "c"].map(|key| crate::testing::record(key, key, 1));
    calls.push(all.to_vec()).unwrap();
    rig.restart(550);
    assert_eq!(rig.look(550).0, Vec::<i64>::new());
    manual.gives("a", "A");
    assert_eq!(rig.look(560).0, [400, 500]);
}
