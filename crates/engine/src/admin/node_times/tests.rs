//! Which node gets the time between two looks.

use super::*;
use crate::admin::tests::fixture::plan;
use std::collections::BTreeSet;
use stoatflow_core::NodeId;

fn times(status: &Status) -> Vec<u64> {
    let times = status.node_times.iter();
    times.map(|time| time.load(Relaxed) / 1_000_000).collect()
}

#[test]
fn a_node_gets_the_time_of_the_busy_lanes_that_run_it() {
    let status = Status::new("word-count", Arc::new(plan()), 3);
    let mut sampler = NodeSampler::new(Duration::from_millis(1_000));
    for lane in &status.lanes {
        lane.busy_since_ms.store(900, Relaxed);
        lane.active_node.enter(NodeId(3));
    }
    status.lanes[1].active_node.enter(NodeId(1));
    sampler.look(&status, Duration::from_millis(1_040));
    assert_eq!(times(&status), [0, 40, 0, 80, 0]);
    // One lane sends its outputs, another one is idle.
    status.lanes[0].active_node.leave();
    status.lanes[1].busy_since_ms.store(0, Relaxed);
    sampler.look(&status, Duration::from_millis(1_100));
    assert_eq!(times(&status), [0, 40, 0, 140, 0]);
}

#[test]
fn looks_come_at_uneven_intervals() {
    let mut sampler = NodeSampler::new(Duration::ZERO);
    let pauses: Vec<_> = (0..1_000).map(|_| sampler.pause().as_millis()).collect();
    assert!(pauses.iter().all(|pause| (30..=70).contains(pause)));
    let mean = pauses.iter().sum::<u128>() / 1_000;
    assert!((48..=52).contains(&mean), "{mean}");
    assert_eq!(pauses.iter().collect::<BTreeSet<_>>().len(), 41);
}
