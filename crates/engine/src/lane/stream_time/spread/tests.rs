use super::*;
use bytes::Bytes;
use stoatflow_core::murmur2::partition_of;

fn time(stream: i64, mark: i64) -> Time {
    Time {
        stream,
        mark,
        newest: -1,
    }
}

#[test]
fn no_key_goes_on_from_an_earlier_time_than_it_had() {
    let times: Vec<Time> = (0..12).map(|at| time(10 * (at * 7 % 12), at)).collect();
    for before in 1..=12 {
        for now in 1..=12 {
            let spread = into_tasks(&times[..before], now);
            assert_eq!(spread.len(), now);
            for key in 0..200_u32 {
                let key = Bytes::from(key.to_string());
                let of = |tasks: usize| {
                    let at = partition_of(&key, i32::try_from(tasks).unwrap());
                    usize::try_from(at).unwrap()
                };
                let (old, new) = (times[of(before)], spread[of(now)]);
                assert_eq!(new.merge(old), new, "{key:?}, {before} to {now}");
            }
        }
    }
}

#[test]
fn twice_as_many_tasks_have_the_times_of_those_that_they_come_from() {
    let (one, two) = (time(10, 5), time(70, 60));
    assert_eq!(into_tasks(&[one, two], 4), [one, two, one, two]);
    assert_eq!(into_tasks(&[one, two, one, two], 2), [one, two]);
    assert_eq!(into_tasks(&[one, two], 3), [two, two, two]);
}

#[test]
fn only_where_the_key_says_the_task() {
    let rule = |tasks, by_key| ClockRule {
        tasks,
        by_key,
        ..ClockRule::default()
    };
    let begun = vec![time(10, 5)];
    let mut times = vec![begun.clone(), begun.clone(), Vec::new(), begun.clone()];
    let rules = [rule(3, true), rule(3, false), rule(3, true), rule(1, true)];
    assert!(spread(&mut times, &rules));
    let expected = [vec![begun[0]; 3], begun.clone(), vec![], begun];
    assert_eq!(times, expected);
    assert!(spread(&mut vec![vec![Time::NONE]], &rules[1..2]));
    assert!(!spread(&mut vec![vec![Time::NONE; 3]], &rules[1..2]));
    let other = [rule(1, false)];
    assert!(!spread(&mut vec![vec![Time::NONE; 3]], &other));
}
