use super::*;

#[test]
fn when_a_pass_takes_place_survives_its_row() {
    for next in [
        (None, 7),
        (Some(0), i64::MIN),
        (Some(5), 1_700_000_000_000),
        (Some(-1), 0),
    ]
    .map(|(min_time, not_before)| NextPass {
        min_time,
        not_before,
    }) {
        assert_eq!(NextPass::restored(&next.stored().unwrap()), next);
    }
    assert!(NextPass::AT_ONCE.stored().is_none());
    // An old row, which held `min_time` only.
    let row = Stored {
        value: Datum::Bytes(Bytes::copy_from_slice(&42_i64.to_be_bytes())),
        timestamp: Timestamp(42),
    };
    let next = NextPass::restored(&row);
    assert_eq!((next.min_time, next.not_before), (Some(42), i64::MIN));
}

#[test]
fn a_clock_that_is_set_back_holds_no_pass_up() {
    let next = NextPass {
        min_time: None,
        not_before: 10_000,
    };
    assert!(next.is_early(9_999, 1_000) && next.is_early(9_000, 1_000));
    assert!(!next.is_early(10_000, 1_000));
    assert!(
        !next.is_early(8_999, 1_000),
        "an hour back, or a shorter interval"
    );
    assert!(!NextPass::AT_ONCE.is_early(0, 1_000));
}
