use super::*;

fn float(x: f64) -> Datum {
    Datum::Float(x)
}

#[test]
fn whole_numbers_as_in_python() {
    let table = [
        ("add", "2", "3", 5),
        ("sub", "2", "3", -1),
        ("mul", "-4", "3", -12),
        // -7 // 2 == -4, -7 % 2 == 1, 7 // -2 == -4, 7 % -2 == -1
        ("floor_div", "7", "2", 3),
        ("floor_div", "-7", "2", -4),
        ("floor_div", "7", "-2", -4),
        ("floor_div", "-7", "-2", 3),
        ("floor_div", "-8", "2", -4),
        ("mod", "7", "2", 1),
        ("mod", "-7", "2", 1),
        ("mod", "7", "-2", -1),
        ("mod", "-7", "-2", -1),
        ("mod", "-8", "2", 0),
        ("mod", "-9223372036854775808", "-1", 0),
        ("add", "true", "1", 2),
    ];
    for (op, a, b, expected) in table {
        assert_eq!(
            binary(op, a, b).unwrap(),
            Datum::Int(expected),
            "{a} {op} {b}"
        );
    }
}

#[test]
fn doubles_as_in_python() {
    let table = [
        ("add", "0.1", "0.2", 0.300_000_000_000_000_04),
        ("mul", "2", "0.5", 1.0),
        ("div", "7", "2", 3.5),
        ("div", "6", "3", 2.0),
        ("div", "-1", "3", -1.0 / 3.0),
        // Correctly rounded also beyond 2^53: 9007199254740993 / 9007199254740995
        (
            "div",
            "9007199254740993",
            "9007199254740995",
            0.999_999_999_999_999_8,
        ),
        (
            "div",
            "9223372036854775807",
            "3",
            3.074_457_345_618_258_4e18,
        ),
        (
            "div",
            "638293047693914613",
            "3699794560238578400",
            0.172_521_213_624_562_66,
        ),
        (
            "div",
            "-4029628301981598780",
            "543804029693342781",
            -7.410_074_368_617_591,
        ),
        (
            "div",
            "1",
            "9223372036854775807",
            1.084_202_172_485_504_4e-19,
        ),
        ("floor_div", "7.5", "2", 3.0),
        ("floor_div", "-7.5", "2", -4.0),
        ("floor_div", "1.0", "0.1", 9.0),
        ("mod", "7.5", "2", 1.5),
        ("mod", "-7.5", "2", 0.5),
        ("mod", "7.5", "-2", -0.5),
        ("mod", "1.0", "0.1", 0.099_999_999_999_999_95),
    ];
    for (op, a, b, expected) in table {
        assert_eq!(binary(op, a, b).unwrap(), float(expected), "{a} {op} {b}");
    }
    // -0.0 counts as zero but keeps its sign: -6.0 % 3 == 0.0, 6.0 % -3 == -0.0
    for (a, b, negative) in [("-6.0", "3", false), ("6.0", "-3", true)] {
        let Datum::Float(rest) = binary("mod", a, b).unwrap() else {
            panic!("a float")
        };
        assert!(
            rest == 0.0 && rest.is_sign_negative() == negative,
            "{a} % {b} is {rest:?}"
        );
    }
}

#[test]
fn an_overflow_is_an_error() {
    for (op, a, b) in [
        ("add", "9223372036854775807", "1"),
        ("sub", "-9223372036854775808", "1"),
        ("mul", "9223372036854775807", "2"),
        ("floor_div", "-9223372036854775808", "-1"),
    ] {
        user_error(binary(op, a, b), &["beyond 64 bits", a]);
    }
    for (op, a, b) in [
        ("div", "1", "0"),
        ("floor_div", "1", "0"),
        ("mod", "1", "0"),
        ("div", "1.0", "0"),
        ("floor_div", "1", "0.0"),
        ("mod", "1.5", "0"),
    ] {
        user_error(binary(op, a, b), &["division by zero"]);
    }
}

#[test]
fn null_spreads_and_types_must_fit() {
    for op in [
        "add",
        "sub",
        "mul",
        "div",
        "floor_div",
        "mod",
        "lt",
        "le",
        "gt",
        "ge",
    ] {
        assert_eq!(binary(op, "null", "1").unwrap(), Datum::Null, "{op}");
        assert_eq!(binary(op, "\"x\"", "null").unwrap(), Datum::Null, "{op}");
    }
    user_error(binary("add", "1", "\"x\""), &["int + str"]);
    user_error(binary("mul", "\"x\"", "2"), &["str * int"]);
    user_error(binary("lt", "1", "\"x\""), &["int and str"]);
    assert_eq!(binary("add", "\"a\"", "\"b\"").unwrap(), text("ab"));
}

