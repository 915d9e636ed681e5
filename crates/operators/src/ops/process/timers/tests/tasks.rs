//! Event-time timers over several tasks, each with its own stream time.

use super::{Desk, Event, none, of};
use std::collections::BTreeSet;

#[test]
fn a_timer_waits_for_the_time_of_its_own_task() {
    let mut desk = Desk::of_tasks(3);
    for (at, key) in [(10, "a0"), (10, "a1"), (20, "a1"), (11, "b2"), (30, "b0")] {
        desk.register(Event, at, key);
    }
    assert_eq!(
        desk.cut_at(&[100, 5, i64::MIN], 0),
        of(&["e10a0", "e30b0"], &[])
    );
    // A time in the past of one task may be in the future of another.
    desk.register(Event, 15, "c0");
    desk.register(Event, 15, "c1");
    assert_eq!(desk.cut_at(&[100, 12, 5], 0), of(&["e10a1", "e15c0"], &[]));
    assert_eq!(
        desk.cut_at(&[100, 20, 11], 0),
        of(&["e11b2", "e15c1", "e20a1"], &[])
    );
    assert_eq!(desk.cut_at(&[200, 200, 200], 0), none());
}

#[test]
fn timers_that_stay_in_a_task_are_not_read_for_the_others() {
    let mut desk = Desk::of_tasks(2);
    for at in 0..500 {
        desk.register(Event, 2 * at, "a1");
    }
    assert_eq!(desk.cut_at(&[2_000, i64::MIN], 0), none());
    desk.scans();
    for time in 2_001..2_010 {
        assert_eq!(desk.cut_at(&[time, i64::MIN], 0), none());
    }
    assert_eq!(desk.scans(), 0, "no timer can be due");
    desk.register(Event, 2_015, "a0");
    assert_eq!(desk.cut_at(&[2_020, 1], 0), of(&["e0a1", "e2015a0"], &[]));
}

/// Random times of three tasks, in cuts that take three timers at a time: each timer fires once, never
/// before its task has reached its time, and in the end all have fired.
#[test]
fn tasks_at_any_times_lose_no_timer_and_fire_none_early() {
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            i64::try_from(random % below).unwrap()
        };
        let mut desk = Desk::of_tasks(3);
        let (mut times, mut registered, mut fired) = ([0_i64; 3], BTreeSet::new(), Vec::new());
        for _ in 0..30 {
            for _ in 0..next(6) {
                let (task, at) = (next(3), next(60));
                let key = format!("{}{task}", if next(2) == 0 { 'a' } else { 'z' });
                let name = format!("e{at}{key}");
                if registered.insert(name) {
                    desk.register(Event, at, &key);
                }
            }
            let task = usize::try_from(next(3)).unwrap();
            times[task] = (times[task] + next(12)).min(55);
            for name in desk.cut_at(&times, 0).concat() {
                let (at, task) = (
                    name[1..name.len() - 2].parse::<i64>().unwrap(),
                    &name[name.len() - 1..],
                );
                assert!(
                    at <= times[task.parse::<usize>().unwrap()],
                    "seed {seed}: {name} at {times:?}"
                );
                fired.push(name);
            }
        }
        loop {
            let more = desk.cut_at(&[100; 3], 0).concat();
            if more.is_empty() && !desk.timer_queue.waits() {
                break;
            }
            fired.extend(more);
        }
        fired.sort_unstable();
        assert_eq!(
            fired,
            registered.into_iter().collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
}
