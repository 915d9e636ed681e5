//! Room, and due times.

use super::ParkingLots;
use stoatflow_core::NodeId;

const ONE: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

#[test]
fn there_is_no_room_before_every_lane_has_looked() {
    let lots = ParkingLots::default();
    let lot = lots.of(ONE, 2, 10);
    assert_eq!(lots.room(ONE), 0);
    lot.report(1, 4, None, None);
    assert_eq!((lots.room(ONE), lots.occupancy()[0].parked), (0, 0));
    lot.report(0, 3, None, Some(5));
    assert_eq!((lots.room(ONE), lots.occupancy()[0].parked), (3, 7));
}

#[test]
fn records_on_their_way_take_room_of_their_own_lot_only() {
    let lots = ParkingLots::default();
    for node in [ONE, OTHER] {
        lots.of(node, 1, 2).report(0, 0, None, None);
    }
    lots.sent(ONE, 5);
    assert_eq!((lots.room(ONE), lots.room(OTHER)), (0, 2));
    lots.arrived(ONE, 4);
    assert_eq!((lots.room(ONE), lots.room(OTHER)), (1, 2));
}

#[test]
fn nothing_is_due_while_answers_wait() {
    let lots = ParkingLots::default();
    assert_eq!(lots.next_due(), i64::MAX);
    let lot = lots.of(ONE, 2, 2);
    lot.report(0, 1, Some(30), None);
    lot.report(1, 1, Some(20), None);
    lots.set_answers_wait(true);
    assert_eq!(lots.next_due(), i64::MAX);
    lots.set_answers_wait(false);
    assert_eq!(lots.next_due(), 20);
}
