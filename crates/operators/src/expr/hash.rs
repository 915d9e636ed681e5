//! Hashes that depend only on the value: not on the run, the lane or the machine.
//!
//! Takes datums, returns whole numbers. `xxh3` takes anything: texts and bytes by their bytes (as any
//! xxh3 of them), the rest by a form in which equal values are equal. `murmur2` takes what Kafka's
//! producers hash as a key, and returns the number that they derive the partition from.

use super::{canonical, kind};
use stoatflow_core::murmur2::murmur2;
use stoatflow_core::{Datum, Error, Result};

/// Which hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Xxh3,
    Murmur2,
}

pub(super) fn hash(method: Method, of: &Datum) -> Result<Datum> {
    Ok(Datum::Int(match (method, of) {
        (Method::Xxh3, Datum::Str(text)) => xxh3(text.as_bytes()),
        (Method::Xxh3, Datum::Bytes(bytes)) => xxh3(bytes),
        (Method::Xxh3, other) => xxh3(&canonical::form(other)?),
        (Method::Murmur2, Datum::Str(text)) => of_key(text.as_bytes()),
        (Method::Murmur2, Datum::Bytes(bytes)) => of_key(bytes),
        (Method::Murmur2, Datum::Int(i)) => of_key(&i.to_be_bytes()),
        (Method::Murmur2, Datum::Float(x)) => of_key(&x.to_be_bytes()),
        (Method::Murmur2, other) => {
            return Err(Error::user(format!(
                "a producer's key is no {}: murmur2 hashes texts, bytes and numbers",
                kind(other)
            ))
            .hint("use .hash(), or hash .cast(\"str\")"));
        }
    }))
}

fn xxh3(bytes: &[u8]) -> i64 {
    xxhash_rust::xxh3::xxh3_64(bytes).cast_signed()
}

fn of_key(bytes: &[u8]) -> i64 {
    i64::from(murmur2(bytes) & i32::MAX)
}
