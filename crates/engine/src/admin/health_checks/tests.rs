//! What a check shows before, during and after its calls.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(1);

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn check(name: &str) -> HealthCheck {
    HealthCheck {
        name: name.to_owned(),
        interval: Duration::from_secs(10),
        timeout: TIMEOUT,
        is_required: true,
    }
}

fn state(checks: &HealthChecks, now: f64) -> HealthCheckState {
    checks.states(at(now)).remove(0)
}

#[test]
fn a_check_fails_and_passes_again() {
    let checks = HealthChecks::default();
    let number = checks.add(check("db"), at(0.0)).unwrap();
    assert_eq!(state(&checks, 0.5).status, "pending");
    assert_eq!(
        checks.failing(at(0.5)).unwrap(),
        "the health check 'db' has no result yet"
    );
    checks.begin(number, at(1.0));
    checks.end(number, false, Some("ConnectionError: refused"), at(1.2));
    let failing = state(&checks, 3.2);
    assert_eq!((failing.status, failing.age_ms), ("failing", Some(2_000)));
    assert_eq!(
        checks.failing(at(3.2)).unwrap(),
        "the health check 'db' fails: ConnectionError: refused"
    );
    checks.begin(number, at(11.0));
    assert_eq!(state(&checks, 11.5).status, "failing", "until it returns");
    checks.end(number, true, None, at(11.9));
    let passing = state(&checks, 12.0);
    assert!(passing.is_passing());
    assert_eq!((passing.calls, passing.failures), (2, 1));
    assert_eq!(checks.failing(at(12.0)), None);
}

#[test]
fn a_call_that_hangs_has_timed_out() {
    let checks = HealthChecks::default();
    let number = checks.add(check("db"), at(0.0)).unwrap();
    checks.begin(number, at(1.0));
    checks.end(number, true, None, at(1.1));
    checks.begin(number, at(11.0));
    assert!(state(&checks, 12.0).is_passing(), "within its timeout");
    let hung = state(&checks, 15.0);
    assert_eq!(
        (hung.status, hung.running_ms, hung.age_ms),
        ("timed_out", Some(4_000), Some(13_900))
    );
    let text = checks.failing(at(15.0)).unwrap();
    assert!(
        text.contains("timed out: it has not returned for 4.0 s"),
        "{text}"
    );
    checks.end(number, true, None, at(16.0));
    let late = state(&checks, 16.0);
    assert_eq!((late.status, late.failures), ("failing", 1), "it took 5 s");
    assert!(late.detail.unwrap().contains("it took 5.0 s"));
}

#[test]
fn a_check_that_is_not_called_is_overdue() {
    let checks = HealthChecks::default();
    let number = checks.add(check("db"), at(0.0)).unwrap();
    assert_eq!(state(&checks, 15.0).status, "pending");
    assert_eq!(state(&checks, 17.0).status, "overdue");
    checks.begin(number, at(20.0));
    checks.end(number, true, None, at(20.0));
    assert_eq!(state(&checks, 35.0).status, "passing");
    assert_eq!(state(&checks, 37.0).status, "overdue");
    assert!(checks.failing(at(37.0)).unwrap().contains("is overdue"));
}

#[test]
fn a_check_that_is_not_required_is_only_shown() {
    let checks = HealthChecks::default();
    let optional = HealthCheck {
        is_required: false,
        ..check("cache")
    };
    let number = checks.add(optional, at(0.0)).unwrap();
    checks.begin(number, at(1.0));
    checks.end(number, false, Some("cold"), at(1.0));
    assert_eq!(state(&checks, 1.0).status, "failing");
    assert_eq!(checks.failing(at(1.0)), None);
}

#[test]
fn names_and_times_are_checked() {
    let checks = HealthChecks::default();
    checks.add(check("db"), at(0.0)).unwrap();
    let zero = HealthCheck {
        timeout: Duration::ZERO,
        ..check("other")
    };
    for wrong in [check("db"), check(""), check("a b"), zero] {
        let error = checks.add(wrong, at(0.0)).unwrap_err();
        assert_eq!(error.kind().name(), "config");
        assert!(!error.next_step().is_empty());
    }
    assert_eq!(checks.states(at(0.0)).len(), 1);
}
