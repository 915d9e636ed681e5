//! Time that advances while no records arrive.

use super::ClosesWhenIdle;
use crate::testing::record;
use crate::{Context, Effects, KeyAssignment, LaneClocks, Operator, RunCoordinator};
use std::sync::Arc;
use stoatflow_core::{ClockId, Epoch, Record, Result, Task, Timestamp};
use stoatflow_plan::Idle;

const TIME: ClockId = ClockId(0);
const SEEN: ClockId = ClockId(1);

/// Moves the clock, and emits the stream time whenever `advance` is called.
struct Inner;

impl Operator for Inner {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.drain(..) {
            context.clocks.observe(TIME, &record);
        }
        Ok(())
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        out.push(record("advanced", "", context.clocks.stream(TIME, Task(0))));
        Ok(())
    }
}

struct Rig {
    operator: ClosesWhenIdle,
    clocks: LaneClocks,
    effects: Effects,
    run: Arc<RunCoordinator>,
}

impl Rig {
    fn new(eager: bool) -> Self {
        let spec = Idle {
            after_ms: 10,
            reach_ms: 25,
            seen: SEEN,
        };
        Self {
            operator: ClosesWhenIdle::new(Box::new(Inner), TIME, spec, None),
            clocks: LaneClocks::new(2, eager),
            effects: Effects::default(),
            run: Arc::default(),
        }
    }

