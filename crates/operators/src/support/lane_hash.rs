//! From the bytes of a key to a lane.
//!
//! Takes bytes, returns a hash that is the same on every machine and in every run (the simulator repeats
//! traces from a seed), and a lane by jump consistent hashing, so that a change of the number of lanes
//! moves as few keys as possible. Never used for partitions of topics: that is murmur2.

#[cfg(test)]
mod tests;

// The constants of wyhash: odd, with as many ones as zeros in every byte.
const SEED: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;
const LAST: u64 = 0x8ebc_6af0_9c88_c6e3;

/// Hash of a key's bytes; never changes, fast on short keys.
#[must_use]
pub fn key_hash(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let mut state = SEED;
    let (a, b) = if len > 16 {
        let mut rest = bytes;
        while rest.len() > 16 {
            state = fold(eight(rest, 0) ^ MIX, eight(rest, 8) ^ state);
            rest = &rest[16..];
        }
        // The last 16 bytes, overlapping what was read: no byte is left out, none needs padding.
        (eight(bytes, len - 16), eight(bytes, len - 8))
    } else if len >= 8 {
        (eight(bytes, 0), eight(bytes, len - 8))
    } else if len >= 4 {
        (four(bytes, 0), four(bytes, len - 4))
    } else if len > 0 {
        (
            u64::from(bytes[0]) << 16 | u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]),
            0,
        )
    } else {
        (0, 0)
    };
    fold(LAST ^ len as u64, fold(a ^ MIX, b ^ state))
}

/// The lane of a hash: jump consistent hashing (Lamping, Veach 2014).
///
/// # Panics
/// If there are no lanes.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)] // as published
pub fn jump_hash(hash: u64, lanes: u32) -> u32 {
    assert!(lanes > 0, "an engine has at least one lane");
    let mut key = hash;
    let mut lane = 0_u64;
    let mut next = 0_u64;
    while next < u64::from(lanes) {
        lane = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((lane + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as u64;
    }
    lane as u32
}

#[allow(clippy::cast_possible_truncation)] // the halves of a 128-bit product
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("a slice of eight bytes"),
    )
}

fn four(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(
        bytes[at..at + 4].try_into().expect("a slice of four bytes"),
    ))
}
