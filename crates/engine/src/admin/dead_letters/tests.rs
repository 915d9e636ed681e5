use super::excerpt::Excerpt;
use super::letter::Letter;
use super::{DeadLetterLog, MAX_LETTERS};
use bytes::Bytes;
use serde_json::{Value, json};
use stoatflow_core::{Epoch, Header, Timestamp};
use stoatflow_log::ProducerRecord;

pub(in crate::admin) fn header(name: &str, value: &'static [u8]) -> Header {
    Header {
        name: name.into(),
        value: Some(Bytes::from_static(value)),
    }
}

/// A dead letter of the record at this offset.
pub(in crate::admin) fn record(offset: u64, value: &[u8]) -> ProducerRecord {
    let error_header = |name: &str, value: String| Header {
        name: format!("__stoatflow.errors.{name}").into(),
        value: Some(value.into()),
    };
    let headers = vec![
        header("own", b"\x01"),
        error_header("application", "shop".to_owned()),
        header("__streams.errors.topic", b"orders"),
        error_header("kind", "processing".to_owned()),
        error_header("node", "price".to_owned()),
        error_header("exception", "ValueError".to_owned()),
        error_header("message", "<b>no price</b>".to_owned()),
        error_header("topic", "orders".to_owned()),
        error_header("partition", "3".to_owned()),
        error_header("offset", offset.to_string()),
        error_header("attempts", "1".to_owned()),
    ];
    ProducerRecord {
        topic: "bad".into(),
        partition: None,
        key: Some(Bytes::from_static(b"ann")),
        value: Some(Bytes::copy_from_slice(value)),
        timestamp: Timestamp(1_000),
        headers: Some(headers.into()),
    }
}

fn offsets(letters: &[Value]) -> Vec<i64> {
    let offsets = letters.iter().map(|l| l["offset"].as_i64());
    offsets.map(Option::unwrap).collect()
}

#[test]
fn a_letter_says_what_failed_where_and_with_which_record() {
    let mut letter = Letter::of(&record(42, b"{\"cents\": 12345678901234567890}"));
    letter.at_ms = 5_000;
    let payload = |format: &str, content: &str, bytes: u64| json!({ "format": format, "content": content, "bytes": bytes, "cut": false });
    assert_eq!(
        letter.shown(7),
        json!({
            "id": 7, "at_ms": 5_000, "to": "bad", "topic": "orders", "partition": 3, "offset": 42,
            "timestamp_ms": 1_000, "kind": "processing", "node": "price", "function": null,
            "exception": "ValueError", "message": "<b>no price</b>", "traceback": null, "attempts": 1, "gone": false,
            "key": payload("text", "ann", 3),
            "value": payload("json", "{\"cents\": 12345678901234567890}", 31),
            "headers": [{"name": "own", "value": payload("base64", "AQ==", 1)}],
            "headers_left_out": 0,
        })
    );
}

#[test]
fn a_record_that_was_a_letter_before_keeps_its_headers() {
    let first = record(1, b"x");
    let mut again = record(2, b"x");
    let both = [
        first.headers.unwrap().to_vec(),
        again.headers.unwrap().to_vec(),
    ];
    again.headers = Some(both.concat().into());
    let shown = Letter::of(&again).shown(1);
    assert_eq!(shown["offset"], 2);
    let names = shown["headers"].as_array().unwrap();
    assert_eq!(names.len(), 12, "{shown}");
    assert_eq!(names[1]["name"], "__stoatflow.errors.application");
}

#[test]
fn large_parts_are_cut_and_say_so() {
    let mut large = record(1, &[b'x'; 10_000]);
    let many: Vec<Header> = (0..40).map(|_| header("h", b"1")).collect();
    let error_headers = large.headers.unwrap();
    large.headers = Some([many, error_headers.to_vec()].concat().into());
    let shown = Letter::of(&large).shown(1);
    let value = &shown["value"];
    assert_eq!(value["content"].as_str().unwrap().len(), 4_096);
    assert_eq!(
        (&value["bytes"], &value["cut"]),
        (&json!(10_000), &json!(true))
    );
    assert_eq!(shown["headers"].as_array().unwrap().len(), 32);
    assert_eq!(shown["headers_left_out"], 9);
}

#[test]
fn a_long_traceback_is_cut_between_characters() {
    let mut long = record(1, b"");
    let mut headers = long.headers.unwrap().to_vec();
    headers.push(Header {
        name: "__stoatflow.errors.traceback".into(),
        value: Some("\u{1f980}".repeat(5_000).into()),
    });
    long.headers = Some(headers.into());
    let shown = Letter::of(&long).shown(1);
    let text = shown["traceback"].as_str().unwrap();
    assert!(text.chars().all(|sign| sign == '\u{1f980}'));
    assert_eq!(text.chars().count(), 4_000);
}

