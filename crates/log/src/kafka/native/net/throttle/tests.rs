//! The sum of throttle times.

use super::ThrottleTotals;
use std::time::Duration;

#[test]
fn the_first_time_is_known_and_times_add_up() {
    let totals = ThrottleTotals::default();
    assert!(totals.add(Duration::from_millis(20)));
    assert!(!totals.add(Duration::from_millis(5)));
    assert_eq!(totals.time(), Duration::from_millis(25));
}
