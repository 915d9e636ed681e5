//! Joins of two streams, and state that the two sides of a join (or of an offload) share.

use super::{Builder, Built};
use crate::ops::joins::epoch_updates;
use crate::ops::joins::foreign_key::epoch_rows::SharedEpochRows;
use crate::ops::joins::stream_join::{Kept, Parts, Rows, Shape, Side, StreamJoin, Waiting};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use stoatflow_core::{ClockId, Error, NodeId, Result, StoreId};
use stoatflow_plan::{JoinKind, JoinWindow, Op, PhysicalNode, SerdeSpec};

/// State that two nodes of one operator share.
#[derive(Default)]
pub(super) struct Shared {
    /// Of a left or outer join of streams, by its store of unmatched records.
    waiting: RefCell<HashMap<StoreId, Arc<Mutex<Waiting>>>>,
    /// Of a join of tables, by the node that merges the two sides.
    updates: RefCell<HashMap<NodeId, epoch_updates::Shared>>,
    /// Of a foreign-key join, by its store of subscriptions.
    rights: RefCell<HashMap<StoreId, SharedEpochRows>>,
    /// Of an offload, by the node that takes its records.
    pub(super) processors: RefCell<HashMap<NodeId, crate::ops::offload::Shared>>,
}

impl Shared {
    pub fn right_rows(&self, subscriptions: StoreId) -> SharedEpochRows {
        let mut rows = self.rights.borrow_mut();
        Arc::clone(rows.entry(subscriptions).or_default())
    }

    pub fn updates(&self, merge: NodeId) -> epoch_updates::Shared {
        let mut updates = self.updates.borrow_mut();
        Arc::clone(updates.entry(merge).or_default())
    }
}

impl Builder<'_> {
    pub(super) fn joins(&self, node: &PhysicalNode) -> Built {
        let Op::StreamJoin {
            left,
            kind,
            window,
            own,
            other,
            pending,
            function,
            with_key,
            key,
            left_value,
            right_value,
            clock,
        } = &node.op
        else {
            return Ok(None);
        };
        let values = if *left {
            (left_value, right_value)
        } else {
            (right_value, left_value)
        };
        let (before_ms, after_ms) = if *left {
            (window.before_ms, window.after_ms)
        } else {
            (window.after_ms, window.before_ms)
        };
        let parts = Parts {
            node_context: self.node_context.clone(),
            side: if *left { Side::Left } else { Side::Right },
            outer: match kind {
                JoinKind::Inner => false,
                JoinKind::Left => *left,
                JoinKind::Outer => true,
            },
            before_ms,
            after_ms,
            own: self.side_store(*own)?,
            other: self.side_store(*other)?,
            key: self.foreign.serde(key)?,
            own_value: self.foreign.serde(values.0)?,
            other_value: self.foreign.serde(values.1)?,
            clock: *clock,
        };
        let rows = Rows::new(self.joiner(function, *with_key)?);
        let waiting = match pending {
            None => None,
            Some(store) => {
                let serdes = [key, left_value, right_value];
                Some(self.waiting(*store, (*kind, *clock), *window, serdes)?)
            }
        };
        Ok(Some(Box::new(StreamJoin::new(parts, rows, waiting))))
    }

    fn side_store(&self, store: StoreId) -> Result<Kept> {
        match self.kept(store)?.clock {
            Some(clock) => Ok(Kept { store, clock }),
            None => Err(Error::internal(format!("store {store} has no clock"))),
        }
    }

    /// Built by the first side of a join, found by the second one.
    fn waiting(
        &self,
        store: StoreId,
        (kind, clock): (JoinKind, ClockId),
        window: JoinWindow,
        [key, left, right]: [&SerdeSpec; 3],
    ) -> Result<Arc<Mutex<Waiting>>> {
        if let Some(found) = self.shared.waiting.borrow().get(&store) {
            return Ok(Arc::clone(found));
        }
        let JoinWindow {
            before_ms,
            after_ms,
            grace_ms,
        } = window;
        let shape = Shape {
            store,
            both: kind == JoinKind::Outer,
            key: self.foreign.serde(key)?,
            left_value: self.foreign.serde(left)?,
            right_value: self.foreign.serde(right)?,
            reach: [before_ms, after_ms].map(|reach| reach.saturating_add(grace_ms)),
        };
        let waiting = Arc::new(Mutex::new(Waiting::new(shape, clock)));
        let mut shared = self.shared.waiting.borrow_mut();
        shared.insert(store, Arc::clone(&waiting));
        Ok(waiting)
    }
}
