//! The contract of an operator, and what it may touch while it runs.

use crate::api::clocks::LaneClocks;
use crate::api::run_coordinator::RunCoordinator;
use crate::api::share::Share;
use crate::support::error_policy::{ErrorOrigin, Handled};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{
    Epoch, Headers, Lane, NodeId, Origin, Partition, Record, Result, SinkId, StageId, StoreId,
    Timestamp,
};
use stoatflow_state::{Dirty, KeyValueStore};

/// A store as one lane holds it: the shared store, and what this lane wrote in its open epoch.
#[derive(Debug)]
pub struct LaneStore {
    /// The store.
    pub store: Arc<KeyValueStore>,
    /// Keys written by this lane in the open epoch.
    pub dirty: Dirty,
}

/// Where an output goes, where that isn't the plan's to say.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The topic, if a function chose it.
    pub topic: Option<Arc<str>>,
    /// The partition, if a function chose it.
    pub partition: Option<Partition>,
}

/// An encoded record for a sink.
#[derive(Clone, Debug)]
pub struct Output {
    /// Which sink.
    pub sink: SinkId,
    /// Where it goes, if functions chose. Boxed: without it an output is short enough to be moved in
    /// registers, with the two fields in it every move is a call.
    pub chosen: Option<Box<Chosen>>,
    /// The key's bytes.
    pub key: Option<Bytes>,
    /// The value's bytes.
    pub value: Option<Bytes>,
    /// Event time.
    pub timestamp: Timestamp,
    /// Headers.
    pub headers: Headers,
    /// The input record that caused it (for the test driver and error messages).
    pub origin: Origin,
}

/// A record on its way to another lane.
#[derive(Debug)]
pub struct Routed {
    /// The exchange node it leaves through; the receiving stage knows its entries.
    pub via: NodeId,
    /// The stage it goes to.
    pub stage: StageId,
    /// Hash of the key's bytes; the engine maps it to a lane.
    pub hash: u64,
    /// The record.
    pub record: Record,
}

/// A route to every child.
pub const ALL_CHILDREN: u32 = u32::MAX;

/// What leaves a lane while it works through a batch.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the outbox.
    pub outputs: Vec<Output>,
    /// For other lanes.
    pub routed: Vec<Routed>,
    /// Records dropped, by reason (law 11); the engine counts them.
    pub dropped: Vec<(NodeId, &'static str)>,
    /// The same for many at a time.
    pub dropped_more: Vec<(NodeId, &'static str, u64)>,
    /// Records that failed and were left out: the engine counts and logs them and sends their letters.
    pub handled: Vec<Handled>,
    /// Of an operator that chooses among its children ([`Operator::routes`]): for each record it has
    /// put into `out`, the child it is for, or [`ALL_CHILDREN`].
    pub routes: Vec<u32>,
    /// An operator asks for a commit soon (`context.commit()`).
    pub commit_asked: bool,
}

/// What an operator may touch.
#[derive(Debug)]
pub struct Context<'a> {
    /// The lane's open epoch.
    pub epoch: Epoch,
    /// Stores by number (the lane's view of all of them: law 3).
    pub stores: &'a mut [LaneStore],
    /// What leaves the lane.
    pub effects: &'a mut Effects,
    /// Stream time, as this lane sees it.
    pub clocks: &'a mut LaneClocks,
    /// Which keys are this lane's.
    pub share: Share,
    /// What all lanes of the run share, such as when punctuations are due.
    pub run: &'a Arc<RunCoordinator>,
}

impl Context<'_> {
    /// Where errors of this moment happen.
    pub(crate) const fn error_origin(&self) -> ErrorOrigin {
        ErrorOrigin {
            lane: Lane(self.share.lane),
            epoch: self.epoch,
        }
    }

    /// A store by its number.
    pub fn store(&mut self, id: StoreId) -> &mut LaneStore {
        &mut self.stores[usize::from(id.0)]
    }
}

/// One step of a stage. One instance per lane; state lives in stores, not here.
pub trait Operator: Send {
    /// Takes all of `input` (leaves it empty), appends to `out` what its children get, in order.
    ///
    /// # Errors
    /// `User` and `Serde` with the origin of the record; what stores fail with.
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()>;

    /// Called once, before anything else, when all stores are restored: loads what the operator keeps
    /// in memory beside its stores (what waits for a time, of this lane's keys).
    ///
    /// # Errors
    /// As `process`.
    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let _unused = context;
        Ok(())
    }

    /// Does it choose among its children (see [`Effects::routes`])?
    fn routes(&self) -> bool {
        false
    }

    /// Does it hold back what need not wait for the barrier (see [`Self::on_idle`])?
    fn buffers(&self) -> bool {
        false
    }

    /// Nothing waits in front of the lane: what was held back only because more of it might come goes to
    /// other lanes. Of operators that gather.
    fn on_idle(&mut self, context: &mut Context<'_>) {
        let _unused = context;
    }

    /// All records of a tick are through, and time is the same in all lanes: forwards what records of other
    /// lanes have made due. Not called with a single lane, where `process` has done it already.
    ///
    /// # Errors
    /// As `process`.
    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// After the barrier, within the same epoch: the views of all lanes on time were merged. Forwards
    /// what is due by them. Not called with a single lane, where `process` has done it already.
    ///
    /// # Errors
    /// As `process`.
    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// Runs the punctuations that are due, at an aligned cut: all lanes stand still. Called for one lane
    /// only (the first), also with a single one, before `advance`.
    ///
    /// # Errors
    /// As `process`.
    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// Wall time (milliseconds) at which [`Self::punctuate`] next has something to do; `None`: whenever.
    /// Asked of the lane that punctuates, after `open` and after each barrier: an idle engine puts a
    /// barrier in at that time.
    fn next_punctuation(&self) -> Option<i64> {
        None
    }

    /// The engine stops, or the chain is thrown away.
    fn close(&mut self) {}

    /// The epoch ends: forwards what was held back (cached updates).
    ///
    /// # Errors
    /// As `process`.
    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }
}

/// Moves everything from `input` to the end of `out`; a swap if `out` is empty, which it is in a chain.
pub(crate) fn pour(input: &mut Vec<Record>, out: &mut Vec<Record>) {
    if out.is_empty() {
        std::mem::swap(input, out);
    } else {
        out.append(input);
    }
}
