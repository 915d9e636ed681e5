//! When a broker is sent the next fetch, and for which partitions.
//!
//! Takes the partitions wanted from a broker, sends one fetch, and lends it the memory of the last
//! answer. A broker whose last answer was complete is not asked again for a while.

use super::{FetchInFlight, MAX_FETCH_PAUSE, NativeConsumer, SIDE_REQUEST_TIMEOUT};
use crate::kafka::native::consumer::fetch::{FetchTarget, newest_version, request};
use crate::kafka::native::consumer::fetch_state::FetchPlan;
use crate::kafka::native::net::cluster::{Node, version_for};
use crate::kafka::native::net::connection_error::ConnectionError;
use bytes::Bytes;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::protocol::Encodable;
use std::time::Duration;
use stoatflow_core::Result;

/// The shortest pause between two fetches from a broker whose last answer had all its records: an empty
/// answer costs the broker as much as a full one, and wakes the application as often.
const MIN_EMPTY_FETCH_PAUSE: Duration = Duration::from_millis(3);
/// The last fetch of a poll is sent this long before the poll ends, so that a commit after it covers
/// everything there is.
const LAST_FETCH_LEAD: Duration = Duration::from_micros(700);

impl NativeConsumer {
    /// How long to wait before the next fetch from a broker, in a poll that lasts this long.
    pub(super) fn rest_of(&self, node: Node, left: Duration) -> Duration {
        let Some(asked) = self.asked.get(&node).filter(|_| self.slots.has_all(node)) else {
            return Duration::ZERO;
        };
        let (now, rested) = (self.clock.elapsed(), *asked + MIN_EMPTY_FETCH_PAUSE);
        if let Some(until) = self.deferred {
            let until = until.min(*asked + MAX_FETCH_PAUSE);
            let next = if *asked < until { until } else { rested };
            return next.saturating_sub(now);
        }
        let last_moment = (now + left).saturating_sub(LAST_FETCH_LEAD);
        let until = if *asked < last_moment {
            rested.min(last_moment)
        } else {
            rested
        };
        until.saturating_sub(now)
    }

    /// Sends a broker a fetch for what is wanted from it.
    pub(super) fn ask(&mut self, node: Node) {
        if self.trouble.is_some() {
            return;
        }
        match self.cluster.data(node) {
            Ok(_) => {}
            // The connection is being opened: `wait_or_connected` waits for it too.
            Err(why) if why.leaves_connection() => return,
            Err(why) => return self.lose(node, &why),
        }
        let now = self.clock.elapsed();
        let FetchPlan { wanted, max_wait } = self.slots.plan_fetch(node, self.fetch_limits, now);
        if wanted.is_empty() {
            return;
        }
        match self.send(node, &wanted, max_wait) {
            Ok(version) => {
                let since = self.clock.elapsed();
                let received = 0;
                self.asked.insert(node, since);
                self.flights.insert(
                    node,
                    FetchInFlight {
                        version,
                        since,
                        received,
                    },
                );
            }
            Err(why) => self.lose(node, &why),
        }
    }

    fn send(
        &mut self,
        node: Node,
        wanted: &[FetchTarget],
        max_wait: Duration,
    ) -> Result<i16, ConnectionError> {
        let last = self.answers.remove(&node);
        if last.as_ref().is_some_and(|answer| !answer.is_unique()) {
            self.slots.detach();
        }
        let room = last.and_then(room_of);
        let link = self.cluster.data(node)?;
        let version = version_for::<FetchRequest>(link, newest_version(wanted))?;
        let mut frame = link.open::<FetchRequest>(version)?;
        let to = (version, link.rack());
        let request = request(wanted, self.fetch_limits, max_wait, to);
        let written = request.encode(&mut frame, version);
        written.map_err(|e| ConnectionError::lost(format!("broker {node}: {e}")))?;
        let size = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&size.to_be_bytes());
        link.post(&[&frame], SIDE_REQUEST_TIMEOUT)?;
        if let Some(room) = room {
            link.lend(room);
        }
        Ok(version)
    }
}

/// The memory of an answer, if all its records are returned and it is not unusually large.
fn room_of(mut answer: Bytes) -> Option<Vec<u8>> {
    const USUAL: usize = 16 << 20;
    if !answer.is_unique() {
        return None;
    }
    // So that the conversion copies no bytes.
    answer.truncate(0);
    let room = Vec::from(answer);
    (room.capacity() <= USUAL).then_some(room)
}
