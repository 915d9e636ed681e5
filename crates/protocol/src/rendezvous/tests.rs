use super::*;

fn at(epoch: u64, stage: u16, lane: u32) -> (Epoch, StageId, Lane) {
    (Epoch(epoch), StageId(stage), Lane(lane))
}

#[test]
fn the_last_one_gets_what_all_have_seen() {
    let mut meeting = Rendezvous::new(3, 1);
    assert_eq!(meeting.arrive(at(1, 0, 2), 5, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(1, 0, 0), 9, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(1, 0, 1), 7, i64::max).unwrap(), Some(9));
    // The next epoch starts empty.
    assert_eq!(meeting.arrive(at(2, 0, 1), 1, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(2, 0, 0), 2, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(2, 0, 2), 3, i64::max).unwrap(), Some(3));
}

#[test]
fn stages_meet_apart_from_each_other() {
    let mut meeting = Rendezvous::new(2, 2);
    assert_eq!(meeting.arrive(at(1, 0, 0), 1, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(1, 1, 1), 8, i64::max).unwrap(), None);
    assert_eq!(meeting.arrive(at(1, 0, 1), 2, i64::max).unwrap(), Some(2));
    assert_eq!(meeting.arrive(at(1, 1, 0), 4, i64::max).unwrap(), Some(8));
}

#[test]
fn arriving_twice_or_in_another_epoch_is_an_error() {
    let mut meeting = Rendezvous::new(2, 1);
    meeting.arrive(at(1, 0, 0), 1, i64::max).unwrap();
    let twice = meeting.arrive(at(1, 0, 0), 1, i64::max).unwrap_err();
    assert!(twice.to_string().contains("second time"), "{twice}");
    let mut meeting = Rendezvous::new(2, 1);
    meeting.arrive(at(1, 0, 0), 1, i64::max).unwrap();
    let ahead = meeting.arrive(at(2, 0, 1), 1, i64::max).unwrap_err();
    assert!(ahead.to_string().contains("in epoch 1"), "{ahead}");
    assert!(
        Rendezvous::new(2, 1)
            .arrive(at(1, 0, 2), 1, i64::max)
            .is_err()
    );
    assert!(
        Rendezvous::new(2, 1)
            .arrive(at(1, 1, 0), 1, i64::max)
            .is_err()
    );
}
