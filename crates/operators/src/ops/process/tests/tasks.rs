//! Stream-time schedules over several tasks: by which time, over which keys.

use super::{Rig, keep, rig, sink};
use crate::testing::record;
use crate::{ClockRule, ProcessorHost};
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Bytes, ClockId, Order, ProcessorId, Record, Result, StoreId, Task};
use stoatflow_plan::{Delivery, Op};

const TASKS: u16 = 3;
/// The clock of the tasks.
const TIME: ClockId = ClockId(1);
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn keep_in_task(record: &Record, host: &mut dyn ProcessorHost) -> Result<()> {
    host.at(record.origin.order);
    keep(record, host)
}

/// A processor that stores each record, and forwards all visible rows every 10 ms of stream time.
fn three_tasks() -> Rig {
    let process = Op::Process {
        processor: ProcessorId(0),
        stores: vec![StoreId(0)],
        fixed_key: false,
        clock: ClockId(0),
        time: Some(TIME),
    };
    let nodes = vec![(process, vec![1], Delivery::Batch), sink(0)];
    let mut rig = rig(nodes, &[(keep_in_task, true)]);
    with_tasks(&mut rig, TASKS);
    rig
}

/// Sets the clocks for topics with this number of partitions. Their rows are in the last store of the
/// rig.
pub(super) fn with_tasks(rig: &mut Rig, tasks: u16) {
    let rule = ClockRule {
        tasks,
        ..ClockRule::default()
    };
    rig.clocks = rig.clocks.clone().ruled(&[rule; 4]);
    rig.run = Arc::default();
    let last = StoreId(u16::try_from(rig.stores.len() - 1).unwrap());
    rig.clocks.rows = Some((last, Arc::new([Bytes::new(), Bytes::new()])));
}

fn by_murmur2(key: &str) -> u16 {
    u16::try_from(partition_of(key.as_bytes(), i32::from(TASKS))).unwrap()
}

fn by_crc32(key: &str) -> u16 {
    u16::try_from(crc32fast::hash(key.as_bytes()) % u32::from(TASKS)).unwrap()
}

/// Puts each key once, in the task that `task_of` returns.
fn put_all(rig: &mut Rig, task_of: fn(&str) -> u16) {
    let records = KEYS.iter().zip(1..).map(|(key, number)| {
        let mut record = record(key, "x", 1);
        record.origin.order = Order::new(number, Task(task_of(key)));
        record
    });
    rig.push(records.collect()).unwrap();
    rig.outputs();
}

/// Moves the tasks to these times; returns the rows that the schedule forwarded, by its time.
fn seen_at(rig: &mut Rig, times: [i64; 3]) -> BTreeMap<i64, Vec<String>> {
    for (task, time) in (0..).map(Task).zip(times) {
        rig.clocks.see(TIME, task, time);
    }
    rig.punctuate();
    let mut seen = BTreeMap::<i64, Vec<String>>::new();
    for output in rig.outputs() {
        let (key, time) = output.split_once('@').unwrap();
        let key = key.split(['=', ':']).nth(1).unwrap();
        seen.entry(time.parse().unwrap())
            .or_default()
            .push(key.to_owned());
    }
    seen
}

fn keys_of(task: u16, task_of: fn(&str) -> u16) -> Vec<String> {
    let own = KEYS.iter().filter(|key| task_of(key) == task);
    own.map(ToString::to_string).collect()
}

#[test]
fn each_task_sees_its_own_keys_at_its_own_time() {
    for task_of in [by_murmur2 as fn(&str) -> u16, by_crc32] {
        let mut rig = three_tasks();
        rig.open();
        put_all(&mut rig, task_of);
        let all = [0, 1, 2].map(|task| keys_of(task, task_of));
        assert!(all.iter().all(|keys| !keys.is_empty()), "{all:?}");
        let expected = (0..)
            .zip(&all)
            .map(|(at, keys)| ([5, 70, 1_005][at], keys.clone()));
        assert_eq!(seen_at(&mut rig, [5, 70, 1_005]), expected.collect());
        // A task that is far ahead fires nothing in the others.
        assert_eq!(
            seen_at(&mut rig, [9, 79, 9_000]),
            BTreeMap::from([(9_000, all[2].clone())])
        );
        assert_eq!(rig.run.take_stores_without_tasks(), [""; 0]);
    }
}

#[test]
fn keys_that_say_no_task_are_seen_by_the_time_of_the_slowest() {
    let mut rig = three_tasks();
    rig.open();
    put_all(&mut rig, |_| 2);
    let all = KEYS.map(str::to_owned).to_vec();
    assert_eq!(
        seen_at(&mut rig, [-1, 70, 1_005]),
        BTreeMap::from([(70, all.clone())])
    );
    assert_eq!(seen_at(&mut rig, [-1, 79, 9_000]), BTreeMap::new());
    assert_eq!(
        seen_at(&mut rig, [-1, 80, 9_000]),
        BTreeMap::from([(80, all)])
    );
    assert_eq!(rig.run.take_stores_without_tasks(), ["store-0"]);
    assert_eq!(rig.run.take_stores_without_tasks(), [""; 0]);
}

/// Keys put before a restart count, even if every later key agrees with murmur2.
#[test]
fn tasks_of_keys_are_known_after_a_restart() {
    let mut rig = three_tasks();
    rig.open();
    put_all(&mut rig, |_| 2);
    with_tasks(&mut rig, TASKS);
    rig.reopen(three_tasks());
    put_all(&mut rig, by_murmur2);
    assert_eq!(seen_at(&mut rig, [5, 70, 1_005]).len(), 1);
    // The same result as before: a restart forgets nothing.
    let mut rig = three_tasks();
    rig.open();
    put_all(&mut rig, by_crc32);
    with_tasks(&mut rig, TASKS);
    rig.reopen(three_tasks());
    assert_eq!(seen_at(&mut rig, [5, 70, 1_005]).len(), 3);
}
