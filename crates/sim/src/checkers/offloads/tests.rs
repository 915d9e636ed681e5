//! Small cases in which the checker must fail.

use super::*;

const PARKING: OffloadSettings = OffloadSettings {
    patience: Patience::Limited(100, 2),
    retry_errors: false,
    retry_timeouts: true,
    pause_ms: 0,
    substitute: true,
    extra_requests: 0,
    max_parked: 10,
    rekeyed: false,
};

const FOREVER: OffloadSettings = OffloadSettings {
    patience: Patience::Forever,
    ..PARKING
};

/// One value for each fate, in the order of [`Fate`].
const VALUES: [&str; 7] = ["g:1", "g:5", "g:3", "g:8", "g:11", "g:17", "g:26"];
const ANSWERED: End = End::Answered;
const TIMED_OUT: End = End::TimedOut(2);

/// The values that may end like this.
fn may(settings: OffloadSettings, end: End) -> Vec<&'static str> {
    let may = |value: &&str| may_end(settings, true, value, end);
    VALUES.into_iter().filter(may).collect()
}

#[test]
fn parses_every_end() {
    let reported = [
        ("g:1!", Some(ANSWERED)),
        ("g:2!", None),
        ("'g:1' is refused", Some(End::Failed)),
        ("its answer can't be read: not UTF-8", Some(End::Failed)),
        ("no answer within 100 ms, after 2 requests", Some(TIMED_OUT)),
        ("nothing can be asked about 'g:1'", Some(End::Unasked)),
        ("something else", None),
    ];
    for (said, wanted) in reported {
        assert_eq!(parse_end("g:1", said), wanted, "{said}");
    }
}

#[test]
fn a_value_ends_as_it_may() {
    assert_eq!(may(FOREVER, ANSWERED), ["g:1", "g:11", "g:17", "g:26"]);
    assert_eq!(may(FOREVER, End::Failed), ["g:5", "g:3", "g:8"]);
    assert!(may(FOREVER, TIMED_OUT).is_empty());
    assert_eq!(may(PARKING, ANSWERED), ["g:1", "g:5", "g:17", "g:26"]);
    assert_eq!(may(PARKING, TIMED_OUT), VALUES);
    let one_extra_request = OffloadSettings {
        retry_errors: true,
        ..FOREVER
    };
    assert_eq!(may(one_extra_request, End::Failed), ["g:3", "g:8"]);
    let settings = OffloadSettings {
        substitute: false,
        ..FOREVER
    };
    assert_eq!(may(settings, End::Unasked), ["g:26"]);
    assert!(may_end(settings, false, "g:1", End::Unasked));
    assert!(!may_end(settings, false, "g:1", ANSWERED));
}

#[test]
fn requests_are_counted() {
    let sent = |all: &[(&str, &[u32])]| {
        let all = all
            .iter()
            .map(|(of, numbers)| ((*of).to_owned(), numbers.to_vec()));
        all.collect::<BTreeMap<_, _>>()
    };
    let is_right = |end, all| check_requests(PARKING, "g:1", end, &sent(all)).is_ok();
    assert!(is_right(ANSWERED, &[("jobs/1", &[1])]));
    assert!(is_right(ANSWERED, &[("jobs/1", &[2, 1])]));
    assert!(is_right(TIMED_OUT, &[("jobs/1", &[1, 2])]));
    assert!(is_right(End::Unasked, &[]));
    assert!(!is_right(ANSWERED, &[]), "never asked");
    assert!(!is_right(ANSWERED, &[("jobs/1", &[1, 1])]), "sent twice");
    assert!(!is_right(ANSWERED, &[("jobs/1", &[1, 2, 3])]), "too often");
    assert!(
        !is_right(ANSWERED, &[("jobs/1", &[1]), ("jobs/2", &[1])]),
        "parked twice"
    );
    assert!(
        !is_right(End::TimedOut(1), &[("jobs/1", &[1])]),
        "given up too soon"
    );
}
