use super::*;

#[test]
fn it_follows_what_barriers_take_within_its_bounds() {
    let mut admission = Admission::new(64 << 20, Duration::from_millis(100));
    assert_eq!(admission.budget(), 8 << 20);
    for _ in 0..20 {
        admission.barrier_took(Duration::from_millis(500));
    }
    assert_eq!(admission.budget(), 1 << 20);
    for _ in 0..40 {
        admission.barrier_took(Duration::from_millis(20));
    }
    assert_eq!(admission.budget(), 64 << 20);
}

#[test]
fn a_tiny_limit_is_kept() {
    let mut admission = Admission::new(1000, Duration::from_millis(100));
    admission.barrier_took(Duration::from_secs(1));
    assert_eq!(admission.budget(), 1000);
}