#[test]
fn payloads_are_shown_as_what_they_are() {
    let shown = |bytes: &[u8], most: usize| {
        let shown = Excerpt::of(bytes, most).shown();
        let text = |name: &str| shown[name].as_str().unwrap().to_owned();
        (
            text("format"),
            text("content"),
            shown["cut"].as_bool().unwrap(),
        )
    };
    let text = |content: &str| ("text".to_owned(), content.to_owned(), false);
    assert_eq!(shown(b"a\tb\n", 9), text("a\tb\n"));
    assert_eq!(shown(b"", 9), text(""));
    assert_eq!(shown(b"12", 9), text("12"), "a number is text as well");
    assert_eq!(shown(b"{\"a\": ", 9), text("{\"a\": "), "not whole");
    assert_eq!(shown(b" [1, 2]", 9).0, "json");
    assert_eq!(
        shown(b"\x1b[2J", 9).0,
        "base64",
        "nothing that a terminal obeys"
    );
    assert_eq!(
        shown(b"a\xff", 9),
        ("base64".to_owned(), "Yf8=".to_owned(), false)
    );
    // Cut within a character of two bytes, and cut JSON.
    assert_eq!(
        shown("aé".as_bytes(), 2),
        ("text".to_owned(), "a".to_owned(), true)
    );
    assert_eq!(
        shown(b"[1, 2]", 5),
        ("text".to_owned(), "[1, 2".to_owned(), true)
    );
    // Bytes that end within a character without having been cut are not text.
    assert_eq!(shown(&"aé".as_bytes()[..2], 9).0, "base64");
}

#[test]
fn deeply_nested_json_takes_no_stack() {
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    let shown = Excerpt::of(deep.as_bytes(), deep.len()).shown();
    assert_eq!(shown["format"], "json");
}

#[test]
fn only_what_is_committed_is_shown_and_once() {
    let log = DeadLetterLog::default();
    log.sent(Epoch(1), &[record(1, b"a"), record(2, b"b")]);
    // Under at-least-once, letters of the next epoch are sent before this one is committed.
    log.sent(Epoch(2), &[record(4, b"d")]);
    log.sent(Epoch(1), &[record(3, b"c")]);
    assert_eq!(log.page(None, 10), (0, vec![], None));
    log.committed(Epoch(1), Timestamp(7));
    let (count, letters, next) = log.page(None, 10);
    assert_eq!((count, offsets(&letters), next), (3, vec![3, 2, 1], None));
    assert_eq!(letters[0]["at_ms"], 7);
    // A crash before the second commit: its letter is sent again.
    log.restarted();
    log.sent(Epoch(1), &[record(4, b"d")]);
    log.committed(Epoch(1), Timestamp(8));
    log.committed(Epoch(2), Timestamp(9));
    let (count, letters, _) = log.page(None, 10);
    assert_eq!((count, offsets(&letters)), (4, vec![4, 3, 2, 1]));
}

#[test]
fn pages_follow_each_other_while_letters_come() {
    let log = DeadLetterLog::default();
    let five: Vec<_> = (1..=5).map(|offset| record(offset, b"")).collect();
    log.sent(Epoch(1), &five);
    log.committed(Epoch(1), Timestamp(0));
    let (_, letters, next) = log.page(None, 2);
    assert_eq!((offsets(&letters), next), (vec![5, 4], Some(4)));
    log.sent(Epoch(2), &[record(6, b"")]);
    log.committed(Epoch(2), Timestamp(0));
    let (_, letters, next) = log.page(next, 2);
    assert_eq!((offsets(&letters), next), (vec![3, 2], Some(2)));
    let (_, letters, next) = log.page(next, 2);
    assert_eq!((offsets(&letters), next), (vec![1], None));
    assert_eq!(log.page(Some(1), 2), (6, vec![], None));
}

#[test]
fn a_flood_keeps_the_last_ones_and_counts_all() {
    let log = DeadLetterLog::default();
    let many: Vec<_> = (1..=250).map(|offset| record(offset, b"")).collect();
    log.sent(Epoch(1), &many[..10]);
    log.sent(Epoch(1), &many[10..]);
    log.committed(Epoch(1), Timestamp(0));
    let (count, letters, next) = log.page(None, MAX_LETTERS);
    assert_eq!((count, letters.len(), next), (250, MAX_LETTERS, None));
    assert_eq!(
        (&letters[0]["id"], &letters[0]["offset"]),
        (&json!(250), &json!(250))
    );
    assert_eq!(
        (&letters[99]["id"], &letters[99]["offset"]),
        (&json!(151), &json!(151))
    );
    log.sent(Epoch(2), &[record(251, b"")]);
    log.committed(Epoch(2), Timestamp(0));
    let (count, letters, _) = log.page(None, MAX_LETTERS);
    assert_eq!((count, letters.len()), (251, MAX_LETTERS));
    assert_eq!(letters[99]["id"], 152);
}
