//! What the buffer still keeps of removed entries.

use super::Buffer;
use crate::testing::record;

fn put(buffer: &mut Buffer, key: &'static str, time: i64) {
    buffer.put(key.into(), time, record(key, "1", time), 0);
}

#[test]
fn nothing_is_listed_once_all_has_left() {
    let mut buffer = Buffer::default();
    for _ in 0..3 {
        for (time, key) in (0..).zip(["a", "b", "a", "c"]) {
            put(&mut buffer, key, time);
        }
        assert_eq!((buffer.len(), buffer.listed()), (3, 3));
        while buffer.pop().is_some() {}
        assert_eq!((buffer.len(), buffer.listed()), (0, 0));
    }
}

#[test]
fn records_that_wait_on_stay_listed() {
    let mut buffer = Buffer::default();
    put(&mut buffer, "a", 1);
    put(&mut buffer, "b", 2);
    assert!(buffer.pop_due(1).is_some());
    assert_eq!(buffer.unsaved(), ["b"]);
    assert_eq!(buffer.unsaved(), [""; 0]);
}
