//! How long a session lasts.

use super::Session;
use std::time::Duration;

#[test]
fn a_short_session_is_replaced_and_a_long_one_renewed() {
    let now = Duration::from_secs(10);
    let after = |ms| now + Duration::from_millis(ms);
    assert_eq!(Session::new(0, now), Session::Endless);
    assert_eq!(Session::new(-1, now), Session::Endless);
    assert_eq!(Session::new(1000, now), Session::Replaced(after(900)));
    assert_eq!(Session::new(2000, now), Session::Renewed(after(1800)));
}
