//! The key space of the embedded broker.
//!
//! Takes names and numbers, returns keys whose byte order is the order of the log: topic, partition,
//! offset, big-endian. Owns the format number. Never reads or writes.

/// The format of this build. Another number on disk is refused.
pub(super) const FORMAT: u32 = 1;

/// The key of the format number.
pub(super) const FORMAT_KEY: &[u8] = b"\x00format";
/// Prefix of topic names.
pub(super) const TOPIC: u8 = 1;
/// Prefix of transactional ids.
const FENCE: u8 = 2;
/// Prefix of groups.
const GROUP: u8 = 3;
/// Prefix of chunks of records.
pub(super) const CHUNK: u8 = 4;
/// Length of a chunk's key.
pub(super) const CHUNK_LEN: usize = 17;

/// Key of the definition of a topic.
pub(super) fn topic(name: &str) -> Vec<u8> {
    prefixed(TOPIC, name)
}

/// Key of the producer epoch of a transactional id.
pub(super) fn fence(id: &str) -> Vec<u8> {
    prefixed(FENCE, id)
}

/// Key of the committed position of a group. Lengths keep `("a", "bc")` apart from `("ab", "c")`.
pub(super) fn offset(group: &str, topic: &str, partition: i32) -> Vec<u8> {
    let mut key = vec![GROUP];
    for name in [group, topic] {
        key.extend_from_slice(&(name.len() as u64).to_be_bytes());
        key.extend_from_slice(name.as_bytes());
    }
    key.extend_from_slice(&partition.to_be_bytes());
    key
}

/// Prefix of the committed positions of all groups.
pub(super) const OFFSETS: [u8; 1] = [GROUP];

/// The topic in the key of a committed position; `None` if the key is of another kind.
pub(super) fn topic_of_offset(key: &[u8]) -> Option<&[u8]> {
    fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
    }
    let (_group, rest) = name(key.strip_prefix(&OFFSETS)?)?;
    Some(name(rest)?.0)
}

/// Key of the chunk of a partition that starts at `base`.
pub(super) fn chunk(topic: u32, partition: u32, base: u64) -> [u8; CHUNK_LEN] {
    let mut key = [CHUNK; CHUNK_LEN];
    key[1..5].copy_from_slice(&topic.to_be_bytes());
    key[5..9].copy_from_slice(&partition.to_be_bytes());
    key[9..].copy_from_slice(&base.to_be_bytes());
    key
}

/// The base offset in a chunk's key, if the key belongs to this partition.
pub(super) fn base_of(key: &[u8], topic: u32, partition: u32) -> Option<i64> {
    let prefix = chunk(topic, partition, 0);
    if key.len() != CHUNK_LEN || key[..9] != prefix[..9] {
        return None;
    }
    let base = u64::from_be_bytes(key[9..].try_into().ok()?);
    i64::try_from(base).ok()
}

fn prefixed(prefix: u8, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(prefix);
    key.extend_from_slice(name.as_bytes());
    key
}
