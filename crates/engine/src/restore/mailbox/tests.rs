use super::*;
use stoatflow_core::Offset;

fn batch(reached: i64, records: u64) -> RestoreStep {
    RestoreStep::Batch {
        reached: Offset(reached),
        records,
    }
}

#[test]
fn a_slow_listener_gets_one_batch_of_each_partition() {
    let mailbox = Mailbox::new(2);
    let started = RestoreStep::Started {
        from: Offset(0),
        end: Offset(9_000),
    };
    mailbox.put(0, started);
    mailbox.put(1, started);
    for n in 1..=1_000 {
        mailbox.put(0, batch(n, 1));
        mailbox.put(1, batch(2 * n, 2));
    }
    assert_eq!(mailbox.waiting.lock().steps.len(), 4);
    assert_eq!(mailbox.take(), Some((0, started)));
    assert_eq!(mailbox.take(), Some((1, started)));
    assert_eq!(mailbox.take(), Some((0, batch(1_000, 1_000))));
    mailbox.put(0, batch(1_001, 1));
    mailbox.put(1, batch(2_001, 1));
    mailbox.put(1, RestoreStep::Ended { records: 2_001 });
    mailbox.close();
    assert_eq!(mailbox.take(), Some((1, batch(2_001, 2_001))));
    assert_eq!(mailbox.take(), Some((0, batch(1_001, 1))));
    assert_eq!(
        mailbox.take(),
        Some((1, RestoreStep::Ended { records: 2_001 }))
    );
    assert_eq!(mailbox.take(), None);
}