    fn at(
        &mut self,
        wall: i64,
        act: impl FnOnce(&mut ClosesWhenIdle, &mut Vec<Record>, &mut Context<'_>),
    ) -> Vec<i64> {
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
        out.iter().map(|r| r.timestamp.0).collect()
    }

    fn open(&mut self, wall: i64) -> Option<i64> {
        self.at(wall, |op, _, context| op.open(context).unwrap());
        self.operator.next_punctuation()
    }

    fn give(&mut self, wall: i64, time: i64) {
        self.at(wall, |op, out, context| {
            op.process(&mut vec![record("k", "v", time)], out, context)
                .unwrap();
        });
    }

    /// Stream times at which windows were closed, and when the operator wants its next cut.
    fn look(&mut self, wall: i64) -> (Vec<i64>, Option<i64>) {
        let out = self.at(wall, |op, out, context| {
            op.punctuate(out, context).unwrap();
        });
        (out, self.operator.next_punctuation())
    }
}

#[test]
fn time_goes_on_until_everything_is_closed() {
    let mut rig = Rig::new(true);
    assert_eq!(rig.open(1_000), None, "nothing is open");
    assert_eq!(rig.look(1_500), (vec![], None));
    rig.give(2_000, 100);
    assert_eq!(rig.look(2_000), (vec![], Some(2_010)));
    assert_eq!(rig.look(2_009), (vec![], Some(2_010)));
    assert_eq!(rig.look(2_010), (vec![110], Some(2_020)));
    assert_eq!(rig.look(2_010), (vec![], Some(2_020)), "once");
    // The last step ends where everything is closed.
    assert_eq!(rig.look(2_020), (vec![120], Some(2_025)));
    assert_eq!(rig.look(2_099), (vec![125], None));
    assert_eq!(rig.look(9_000), (vec![], None));
    // A record, even an older one, starts the wait again.
    rig.give(9_000, 110);
    assert_eq!(rig.look(9_005), (vec![], Some(9_010)));
    assert_eq!(rig.look(9_500), (vec![150], None));
}

#[test]
fn a_restart_begins_to_wait_anew() {
    let mut rig = Rig::new(true);
    rig.open(1_000);
    rig.give(1_000, 100);
    assert_eq!(rig.open(50_000), Some(50_010));
    assert_eq!(rig.look(50_009), (vec![], Some(50_010)));
    assert_eq!(rig.look(50_010), (vec![110], Some(50_020)));
}

#[test]
fn records_of_two_epochs_in_one_millisecond() {
    let mut rig = Rig::new(true);
    rig.open(1_000);
    rig.give(2_000, 100);
    assert_eq!(rig.look(2_000), (vec![], Some(2_010)));
    rig.give(2_000, 500);
    assert_eq!(rig.look(2_000), (vec![], Some(2_010)), "beyond 100 + 25");
    assert_eq!(rig.look(2_099), (vec![525], None));
}

#[test]
fn restarts_do_not_let_time_go_on_again() {
    let mut rig = Rig::new(true);
    rig.open(1_000);
    rig.give(2_000, 100);
    assert_eq!(rig.look(2_015), (vec![115], Some(2_025)));
    for wall in [3_000, 4_000, 5_000] {
        rig = Rig {
            clocks: rig.clocks,
            ..Rig::new(true)
        };
        assert_eq!(rig.open(wall), Some(wall - 15 + 10), "idle before it");
    }
    assert_eq!(rig.look(5_003), (vec![118], Some(5_010)));
    assert_eq!(rig.look(9_000), (vec![125], None), "100 and 25");
    rig = Rig {
        clocks: rig.clocks,
        ..Rig::new(true)
    };
    assert_eq!(rig.open(20_000), None, "everything is closed");
    assert_eq!(rig.look(30_000), (vec![], None));
}

#[test]
fn with_several_lanes_the_merged_time_moves_and_advance_closes() {
    let mut rig = Rig::new(false);
    rig.open(1_000);
    rig.give(1_000, 100);
    // Another lane had a later record.
    let mut other = LaneClocks::new(2, false);
    other.see(TIME, Task(0), 90);
    other.see(SEEN, Task(0), 1_008);
    other.set_mark(SEEN, Task(0), 1_008);
    rig.clocks.merge(other.times());
    assert_eq!(rig.look(1_010), (vec![], Some(1_018)));
    assert_eq!(rig.look(1_018), (vec![], Some(1_028)), "given by advance");
    assert_eq!(rig.clocks.stream(TIME, Task(0)), 110);
    let out = rig.at(1_018, |op, out, context| op.advance(out, context).unwrap());
    assert_eq!(out, [110]);
}

#[test]
fn where_time_is_the_watermark_it_goes_on_from_the_newest_record() {
    let mut rig = Rig::new(false);
    rig.clocks.by_watermark = true;
    assert_eq!(rig.open(1_000), None);
    rig.give(2_000, 100);
    rig.give(2_000, 90);
    rig.clocks.see_watermark(80);
    rig.clocks.follow(TIME);
    assert_eq!(
        (rig.clocks.stream(TIME, Task(0)), rig.clocks.newest(TIME)),
        (80, 100)
    );
    assert_eq!(rig.look(2_009), (vec![], Some(2_010)));
    assert_eq!(rig.look(2_010), (vec![], Some(2_020)));
    assert_eq!(
        rig.clocks.stream(TIME, Task(0)),
        110,
        "given by advance, with one lane too"
    );
    // The watermark advances while the operator gets no records.
    rig.clocks.see_watermark(121);
    rig.clocks.follow(TIME);
    assert_eq!(rig.look(2_012), (vec![], Some(2_014)));
    assert_eq!(rig.clocks.stream(TIME, Task(0)), 123);
    // A restart: open windows still have to be closed, and time doesn't start over.
    rig = Rig {
        clocks: rig.clocks,
        ..Rig::new(false)
    };
    assert_eq!(rig.open(5_000), Some(4_998), "idle for 12 before it");
    rig.look(5_001);
    assert_eq!(rig.clocks.stream(TIME, Task(0)), 124);
    rig.look(9_000);
    assert_eq!(rig.clocks.stream(TIME, Task(0)), 125);
    assert_eq!(rig.look(9_999), (vec![], None), "everything is closed");
    // An older record starts over: its window may end later than those already closed.
    rig.give(10_000, 105);
    assert_eq!(rig.look(10_010), (vec![], None));
    assert_eq!(rig.clocks.stream(TIME, Task(0)), 130);
}
