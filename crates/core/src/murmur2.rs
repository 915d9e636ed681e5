//! Kafka's hash of a key (murmur2), and the partition it selects.
//!
//! Selects the partition that Kafka's own producers would choose, so that our topics are co-partitioned
//! with theirs. Null keys are partitioned elsewhere.

#[cfg(test)]
mod tests;

/// The hash of `org.apache.kafka.common.utils.Utils.murmur2`, bit for bit (the sign too).
#[must_use]
pub fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Java takes the length as an `int`; it has no longer arrays.
    #[allow(clippy::cast_possible_truncation)]
    let mut h: u32 = 0x9747_b28c ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        k = k.wrapping_mul(M);
        k ^= k >> R;
        k = k.wrapping_mul(M);
        h = h.wrapping_mul(M);
        h ^= k;
    }
    let tail = words.remainder();
    if tail.len() > 2 {
        h ^= u32::from(tail[2]) << 16;
    }
    if tail.len() > 1 {
        h ^= u32::from(tail[1]) << 8;
    }
    if let Some(first) = tail.first() {
        h ^= u32::from(*first);
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^= h >> 15;
    h.cast_signed()
}

/// The partition of a key among `partitions`, as Java's default partitioner chooses it.
#[must_use]
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX) % partitions.max(1)
}
