//! Stream time as one lane sees it.
//!
//! Takes the timestamps that operators see, gives each operator's stream time: the highest timestamp
//! so far (Kafka Streams' `observedStreamTime`). Owns this lane's view: what all lanes knew at the last
//! barrier, and what this lane has seen since. At the barrier the engine merges the views of all lanes
//! and keeps them with the commit, so that a restart neither takes late records again nor gives closed
//! windows twice. Never reads the machine's clock.
//!
//! With one lane, time moves with each record, exactly as in a task of Kafka Streams, and operators
//! close windows at once ([`LaneClocks::is_eager`]). With several, a lane that closed windows on its
//! own view would close them at another time than its neighbours: there they are closed together, in
//! [`crate::Operator::advance`], after the views were merged.
//!
//! With `time.semantics = watermark` records move nothing: the engine says the watermark at each barrier, and
//! an operator's clock is raised to it just before its `advance`, when its parents have given what was due by
//! it. What the newest record is stays known all the same, for windows that close on quiet topics.

use crate::Run;
use std::sync::Arc;
use stoatflow_core::{ClockId, Timestamp};

/// One clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The highest timestamp seen; -1: none yet.
    pub stream: i64,
    /// Up to where the operator has done what is done once (windows given on closing).
    pub mark: i64,
    /// Where records don't move the time: the highest timestamp among them. Of the application's clock: what
    /// the watermark was asked to be raised to. -1: none.
    pub newest: i64,
}

impl Time {
    /// Nothing seen.
    pub const NONE: Self = Self {
        stream: -1,
        mark: -1,
        newest: -1,
    };

    /// The later of both, each.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            stream: self.stream.max(other.stream),
            mark: self.mark.max(other.mark),
            newest: self.newest.max(other.newest),
        }
    }
}

/// All clocks of the plan, as one lane sees them.
#[derive(Clone, Debug)]
pub struct LaneClocks {
    times: Vec<Time>,
    eager: bool,
    /// Wall time, as the engine saw it when it began the batch (or the advance).
    pub wall: Timestamp,
    /// Least wall time between two passes that close windows (Kafka Streams: one second); 0: with every
    /// record.
    pub emit_interval_ms: i64,
    /// Least wall time between two passes that give unmatched rows of joins, likewise.
    pub join_emit_interval_ms: i64,
    /// `time.semantics = watermark`: time is the watermark, which moves at barriers, and not what records say.
    pub by_watermark: bool,
    /// Records before this time are not expected any more: one that comes is late. -1: not known yet.
    pub watermark: i64,
    /// What all lanes of the run share: when punctuations are due. The engine gives all lanes the same.
    pub run: Arc<Run>,
}

impl LaneClocks {
    /// So many clocks; eager: the lane is alone.
    #[must_use]
    pub fn new(clocks: usize, eager: bool) -> Self {
        Self {
            times: vec![Time::NONE; clocks],
            eager,
            wall: Timestamp::UNKNOWN,
            emit_interval_ms: 0,
            join_emit_interval_ms: 0,
            by_watermark: false,
            watermark: -1,
            run: Arc::default(),
        }
    }

    /// Are windows closed at once, within `process`? Else only within `advance`.
    #[must_use]
    pub const fn is_eager(&self) -> bool {
        self.eager
    }

    /// The stream time of a clock; -1: none yet.
    #[must_use]
    pub fn stream(&self, clock: ClockId) -> i64 {
        self.times[usize::from(clock.0)].stream
    }

    /// The time of events: the watermark, or the stream time of the application's clock. -1: none yet.
    #[must_use]
    pub fn event_time(&self, application: ClockId) -> i64 {
        if self.by_watermark {
            self.watermark
        } else {
            self.stream(application)
        }
    }

    /// A record with this timestamp was seen: moves a clock (never back) if records do; gives its time.
    pub fn observe(&mut self, clock: ClockId, timestamp: i64) -> i64 {
        let time = &mut self.times[usize::from(clock.0)];
        if self.by_watermark {
            time.newest = time.newest.max(timestamp);
        } else {
            time.stream = time.stream.max(timestamp);
        }
        time.stream
    }

    /// The highest timestamp among the records that did not move a clock; -1: none.
    #[must_use]
    pub fn newest(&self, clock: ClockId) -> i64 {
        self.times[usize::from(clock.0)].newest
    }

    /// Moves a clock, whatever moves it otherwise; never back.
    pub fn move_on(&mut self, clock: ClockId, to: i64) {
        let time = &mut self.times[usize::from(clock.0)];
        time.stream = time.stream.max(to);
    }

    /// Moves a clock to the watermark, if that is what moves it.
    pub fn follow(&mut self, clock: ClockId) {
        if self.by_watermark {
            self.move_on(clock, self.watermark);
        }
    }

    /// The watermark is this from now on; never back.
    pub fn see_watermark(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
    }

    /// Asks for a watermark of at least this, with the application's clock.
    pub fn ask_watermark(&mut self, application: ClockId, at_least: i64) {
        let time = &mut self.times[usize::from(application.0)];
        time.newest = time.newest.max(at_least);
    }

    /// Up to where the operator has done what is done once.
    #[must_use]
    pub fn mark(&self, clock: ClockId) -> i64 {
        self.times[usize::from(clock.0)].mark
    }

    /// Moves the mark, never back.
    pub fn set_mark(&mut self, clock: ClockId, mark: i64) {
        let time = &mut self.times[usize::from(clock.0)];
        time.mark = time.mark.max(mark);
    }

    /// All of them, by number.
    #[must_use]
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// Takes what all lanes know.
    pub fn merge(&mut self, times: &[Time]) {
        for (own, other) in self.times.iter_mut().zip(times) {
            *own = own.merge(*other);
        }
    }
}

/// Which keys are this lane's: for operators that look through a whole store.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// This lane.
    pub lane: u32,
    /// Of so many.
    pub lanes: u32,
}

impl Share {
    /// Is this lane the one of a key with these bytes (of a windowed key: of the key within)?
    #[must_use]
    pub fn owns(self, key: &[u8]) -> bool {
        crate::jump_hash(crate::key_hash(key), self.lanes) == self.lane
    }
}
