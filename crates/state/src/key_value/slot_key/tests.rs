//! Keys are read back unchanged, whether short or long.

use super::*;

#[test]
fn keys_of_all_lengths_come_back_and_are_no_others() {
    let all: Vec<u8> = (1..=40).collect();
    let mut keys: Vec<Vec<u8>> = (0..=40).map(|len| all[..len].to_vec()).collect();
    keys.extend([15, 22, 23, 40].map(|len| [&all[..len - 1], &[0xff]].concat()));
    for (at, key) in keys.iter().enumerate() {
        let kept = SlotKey::new(key);
        assert_eq!(matches!(kept, SlotKey::Inline(_)), key.len() <= 22);
        assert_eq!(kept.to_bytes(), *key);
        for (other, wanted) in keys.iter().enumerate() {
            assert_eq!(*kept == **wanted, at == other, "{wanted:?} in {key:?}");
        }
        assert_eq!(*SlotKey::from(Bytes::copy_from_slice(key)), **key);
    }
}
