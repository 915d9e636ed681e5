use super::*;
use bytes::Bytes;

const ORDERS: NodeId = NodeId(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn every_record_is_as_likely_as_another() {
    let mut sampler = Sampler::new(3);
    let mut seen = [0_u32; 64];
    let mut sampled = 0;
    for _ in 0..10_000 {
        while let Some(at) = sampler.next_in(64) {
            seen[at] += 1;
            sampled += 1;
        }
    }
    // 640,000 records.
    assert!((19_000..21_000).contains(&sampled), "{sampled}");
    let expected = sampled / 64;
    for (at, count) in seen.iter().enumerate() {
        assert!(
            (expected / 2..expected * 2).contains(count),
            "place {at}: {count} of {expected}"
        );
    }
}

#[test]
fn a_key_with_many_records_is_found_among_thousands() {
    let mut keys = HotKeys::default();
    for n in 0..10_000 {
        let key = match n % 10 {
            0..3 => Datum::text("DE"),
            _ => Datum::Int(n),
        };
        keys.count(ORDERS, &key, seconds(1));
    }
    let recent = keys.recent(seconds(2));
    assert_eq!((recent.len(), recent[0].sampled), (1, 10_000));
    let hottest = recent[0].keys.iter().max_by_key(|k| k.most).unwrap();
    assert_eq!(hottest.key, "DE");
    assert!((hottest.least()..=hottest.most).contains(&3_000));
    assert!(hottest.most - hottest.least() <= 10_000 / 64);
    assert_eq!(recent[0].keys.len(), MAX_COUNTERS);
    // The counters of rare keys show that they took over earlier counts.
    let rare = recent[0].keys.iter().filter(|k| k.key != "DE");
    assert!(rare.clone().all(|k| k.least() == 1 && k.most > 50));
}

#[test]
fn counts_are_forgotten_within_a_minute() {
    let mut keys = HotKeys::default();
    keys.count(ORDERS, &Datum::text("old"), seconds(10));
    keys.count(ORDERS, &Datum::text("new"), seconds(45));
    let names = |keys: &mut HotKeys, at| -> Vec<String> {
        let mut all: Vec<_> = (keys.recent(seconds(at)).into_iter())
            .flat_map(|e| e.keys)
            .map(|k| k.key)
            .collect();
        all.sort();
        all
    };
    assert_eq!(names(&mut keys, 46), ["new", "old"]);
    assert_eq!(names(&mut keys, 76), ["new"]);
    assert!(names(&mut keys, 200).is_empty());
}

#[test]
fn keys_are_shown_as_a_person_reads_them() {
    let bytes = |b: &'static [u8]| text(&Datum::Bytes(Bytes::from_static(b)));
    assert_eq!(text(&Datum::text("DE")).unwrap(), "DE");
    assert_eq!(text(&Datum::Int(7)).unwrap(), "7");
    assert_eq!(bytes(b"a-1").unwrap(), "a-1");
    assert_eq!(bytes(b"\0\0\0\x07").unwrap(), "0x00000007");
    assert_eq!(text(&Datum::Null), None);
    let long = "\u{e9}".repeat(500);
    assert_eq!(
        text(&Datum::text(long)).unwrap().chars().count(),
        MAX_KEY_CHARS
    );
}

#[test]
fn a_record_without_a_key_counts_for_the_share() {
    let mut keys = HotKeys::default();
    keys.count(ORDERS, &Datum::Null, seconds(1));
    keys.count(ORDERS, &Datum::text("a"), seconds(1));
    let recent = keys.recent(seconds(1));
    assert_eq!((recent[0].sampled, recent[0].keys.len()), (2, 1));
}