#[test]
fn comparisons_as_in_python() {
    let table = [
        ("eq", "1", "1.0", true),
        ("eq", "1", "\"1\"", false),
        ("eq", "null", "null", true),
        ("eq", "null", "0", false),
        ("ne", "null", "0", true),
        ("eq", "true", "1", true),
        ("eq", "\"a\"", "\"a\"", true),
        ("ne", "\"a\"", "\"b\"", true),
        ("lt", "1", "1.5", true),
        ("ge", "2", "2.0", true),
        ("gt", "-1", "-1.5", true),
        ("le", "\"a\"", "\"b\"", true),
        ("lt", "\"Z\"", "\"a\"", true),
        // 2**53 + 1 is not equal to 2.0**53: compared exactly, not as doubles.
        ("eq", "9007199254740993", "9007199254740992.0", false),
        ("gt", "9007199254740993", "9007199254740992.0", true),
        ("lt", "9223372036854775807", "9223372036854775808.0", true),
        ("gt", "-9223372036854775808", "-1e300", true),
    ];
    for (op, a, b, expected) in table {
        assert_eq!(
            binary(op, a, b).unwrap(),
            Datum::Bool(expected),
            "{a} {op} {b}"
        );
    }
}

#[test]
fn not_a_number_is_neither_less_nor_equal() {
    let nan = |op: &str| {
        eval(
            &format!(r#"{{"op":"{op}","args":[{{"op":"value"}},{{"op":"lit","value":1}}]}}"#),
            float(f64::NAN),
        )
        .unwrap()
    };
    for op in ["eq", "lt", "le", "gt", "ge"] {
        assert_eq!(nan(op), Datum::Bool(false), "{op}");
    }
    assert_eq!(nan("ne"), Datum::Bool(true));
}

fn cast(to: &str, of: Datum) -> Result<Datum> {
    eval(
        &format!(r#"{{"op":"cast","args":[{{"op":"value"}}],"to":"{to}"}}"#),
        of,
    )
}

#[test]
fn casts_as_in_python() {
    let table = [
        ("int", text(" 42\n"), Datum::Int(42)),
        ("int", text("-1_000"), Datum::Int(-1000)),
        ("int", text("+7"), Datum::Int(7)),
        ("int", float(-3.9), Datum::Int(-3)),
        ("int", Datum::Bool(true), Datum::Int(1)),
        ("int", raw("12"), Datum::Int(12)),
        (
            "int",
            float(-9_223_372_036_854_775_808.0),
            Datum::Int(i64::MIN),
        ),
        ("float", text("1e3"), float(1000.0)),
        ("float", text(" .5 "), float(0.5)),
        ("float", Datum::Int(2), float(2.0)),
        ("float", text("-inf"), float(f64::NEG_INFINITY)),
        // str(1e16) == '1e+16', str(0.00001) == '1e-05', str(0.1) == '0.1', str(1.0) == '1.0', str(True) ==
        // 'True'
        ("str", float(1e16), text("1e+16")),
        ("str", float(0.000_01), text("1e-05")),
        ("str", float(1.5e-7), text("1.5e-07")),
        ("str", float(0.1), text("0.1")),
        ("str", float(1.0), text("1.0")),
        ("str", float(123_456_789.125), text("123456789.125")),
        ("str", float(1e300), text("1e+300")),
        ("str", float(f64::NAN), text("nan")),
        ("str", Datum::Bool(true), text("True")),
        ("str", Datum::Int(-5), text("-5")),
        ("str", raw(r#"{"a":[1]}"#), text(r#"{"a":[1]}"#)),
        ("str", Datum::Bytes("ab".into()), text("ab")),
        ("bool", Datum::Int(0), Datum::Bool(false)),
        ("bool", float(0.5), Datum::Bool(true)),
        ("bool", text("TRUE"), Datum::Bool(true)),
        ("bool", text("false"), Datum::Bool(false)),
        ("json", text(r#" {"a": 1} "#), raw(r#"{"a": 1}"#)),
        ("json", Datum::Bytes("[1]".into()), raw("[1]")),
        ("json", text("5"), Datum::Int(5)),
    ];
    for (to, of, expected) in table {
        assert_eq!(cast(to, of.clone()).unwrap(), expected, "{of:?} to {to}");
    }
    for to in ["int", "float", "str", "bool", "json"] {
        assert_eq!(cast(to, Datum::Null).unwrap(), Datum::Null);
    }
}

#[test]
fn impossible_conversions_are_errors() {
    let table = [
        ("int", text("4.2"), "4.2"),
        ("int", text(""), "text"),
        ("int", text("1__0"), "1__0"),
        ("int", text("_1"), "_1"),
        ("int", text("9223372036854775808"), "922"),
        ("int", float(f64::NAN), "nan"),
        ("int", float(9_223_372_036_854_775_808.0), "9.2"),
        ("int", raw("[1]"), "list"),
        ("float", text("abc"), "abc"),
        ("bool", text("yes"), "yes"),
        ("bool", raw("{}"), "object"),
    ];
    for (to, of, part) in table {
        user_error(cast(to, of), &[part, to]);
    }
    assert_eq!(
        cast("json", text("{")).unwrap_err().kind(),
        ErrorKind::Serde
    );
}
