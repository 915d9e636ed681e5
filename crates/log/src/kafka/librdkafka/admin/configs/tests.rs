use super::*;

#[test]
fn only_compacted_topics_have_tombstones() {
    let day = Some(DEFAULT_TOMBSTONE_RETENTION);
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(retention_of(Some("delete"), Some("5")), None);
    assert_eq!(retention_of(Some("compact"), Some("5")), ms(5));
    assert_eq!(retention_of(Some("compact,delete"), Some("0")), ms(0));
    assert_eq!(retention_of(Some("delete, compact"), None), day);
    assert_eq!(retention_of(None, None), day, "unknown counts as compacted");
}
