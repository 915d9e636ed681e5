use super::*;

const fn facts(cut: &[Offset], open: u64, filled: bool, committed: u64) -> GateFacts<'_> {
    GateFacts {
        cut,
        open: Epoch(open),
        filled,
        committed: Epoch(committed),
    }
}

#[test]
fn without_global_tables_it_is_open() {
    assert!(GlobalTableGate::new(Vec::new()).is_open());
}

#[test]
fn the_gate_opens_when_the_last_record_is_committed() {
    let mut gate = GlobalTableGate::new(vec![(1, Offset(5))]);
    assert!(gate.is_global(1) && !gate.is_global(0));
    assert!(!gate.update(facts(&[Offset(9), Offset(4)], 1, true, 0)));
    assert!(!gate.wants_commit());
    assert!(!gate.update(facts(&[Offset(9), Offset(5)], 2, true, 1)));
    assert!(gate.wants_commit() && !gate.is_open());
    assert!(gate.update(facts(&[Offset(9), Offset(5)], 3, false, 2)));
    assert!(gate.is_open());
    assert!(!gate.update(facts(&[Offset(9), Offset(6)], 3, true, 2)));
}

#[test]
fn empty_or_fully_read_tables_open_the_gate_at_once() {
    let mut gate = GlobalTableGate::new(vec![(0, Offset(0))]);
    assert!(gate.update(facts(&[Offset(0)], 1, false, 0)));
}

#[test]
fn an_epoch_on_its_way_is_waited_for() {
    let mut gate = GlobalTableGate::new(vec![(0, Offset(3))]);
    assert!(!gate.update(facts(&[Offset(3)], 2, false, 0)));
    assert!(gate.update(facts(&[Offset(3)], 2, false, 1)));
}
