//! Which keys are the same: a store asks only where their hashes are.

use super::*;

#[test]
fn a_key_is_itself_and_no_other() {
    let all: Vec<u8> = (1..=40).collect();
    let mut keys: Vec<Vec<u8>> = (0..=40).map(|len| all[..len].to_vec()).collect();
    keys.extend([15, 22, 23, 40].map(|len| [&all[..len - 1], &[0xff]].concat()));
    for (at, key) in keys.iter().enumerate() {
        let kept = SlotKey::new(key);
        assert_eq!(matches!(kept, SlotKey::Short(_)), key.len() <= 22);
        assert_eq!((&*kept, &*kept.to_bytes()), (&**key, &**key));
        for (other, wanted) in keys.iter().enumerate() {
            assert_eq!(
                Wanted::new(wanted).is(&kept),
                at == other,
                "{wanted:?} in {key:?}"
            );
        }
    }
}
