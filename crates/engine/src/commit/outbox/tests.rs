//! What wakes the commit thread.

use super::*;
use stoatflow_core::{Clock, SystemClock};

/// Longer than a wait that is woken, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// How long a wait takes if nothing wakes it.
const SHORT: Duration = Duration::from_millis(800);

fn records() -> OutboxItem {
    OutboxItem::Records {
        epoch: Epoch(1),
        records: Vec::new(),
        bytes: 10,
    }
}

fn cut() -> OutboxItem {
    OutboxItem::Cut {
        epoch: Epoch(1),
        cut: Vec::new(),
        records: 0,
        oldest: None,
        at: Duration::ZERO,
    }
}

fn sealed(lane: u32) -> OutboxItem {
    OutboxItem::Sealed {
        epoch: Epoch(1),
        lane: Lane(lane),
        stores: Vec::new(),
        drops: Vec::new(),
        times: LaneTimes::default(),
    }
}

/// How many items a wait of `patience` returns while these are pushed, and whether they woke it.
fn got(outbox: &Outbox, items: Vec<OutboxItem>, patience: Duration) -> (usize, bool) {
    let clock = SystemClock::new();
    let mut inbox = VecDeque::new();
    let wait = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            outbox.take_all(&mut inbox, patience);
            clock.monotonic()
        });
        for item in items {
            outbox.push(item);
        }
        waits.join().unwrap()
    });
    // On a slow machine some are pushed after the wait.
    let mut rest = VecDeque::new();
    outbox.take_all(&mut rest, Duration::ZERO);
    (inbox.len() + rest.len(), wait < patience)
}

#[test]
fn a_record_is_worth_waking() {
    let outbox = Outbox::new(2);
    assert_eq!(got(&outbox, vec![records()], LONG), (1, true));
    // Records pushed before the wait count as well.
    outbox.push(records());
    assert_eq!(got(&outbox, vec![], LONG), (1, true));
}

#[test]
fn an_epoch_is_worth_waking_when_all_lanes_have_sealed_it() {
    let outbox = Outbox::new(2);
    for _ in 0..2 {
        assert_eq!(got(&outbox, vec![cut(), sealed(0)], SHORT), (2, false));
        assert_eq!(got(&outbox, vec![sealed(1)], LONG), (1, true));
    }
}

/// Pushes repeatedly, so that some cuts arrive while the other thread sleeps.
#[test]
fn a_cut_wakes_no_thread() {
    let outbox = Outbox::new(2);
    let clock = SystemClock::new();
    let woken = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            outbox.take_all(&mut VecDeque::new(), SHORT);
            clock.monotonic()
        });
        while clock.monotonic() < SHORT / 4 {
            outbox.push(cut());
            std::thread::yield_now();
        }
        waits.join().unwrap()
    });
    assert!(woken >= SHORT, "after {woken:?}");
}

#[test]
fn a_take_without_waiting_gets_what_is_there_and_a_nudge_wakes() {
    let outbox = Outbox::new(2);
    let mut inbox = VecDeque::new();
    assert!(!outbox.take_all(&mut inbox, Duration::ZERO));
    outbox.push(cut());
    assert!(outbox.take_all(&mut inbox, Duration::ZERO));
    assert_eq!(inbox.len(), 1);
    inbox.clear();
    let clock = SystemClock::new();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| outbox.take_all(&mut inbox, LONG));
        while !waits.is_finished() {
            outbox.wake_commit_thread();
            assert!(clock.monotonic() < LONG, "it sleeps on");
        }
        assert!(!waits.join().unwrap());
    });
}
