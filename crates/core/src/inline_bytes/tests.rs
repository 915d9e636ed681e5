//! All lengths, written and read back.

use super::*;

#[test]
fn short_bytes_round_trip_and_are_unique() {
    let all: Vec<u8> = (1..=30).collect();
    for len in 0..=30 {
        let short = InlineBytes::of(7, &all[..len]);
        assert_eq!(short.is_some(), len <= MAX_BYTES, "{len} bytes");
        let Some(short) = short else { continue };
        assert_eq!((short.kind(), short.bytes()), (7, &all[..len]));
        assert_eq!(Some(short), InlineBytes::of(7, &all[..len]));
        assert_ne!(Some(short), InlineBytes::of(8, &all[..len]));
        for at in 0..len {
            let mut other = all[..len].to_vec();
            other[at] ^= 0x80;
            assert_ne!(
                Some(short),
                InlineBytes::of(7, &other),
                "byte {at} of {len}"
            );
            assert_ne!(Some(short), InlineBytes::of(7, &all[..at]));
        }
        // Trailing zeros count.
        let longer = [&all[..len], &[0]].concat();
        assert_ne!(Some(short), InlineBytes::of(7, &longer));
    }
}

#[test]
fn a_number_is_its_four_bytes() {
    assert_eq!(
        Some(InlineBytes::number(3, 513)),
        InlineBytes::of(3, &[0, 0, 2, 1])
    );
}
