use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn schedule() -> Schedule {
    Schedule {
        max_interval: MS(100),
        min_interval: MS(10),
        max_bytes: 1000,
        idle_interval: MS(5000),
    }
}

#[test]
fn the_gap_follows_the_commit_between_its_bounds() {
    let gap = |last_commit, behind| {
        schedule().gap(&ScheduleFacts {
            last_commit,
            behind,
            ..Default::default()
        })
    };
    assert_eq!(gap(MS(0), false), MS(10));
    assert_eq!(gap(MS(25), false), MS(25));
    assert_eq!(gap(MS(500), false), MS(100));
    for commit in [MS(0), MS(25), MS(500)] {
        assert_eq!(gap(commit, true), MS(100), "who is behind saves commits");
    }
}

#[test]
fn no_barrier_while_committing_or_without_records() {
    let facts = ScheduleFacts {
        since_barrier: MS(1000),
        records: 5,
        bytes: 5000,
        committing: true,
        ..Default::default()
    };
    assert!(!schedule().is_due(&facts));
    assert!(schedule().is_due(&ScheduleFacts {
        committing: false,
        ..facts
    }));
    assert!(!schedule().is_due(&ScheduleFacts {
        committing: false,
        records: 0,
        bytes: 0,
        ..facts
    }));
}

#[test]
fn size_and_stopping_bring_it_forward() {
    let young = ScheduleFacts {
        since_barrier: MS(1),
        records: 1,
        bytes: 10,
        ..Default::default()
    };
    assert!(!schedule().is_due(&young));
    assert!(schedule().is_due(&ScheduleFacts {
        bytes: 1000,
        ..young
    }));
    assert!(schedule().is_due(&ScheduleFacts {
        stopping: true,
        ..young
    }));
    assert!(!schedule().is_due(&ScheduleFacts {
        stopping: true,
        records: 0,
        since_barrier: MS(9000),
        ..young
    }));
}

#[test]
fn an_idle_engine_still_learns_that_it_is_fenced() {
    let idle = ScheduleFacts {
        since_barrier: MS(5000),
        ..Default::default()
    };
    assert!(schedule().is_due(&idle));
}

#[test]
fn requested_commits_follow_after_the_shortest_gap() {
    let asked = ScheduleFacts {
        since_barrier: MS(10),
        asked: true,
        last_commit: MS(500),
        ..Default::default()
    };
    assert!(schedule().is_due(&asked));
    assert!(schedule().is_due(&ScheduleFacts {
        records: 1,
        ..asked
    }));
    assert!(!schedule().is_due(&ScheduleFacts {
        since_barrier: MS(9),
        records: 1,
        ..asked
    }));
    // A punctuation every millisecond must not keep a stopping engine alive.
    assert!(!schedule().is_due(&ScheduleFacts {
        stopping: true,
        ..asked
    }));
}

/// A barrier before the response would leave the records to the next epoch, and so would every barrier
/// after it.
#[test]
fn an_epoch_that_asks_at_its_end_ends_with_the_answer() {
    let end = |fetch| {
        schedule().ends(&ScheduleFacts {
            records: 1,
            fetch,
            ..Default::default()
        })
    };
    let asks = schedule().asks(&ScheduleFacts::default());
    assert!(MS(9) < asks && asks < MS(10));
    // A distant broker gets the request sooner, but not all the time.
    for (usual_answer, asked, waits) in [(MS(2), 8, 11), (MS(40), 5, 30)] {
        let facts = ScheduleFacts {
            usual_answer,
            fetch: Fetch::Pending,
            ..Default::default()
        };
        assert_eq!(schedule().asks(&facts), MS(asked));
        assert_eq!(schedule().ends(&facts), MS(waits));
    }
    assert_eq!(end(Fetch::Unscheduled), MS(10));
    assert_eq!(end(Fetch::Arrived), asks);
    assert!(MS(10) < end(Fetch::Pending) && end(Fetch::Pending) < MS(11));
    let due = |since_barrier, fetch, records| {
        schedule().is_due(&ScheduleFacts {
            since_barrier,
            records,
            fetch,
            ..Default::default()
        })
    };
    assert!(due(asks, Fetch::Arrived, 1));
    assert!(!due(asks, Fetch::Arrived, 0), "nothing has come");
    assert!(!due(MS(9), Fetch::Arrived, 1), "it came sooner");
    assert!(!due(MS(10), Fetch::Pending, 1));
    assert!(due(MS(11), Fetch::Pending, 1), "the broker is silent");
}
