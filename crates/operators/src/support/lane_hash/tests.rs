use super::*;

#[test]
fn the_hash_never_changes() {
    // A change here would move every key to another lane in a rolling comparison of two builds.
    let known: Vec<u64> = [
        "",
        "a",
        "abc",
        "abcd",
        "12345678",
        "0123456789abcdef",
        "0123456789abcdefg",
    ]
    .iter()
    .map(|s| key_hash(s.as_bytes()))
    .collect();
    assert_eq!(known, KNOWN);
}

/// From an independent implementation in Python.
const KNOWN: [u64; 7] = [
    11_912_144_113_143_032_851,
    4_017_399_470_491_301_306,
    12_660_325_642_090_113_599,
    4_864_234_882_192_095_664,
    7_003_857_967_937_838_844,
    16_575_843_906_485_544_403,
    10_827_660_954_924_195_456,
];

#[test]
fn every_byte_and_the_length_count() {
    for len in 1..80_usize {
        let base = vec![7_u8; len];
        assert_ne!(key_hash(&base), key_hash(&base[..len - 1]), "length {len}");
        for at in 0..len {
            let mut other = base.clone();
            other[at] ^= 1;
            assert_ne!(key_hash(&base), key_hash(&other), "length {len}, byte {at}");
        }
    }
}

#[test]
fn lanes_are_balanced() {
    for lanes in [2_u32, 3, 8, 64] {
        let mut seen = vec![0_u32; lanes as usize];
        let keys = 4000 * lanes;
        for i in 0..keys {
            seen[jump_hash(key_hash(format!("customer-{i}").as_bytes()), lanes) as usize] += 1;
        }
        for (lane, n) in seen.iter().enumerate() {
            assert!(
                (3600..4400).contains(n),
                "lane {lane} of {lanes} got {n} of {keys} keys"
            );
        }
    }
}

#[test]
fn one_lane_more_moves_only_what_the_new_lane_takes() {
    for lanes in [1_u32, 4, 7, 64] {
        let keys = 20_000_u32;
        let mut moved = 0;
        for i in 0..keys {
            let hash = key_hash(&i.to_be_bytes());
            let (before, after) = (jump_hash(hash, lanes), jump_hash(hash, lanes + 1));
            if before != after {
                assert_eq!(after, lanes, "a key may move to the new lane only");
                moved += 1;
            }
        }
        let fair = keys / (lanes + 1);
        assert!(
            moved > fair * 8 / 10 && moved < fair * 12 / 10,
            "{moved} of {keys} moved, {fair} would be fair"
        );
    }
}

#[test]
fn lanes_stay_in_range() {
    for hash in [0, 1, u64::MAX, u64::MAX / 2] {
        for lanes in [1, 2, 3, 1000] {
            assert!(jump_hash(hash, lanes) < lanes);
        }
    }
}
