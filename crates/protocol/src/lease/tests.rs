use super::{Lease, LeaseHolder};
use std::time::Duration;

const LEASE: Lease = Lease {
    trust: Duration::from_millis(100),
    wait: Duration::from_millis(200),
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn nothing_is_sent_before_the_first_proof() {
    assert!(LeaseHolder::new(LEASE).needs_proof(Duration::ZERO));
}

#[test]
fn a_proof_holds_from_the_question_on_and_no_longer_than_the_trust() {
    let mut hold = LeaseHolder::new(LEASE);
    hold.proven(ms(50));
    assert!(!hold.needs_proof(ms(50)));
    assert!(!hold.needs_proof(ms(149)));
    assert!(hold.needs_proof(ms(150)));
}

#[test]
fn an_older_proof_takes_nothing_away() {
    let mut hold = LeaseHolder::new(LEASE);
    hold.proven(ms(80));
    hold.proven(ms(20));
    assert!(!hold.needs_proof(ms(179)));
}

#[test]
fn a_newcomer_waits_if_anybody_may_be_at_work() {
    assert_eq!(LEASE.patience([].into_iter()), Duration::ZERO);
    assert_eq!(LEASE.patience([false, false].into_iter()), Duration::ZERO);
    assert_eq!(LEASE.patience([false, true].into_iter()), ms(200));
}

/// Whenever the older instance asks and the newer one fences it: once the newer one works, the older one
/// must not send.
#[test]
fn the_two_never_work_at_once() {
    for asked in 0..300 {
        for fenced in asked..300 {
            let mut older = LeaseHolder::new(LEASE);
            older.proven(ms(asked));
            let works = ms(fenced) + LEASE.patience([true].into_iter());
            assert!(older.needs_proof(works), "asked {asked}, fenced {fenced}");
        }
    }
}

#[test]
fn the_standard_leaves_time_to_arrive() {
    let Lease { trust, wait } = Lease::STANDARD;
    assert!(wait >= trust + Duration::from_secs(1));
}
