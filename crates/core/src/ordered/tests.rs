use super::{OTHER, bytes, end, text_prefix};
use crate::{Bytes, Datum};
use proptest::prelude::*;
use std::cmp::Ordering;

/// Rank of the type, then the exact value.
fn compare(a: &Datum, b: &Datum) -> Ordering {
    fn rank(datum: &Datum) -> u8 {
        match datum {
            Datum::Null => 0,
            Datum::Bool(_) | Datum::Int(_) | Datum::Float(_) => 1,
            Datum::Str(_) => 2,
            _ => 3,
        }
    }
    fn whole(datum: &Datum) -> Result<i64, f64> {
        match datum {
            Datum::Bool(truth) => Ok(i64::from(*truth)),
            Datum::Int(number) => Ok(*number),
            Datum::Float(number) => Err(*number),
            _ => unreachable!(),
        }
    }
    // Exact: compares the integral part of the double first, then its fraction.
    fn with_float(a: i64, b: f64) -> Ordering {
        if b.abs() > 1e30 {
            return 0.0_f64.total_cmp(&b);
        }
        #[allow(clippy::cast_possible_truncation)]
        let whole = b.trunc() as i128;
        let rest = 0.0_f64.partial_cmp(&b.fract()).unwrap();
        i128::from(a).cmp(&whole).then(rest)
    }
    match (a, b) {
        (Datum::Str(a), Datum::Str(b)) => a.as_str().cmp(b.as_str()),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (a, b) if rank(a) == 1 && rank(b) == 1 => match (whole(a), whole(b)) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(a), Err(b)) => with_float(a, b),
            (Err(a), Ok(b)) => with_float(b, a).reverse(),
            (Err(a), Err(b)) => a.partial_cmp(&b).unwrap(),
        },
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn number() -> impl Strategy<Value = Datum> {
    let near = prop_oneof![
        Just(0i64),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 53),
        Just(-(1 << 53)),
        any::<i64>(),
    ];
    prop_oneof![
        (near.clone(), -2000i64..2000).prop_map(|(n, by)| Datum::Int(n.saturating_add(by))),
        #[allow(clippy::cast_precision_loss)]
        (near, -2000i64..2000).prop_map(|(n, by)| Datum::Float(n.saturating_add(by) as f64)),
        any::<f64>().prop_map(|x| Datum::Float(if x.is_nan() { 0.5 } else { x })),
        any::<bool>().prop_map(Datum::Bool),
        Just(Datum::Float(f64::INFINITY)),
        Just(Datum::Float(f64::NEG_INFINITY)),
        Just(Datum::Float(-0.0)),
    ]
}

fn datum() -> impl Strategy<Value = Datum> {
    prop_oneof![
        4 => number(),
        1 => Just(Datum::Null),
        2 => "[\0a\u{1}\u{ff}]{0,4}".prop_map(|s: String| Datum::text(s)),
        1 => proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..4)
            .prop_map(|b| Datum::Bytes(Bytes::from(b))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn bytes_have_the_order_of_the_values(a in datum(), b in datum()) {
        prop_assert_eq!(bytes(&a).cmp(&bytes(&b)), compare(&a, &b), "{:?} {:?}", a, b);
    }

    #[test]
    fn values_behind_each_other_are_found_again(all in proptest::collection::vec(datum(), 1..4)) {
        let mut one: Vec<u8> = all.iter().flat_map(bytes).collect();
        one.extend_from_slice(b"key");
        let mut rest = one.as_slice();
        for datum in &all {
            let at = end(rest).unwrap();
            let expected = bytes(datum);
            prop_assert_eq!(&rest[..at], expected.as_slice());
            rest = &rest[at..];
        }
        prop_assert_eq!(rest, b"key");
    }

    #[test]
    fn texts_with_a_beginning_begin_alike(a in "[\0ab]{0,3}", b in "[\0ab]{0,4}") {
        let begins = bytes(&Datum::text(b.clone())).starts_with(&text_prefix(&a));
        prop_assert_eq!(begins, b.starts_with(&a));
    }
}

#[test]
fn values_without_an_order_sort_last() {
    for datum in [
        Datum::Json(Bytes::from_static(b"{}")),
        Datum::Float(f64::NAN),
        Datum::List([].into()),
    ] {
        assert_eq!(bytes(&datum), [OTHER]);
    }
    assert_eq!(end(&[OTHER, 7]), Some(1));
    assert_eq!(end(&[0]), None);
    assert_eq!(end(&[]), None);
}

#[test]
fn equal_numbers_are_the_same_bytes() {
    assert_eq!(bytes(&Datum::Int(3)), bytes(&Datum::Float(3.0)));
    assert_eq!(bytes(&Datum::Bool(true)), bytes(&Datum::Int(1)));
    assert_eq!(bytes(&Datum::Float(-0.0)), bytes(&Datum::Int(0)));
}
