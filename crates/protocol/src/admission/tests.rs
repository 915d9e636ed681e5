use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn it_begins_small_and_is_large_after_a_few_fast_barriers() {
    let mut admission = Admission::new(16 << 20, ms(100));
    assert_eq!(admission.budget(), 16 << 10);
    for _ in 0..6 {
        admission.barrier_took(ms(20));
    }
    assert_eq!(admission.budget(), 1 << 20);
    for _ in 0..20 {
        admission.barrier_took(ms(20));
    }
    assert_eq!(admission.budget(), 16 << 20);
}

#[test]
fn it_shrinks_by_as_much_as_a_barrier_was_late() {
    let late = |by: u64| {
        let mut admission = Admission::new(64 << 20, ms(100));
        (0..40).for_each(|_| admission.barrier_took(ms(20)));
        admission.barrier_took(ms(by));
        admission.budget() >> 20
    };
    assert_eq!(
        [late(100), late(101), late(200), late(450), late(60_000)],
        [64, 32, 32, 16, 8]
    );
}

/// One lane and half a second per record: epochs take a few seconds, far below any timeout.
#[test]
fn a_slow_function_gets_short_epochs() {
    let mut admission = Admission::new(16 << 20, ms(100));
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let records = u64::try_from(admission.budget() / 200 + 1).unwrap_or(u64::MAX);
        let aligned = ms(500 * records);
        longest = longest.max(aligned);
        admission.barrier_took(aligned);
    }
    assert!(longest < Duration::from_secs(45), "{longest:?}");
    assert_eq!(admission.budget(), MIN_BYTES);
}

/// Hundreds of lanes that block: each has work while the others are busy.
#[test]
fn lanes_that_block_have_a_few_records_each() {
    let mut admission = Admission::new(16 << 20, ms(100)).for_lanes(256);
    (0..20).for_each(|_| admission.barrier_took(Duration::from_secs(5)));
    assert_eq!(admission.budget(), 960 << 10);
    let mut few = Admission::new(16 << 20, ms(100)).for_lanes(16);
    (0..20).for_each(|_| few.barrier_took(Duration::from_secs(5)));
    assert_eq!(few.budget(), MIN_BYTES);
    assert_eq!(Admission::new(1000, ms(100)).for_lanes(256).budget(), 1000);
}

#[test]
fn a_tiny_limit_is_kept() {
    let mut admission = Admission::new(1000, ms(100));
    admission.barrier_took(Duration::from_secs(1));
    assert_eq!(admission.budget(), 1000);
}

/// Lanes get batches, not the room that a single record has freed.
#[test]
fn a_large_budget_that_is_used_up_is_given_again_a_quarter_at_a_time() {
    let mut admission = Admission::new(4 << 20, ms(100));
    (0..40).for_each(|_| admission.barrier_took(ms(20)));
    let mib = |quarters: i64| quarters << 18;
    let seen = [15, 16, 15, 13, 12, 11, 12, 15, 16, 15].map(|at| admission.has_room(mib(at)));
    let open = [
        true, false, false, false, false, true, true, true, false, false,
    ];
    assert_eq!(seen, open);
}

/// A few slow records: none waits for others to finish.
#[test]
fn a_small_budget_is_given_again_at_once() {
    let mut admission = Admission::new(16 << 20, ms(100));
    let seen = [(16 << 10) - 1, 16 << 10, (16 << 10) - 1].map(|at| admission.has_room(at));
    assert_eq!(seen, [true, false, true]);
}

#[test]
fn it_grows_between_barriers_when_lanes_are_quick() {
    let mut admission = Admission::new(16 << 20, ms(100));
    let mut now = ms(1_000);
    // The first measurement has nothing to compare with.
    admission.admit(16 << 10);
    assert!(!admission.measure(0, now));
    for _ in 0..3 {
        let budget = admission.budget();
        admission.admit(budget);
        // Half of it is still in flight.
        assert!(!admission.measure(budget / 2, now));
        now += ms(6);
        assert!(admission.measure(0, now));
        assert_eq!(admission.budget(), budget * 2);
    }
    // Too slow.
    admission.admit(admission.budget());
    now += ms(7);
    assert!(!admission.measure(0, now));
    // A large budget grows only with barriers.
    (0..3).for_each(|_| admission.barrier_took(ms(20)));
    assert_eq!(admission.budget(), 1 << 20);
    admission.admit(1 << 20);
    assert!(!admission.measure(0, now));
}

/// With commits every 30 seconds, a second per record is slow all the same.
#[test]
fn a_slow_function_stays_slow_with_a_long_interval() {
    let mut admission = Admission::new(16 << 20, Duration::from_secs(30));
    let mut now = ms(0);
    for _ in 0..10 {
        admission.admit(16 << 10);
        now += ms(900);
        assert!(!admission.measure(0, now));
    }
    assert_eq!(admission.budget(), 16 << 10);
}
