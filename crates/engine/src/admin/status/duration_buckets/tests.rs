use super::DurationBuckets;

#[test]
fn each_is_in_the_bucket_of_its_bound() {
    let mut durations = DurationBuckets::default();
    for us in [0, 2_500, 2_501, 60_000_000, 60_000_001, u64::MAX] {
        durations.record(us);
    }
    let filled: Vec<_> = durations.buckets().filter(|(_, n)| *n > 0).collect();
    let wanted = [
        (Some(2_500), 2),
        (Some(5_000), 1),
        (Some(60_000_000), 1),
        (None, 2),
    ];
    assert_eq!(filled, wanted);
    assert_eq!(durations.sum_us(), u64::MAX);
}
