//! Values from Kafka's own UtilsTest.

use super::{murmur2, partition_of};

#[test]
fn equals_java() {
    for (text, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        (
            "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        ),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
    }
}

#[test]
fn a_negative_hash_is_masked_not_negated() {
    // toPositive(-973932308) = 1173551340
    assert_eq!(partition_of(b"21", 7), 1_173_551_340 % 7);
    assert_eq!(partition_of(b"abc", 7), 479_470_107 % 7);
}

#[test]
fn one_partition_takes_all() {
    assert_eq!(partition_of(b"", 1), 0);
    assert_eq!(partition_of(b"21", 1), 0);
}
