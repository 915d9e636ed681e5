use super::*;
use crate::testing::record;

const CLOCK: ClockId = ClockId(0);

fn at(number: u64, task: u16, time: i64) -> Record {
    let mut record = record("k", "v", time);
    record.origin.order = Order::new(number, Task(task));
    record
}

fn steps(lanes: &[&[Record]]) -> Arc<Steps> {
    let mut all = Steps::new(1);
    for lane in lanes {
        let mut own = Steps::new(1);
        for record in *lane {
            let group = own.group(0);
            group.add(record, true);
        }
        all.append(own);
    }
    Arc::new(all.settled())
}

fn several() -> LaneClocks {
    LaneClocks::new(1, false).ruled(&[ClockRule {
        group: Some(0),
        tasks: 2,
        by_key: false,
        dispatched: false,
        ..ClockRule::default()
    }])
}

#[test]
fn a_record_has_the_time_of_those_before_it_in_whichever_lane() {
    let own = [at(1, 0, 10), at(4, 0, 15), at(6, 0, 70)];
    let others = [at(2, 0, 20), at(3, 0, 12), at(5, 0, 60)];
    let mut clocks = several();
    clocks.begin_tick(Some(steps(&[&own, &others])));
    assert_eq!(clocks.before(CLOCK, &own[0]), -1);
    assert_eq!(clocks.observe(CLOCK, &own[0]), 10);
    // Not 60, which comes later.
    assert_eq!(clocks.before(CLOCK, &own[1]), 20);
    assert_eq!(clocks.observe(CLOCK, &own[1]), 20);
    assert_eq!(clocks.before(CLOCK, &own[2]), 60);
    assert_eq!(clocks.observe(CLOCK, &own[2]), 70);
}

#[test]
fn nothing_in_one_task_makes_a_record_of_another_late() {
    let own = [at(2, 1, 10)];
    let others = [at(1, 0, 600_000)];
    let mut clocks = several();
    clocks.begin_tick(Some(steps(&[&own, &others])));
    assert_eq!(clocks.observe(CLOCK, &own[0]), 10);
    assert_eq!(clocks.stream(CLOCK, Task(0)), -1, "not looked at yet");
    clocks.end_tick();
    assert_eq!(clocks.stream(CLOCK, Task(0)), 600_000);
    assert_eq!(clocks.stream(CLOCK, Task(1)), 10);
    assert_eq!(clocks.highest(CLOCK), 600_000);
}

#[test]
fn a_time_is_due_at_the_first_record_that_reaches_it() {
    let lanes = [[at(1, 0, 10), at(4, 0, 40)], [at(2, 0, 30), at(3, 0, 35)]];
    let mut clocks = several();
    clocks.begin_tick(Some(steps(&[&lanes[0], &lanes[1]])));
    let number = |time| Some(clocks.first_at(CLOCK, Task(0), time)?.order.number());
    assert_eq!(number(10), Some(1));
    assert_eq!(number(11), Some(2));
    assert_eq!(number(31), Some(3));
    assert_eq!(number(36), Some(4));
    assert_eq!(number(41), None);
}

#[test]
fn a_late_step_does_not_hide_earlier_ones() {
    // A lane sends number 5 first: it waited, or took another way to the same stage.
    let own = [at(5, 0, 50), at(3, 0, 30)];
    let steps = steps(&[&own]);
    let numbers: Vec<u64> = (steps.of(0, Task(0)).iter())
        .map(|step| step.order.number())
        .collect();
    assert_eq!(numbers, [3, 5]);
}

#[test]
fn one_watermark_is_the_time_of_all_tasks() {
    let mut clocks = several();
    clocks.by_watermark = true;
    clocks.see_watermark(40);
    clocks.follow(CLOCK);
    assert_eq!(clocks.observe(CLOCK, &at(1, 1, 90)), 40);
    assert_eq!(clocks.stream(CLOCK, Task(7)), 40);
    assert_eq!(clocks.newest(CLOCK), 90);
}

#[test]
fn views_merge_by_task() {
    let mut one = several();
    one.see(CLOCK, Task(0), 5);
    let mut two = several();
    two.see(CLOCK, Task(1), 7);
    two.set_mark(CLOCK, Task(0), 3);
    one.merge(two.times());
    assert_eq!(one.stream(CLOCK, Task(0)), 5);
    assert_eq!(one.mark(CLOCK, Task(0)), 3);
    assert_eq!(one.stream(CLOCK, Task(1)), 7);
}

#[test]
fn a_row_that_is_read_again_is_in_the_task_of_its_key() {
    let clocks = several();
    let task = clocks.task_of(CLOCK, b"some key");
    assert_eq!(i32::from(task.0), partition_of(b"some key", 2));
}
