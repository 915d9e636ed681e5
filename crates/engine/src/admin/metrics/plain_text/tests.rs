use super::{is_wanted, of};
use axum::http::{HeaderMap, HeaderValue, header};

#[test]
fn families_are_named_as_their_samples() {
    let given = "# HELP a_build What runs\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
        # HELP a_in Records in\n# TYPE a_in counter\na_in_total 3\n\
        # HELP a_ready Ready\n# TYPE a_ready gauge\na_ready 1\n# EOF\n";
    let wanted = "# HELP a_build_info What runs\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
        # HELP a_in_total Records in\n# TYPE a_in_total counter\na_in_total 3\n\
        # HELP a_ready Ready\n# TYPE a_ready gauge\na_ready 1\n";
    assert_eq!(of(given), wanted);
}

#[test]
fn plain_text_is_sent_only_on_request() {
    let asks = |accept: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        is_wanted(&headers)
    };
    assert!(asks(&["text/plain;version=0.0.4"]));
    assert!(asks(&["text/plain, */*;q=0.1"]));
    assert!(!asks(&[]));
    assert!(!asks(&["*/*"]));
    assert!(!asks(&["text/html,application/xhtml+xml,*/*;q=0.8"]));
    // The header that Prometheus sends.
    assert!(!asks(&[
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    ]));
    assert!(!asks(&["text/plain", "application/openmetrics-text"]));
}
