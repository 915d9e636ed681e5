//! A canonical form of values: equal exactly if the values are.
//!
//! Takes datums, returns bytes: 1, 1.0 and true have one form, and the order of an object's members
//! doesn't matter. So values can be looked up and hashed. Never read back.

use super::json;
use stoatflow_core::{Datum, Error, Result};

const MAX_DEPTH: usize = 128;

/// The canonical form.
pub(super) fn form(datum: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(16);
    write(datum, 0, &mut out)?;
    Ok(out)
}

fn sized(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[allow(clippy::cast_possible_truncation)] // checked to be whole and in range
fn write(datum: &Datum, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::user(format!(
            "values nested deeper than {MAX_DEPTH} can't be compared"
        ))
        .hint("compare a member of them"));
    }
    match datum {
        Datum::Null => out.push(b'z'),
        Datum::Bool(b) => int(i64::from(*b), out),
        Datum::Int(i) => int(*i, out),
        Datum::Float(x) => {
            let within = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
            if x.trunc() == *x && within.contains(x) {
                int(*x as i64, out);
            } else {
                out.push(b'f');
                out.extend_from_slice(&x.to_bits().to_be_bytes());
            }
        }
        Datum::Str(text) => sized(b's', text.as_bytes(), out),
        Datum::Bytes(bytes) => sized(b'b', bytes, out),
        Datum::Json(bytes) if json::kind(bytes) == "object" => {
            let members: std::collections::BTreeMap<_, _> =
                json::members(bytes)?.into_iter().collect();
            out.push(b'o');
            out.extend_from_slice(&(members.len() as u64).to_be_bytes());
            for (name, value) in &members {
                sized(b's', name.as_bytes(), out);
                write(value, depth + 1, out)?;
            }
        }
        other => match json::elements(other)? {
            Some(elements) => {
                out.push(b'l');
                out.extend_from_slice(&(elements.len() as u64).to_be_bytes());
                for element in &elements {
                    write(element, depth + 1, out)?;
                }
            }
            // A whole number beyond 64 bits.
            None => match other {
                Datum::Json(bytes) => sized(b'n', bytes, out),
                other => {
                    return Err(Error::user(format!(
                        "{} can't be compared with anything",
                        super::kind(other)
                    ))
                    .hint("take a part of it"));
                }
            },
        },
    }
    Ok(())
}

fn int(i: i64, out: &mut Vec<u8>) {
    out.push(b'i');
    out.extend_from_slice(&i.to_be_bytes());
}
