//! Converts decimals and UUIDs between bytes and text.
//!
//! Takes the bytes of an unscaled number, returns its digits with a decimal point, and vice versa, to
//! the last digit. Never rounds.

use num_bigint::BigInt;

/// The text of a decimal.
pub(super) fn text(bytes: &[u8], scale: usize) -> String {
    let number = BigInt::from_signed_bytes_be(bytes);
    let digits = number.magnitude().to_string();
    let sign = if number.sign() == num_bigint::Sign::Minus {
        "-"
    } else {
        ""
    };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// The bytes of a decimal; `Err` explains what is wrong with the text.
pub(super) fn bytes(text: &str, precision: usize, scale: usize) -> Result<Vec<u8>, String> {
    let odd = || format!("{text:?} is no decimal number");
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| odd())?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => ("-", whole),
        None => ("", whole.strip_prefix('+').unwrap_or(whole)),
    };
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(odd());
    }
    // The number of digits after the point now, and how many must be added.
    let behind = i64::try_from(fraction.len()).unwrap_or(i64::MAX) - i64::from(exponent);
    let more = i64::try_from(scale).unwrap_or(i64::MAX) - behind;
    if !(-1000..=1000).contains(&more) {
        return Err(odd());
    }
    for _ in 0..more {
        digits.push('0');
    }
    for _ in more..0 {
        match digits.pop() {
            Some('0') | None => {}
            Some(_) => {
                return Err(format!(
                    "{text} has more than {scale} digits behind the point"
                ));
            }
        }
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > precision {
        return Err(format!("{text} has more than {precision} digits"));
    }
    let number = format!("{sign}0{significant}")
        .parse::<BigInt>()
        .map_err(|_| odd())?;
    Ok(number.to_signed_bytes_be())
}

/// The same number in exactly this many bytes, sign-extended.
pub(super) fn sized(mut bytes: Vec<u8>, size: usize) -> Result<Vec<u8>, String> {
    if bytes.len() > size {
        return Err(format!("it needs {} bytes, {size} are there", bytes.len()));
    }
    let fill = if bytes.first().is_some_and(|b| *b >= 0x80) {
        0xff
    } else {
        0
    };
    let mut out = vec![fill; size - bytes.len()];
    out.append(&mut bytes);
    Ok(out)
}

/// The text of a UUID.
pub(super) fn uuid(bytes: [u8; 16]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _always_fits = write!(out, "{byte:02x}");
    }
    out
}

/// The bytes of a UUID.
pub(super) fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    if digits.len() != 32 {
        return None;
    }
    let mut out = [0; 16];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] * 16 + pair[1]).ok()?;
    }
    Some(out)
}
