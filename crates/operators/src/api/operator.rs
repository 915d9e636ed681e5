//! The contract of an operator, and what it may access while it runs.

use crate::api::clocks::LaneClocks;
use crate::api::key_assignment::KeyAssignment;
use crate::api::run_coordinator::RunCoordinator;
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

/// The target of an output, as far as functions chose it.
#[derive(Clone, Debug)]
pub struct OutputTarget {
    /// The topic, if a function chose it.
    pub topic: Option<Arc<str>>,
    /// The partition, if a function chose it.
    pub partition: Option<Partition>,
}

/// An encoded record for a sink.
#[derive(Clone, Debug)]
pub struct Output {
    /// The sink that sends it.
    pub sink: SinkId,
    /// Its target, if functions chose it. Boxed: without it an output is short enough to be moved in
    /// registers; with the two fields in it, every move is a call.
    pub chosen: Option<Box<OutputTarget>>,
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
    /// The stage it is sent to.
    pub stage: StageId,
    /// Hash of the key's bytes; the engine maps it to a lane.
    pub hash: u64,
    /// The record.
    pub record: Record,
}

/// Route of a record that goes to every child.
pub const ALL_CHILDREN: u32 = u32::MAX;

/// What leaves a lane while it processes a batch.
#[derive(Debug, Default)]
pub struct Effects {
    /// Outputs for the outbox.
    pub outputs: Vec<Output>,
    /// Records for other lanes.
    pub routed: Vec<Routed>,
    /// Records dropped, by reason (law 11); the engine counts them.
    pub dropped: Vec<(NodeId, &'static str)>,
    /// Drops of many records at a time, with their number.
    pub dropped_more: Vec<(NodeId, &'static str, u64)>,
    /// Records that failed and were left out: the engine counts and logs them and sends their dead
    /// letters.
    pub handled: Vec<Handled>,
    /// For an operator that chooses among its children ([`Operator::routes`]): for each record that it
    /// has put into `out`, the child that gets it, or [`ALL_CHILDREN`].
    pub routes: Vec<u32>,
    /// True if an operator has asked for an early commit (`context.commit()`).
    pub commit_asked: bool,
}

/// What an operator may access.
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
    /// Which keys belong to this lane.
    pub assignment: KeyAssignment,
    /// What all lanes of the run share, such as when punctuations are due.
    pub run: &'a Arc<RunCoordinator>,
}

impl Context<'_> {
    /// The lane and epoch that errors are reported with.
    pub(crate) const fn error_origin(&self) -> ErrorOrigin {
        ErrorOrigin {
            lane: Lane(self.assignment.lane),
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
    /// Consumes all of `input` (leaves it empty), and appends the records for its children to `out`, in
    /// order.
    ///
    /// # Errors
    /// `User` and `Serde` with the origin of the record; errors of stores.
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()>;

    /// Called once, before anything else, when all stores are restored: loads what the operator keeps in
    /// memory beside its stores (this lane's keys that wait for a time).
    ///
    /// # Errors
    /// As `process`.
    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let _unused = context;
        Ok(())
    }

    /// Whether it chooses among its children (see [`Effects::routes`]).
    fn routes(&self) -> bool {
        false
    }

    /// Whether it holds back records that need not wait for the barrier (see [`Self::on_idle`]).
    fn buffers(&self) -> bool {
        false
    }

    /// Called when no input waits for the lane: sends records to other lanes that were held back only
    /// because more might come. For operators that buffer.
    fn on_idle(&mut self, context: &mut Context<'_>) {
        let _unused = context;
    }

    /// Called when all records of a tick are processed and time is the same in all lanes: forwards what
    /// records of other lanes have made due. Not called with a single lane, where `process` has done it
    /// already.
    ///
    /// # Errors
    /// As `process`.
    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// Called after the barrier, within the same epoch, when the times of all lanes are merged: forwards
    /// what is due by them. With a single lane called only if time is the watermark; otherwise `process`
    /// has done it already.
    ///
    /// # Errors
    /// As `process`.
    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// Runs the punctuations that are due, at an aligned cut, while all lanes stand still. Called for
    /// the first lane only, even if it is the only one, before `advance`.
    ///
    /// # Errors
    /// As `process`.
    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }

    /// Wall time (milliseconds) at which [`Self::punctuate`] next has something to do; `None`: no
    /// particular time. Called for the lane that punctuates, after `open` and after each barrier: an
    /// idle engine inserts a barrier at that time.
    fn next_punctuation(&self) -> Option<i64> {
        None
    }

    /// Called when the engine stops, or the chain is discarded.
    fn close(&mut self) {}

    /// Called at the end of the epoch: forwards what was held back (cached updates).
    ///
    /// # Errors
    /// As `process`.
    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let _unused = (out, context);
        Ok(())
    }
}

/// Moves everything from `input` to the end of `out`; a swap if `out` is empty, which it is in a chain.
pub(crate) fn move_records(input: &mut Vec<Record>, out: &mut Vec<Record>) {
    if out.is_empty() {
        std::mem::swap(input, out);
    } else {
        out.append(input);
    }
}
