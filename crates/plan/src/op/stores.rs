//! The stores and clocks of a node of the physical plan.
//!
//! Takes a node, returns the stores that it writes, those of tables that it looks up, the store that a
//! query of its name reads, and the clock that it advances.

use super::Op;
use stoatflow_core::{ClockId, StoreId};

impl Op {
    /// The stores it writes.
    #[must_use]
    pub fn stores(&self) -> Vec<StoreId> {
        match self {
            Self::TableSource { store, .. }
            | Self::Count { store, .. }
            | Self::Reduce { store, .. }
            | Self::Aggregate { store, .. }
            | Self::SlidingAggregate { store, .. }
            | Self::SessionAggregate { store, .. }
            | Self::TableAggregate { store, .. }
            | Self::ForeignAnswer { store, .. }
            | Self::Suppress { store, .. }
            | Self::Calls { store, .. }
            | Self::Offload { store, .. }
            | Self::OffloadAnswers { store, .. }
            | Self::Deduplicate { store, .. } => vec![*store],
            Self::TableFilter { store, .. }
            | Self::TableMapValues { store, .. }
            | Self::TableMerge { store, .. }
            | Self::StreamTableJoin { buffer: store, .. } => store.iter().copied().collect(),
            Self::WindowAggregate {
                store, positions, ..
            } => [Some(*store), *positions].into_iter().flatten().collect(),
            Self::TransformValues { store, stores, .. } => {
                store.iter().chain(stores).copied().collect()
            }
            Self::StreamJoin { own, pending, .. } => {
                [Some(*own), *pending].into_iter().flatten().collect()
            }
            Self::Process { stores, .. } => stores.clone(),
            Self::Expire {
                table,
                timers,
                of_processors: true,
                ..
            } => vec![*table, *timers],
            // The table's store belongs to the table, which is in the same stage.
            Self::Expire { timers, .. } => vec![*timers],
            _ => vec![],
        }
    }

    /// The stores of the tables in which it looks up each record.
    #[must_use]
    pub fn looked_up(&self) -> Vec<StoreId> {
        match self {
            Self::StreamTableJoin { table, .. } | Self::GlobalJoin { table, .. } => table.tables(),
            _ => vec![],
        }
    }

    /// The store of its result, which a query of its name reads.
    #[must_use]
    pub const fn store(&self) -> Option<StoreId> {
        match self {
            Self::TableSource { store, .. }
            | Self::Count { store, .. }
            | Self::Reduce { store, .. }
            | Self::Aggregate { store, .. }
            | Self::WindowAggregate { store, .. }
            | Self::SlidingAggregate { store, .. }
            | Self::SessionAggregate { store, .. }
            | Self::TableAggregate { store, .. } => Some(*store),
            Self::TableFilter { store, .. }
            | Self::TableMapValues { store, .. }
            | Self::TransformValues { store, .. }
            | Self::TableMerge { store, .. } => *store,
            _ => None,
        }
    }

    /// The clock it advances.
    #[must_use]
    pub const fn clock(&self) -> Option<ClockId> {
        match self {
            Self::WindowAggregate { clock, .. }
            | Self::SlidingAggregate { clock, .. }
            | Self::SessionAggregate { clock, .. }
            | Self::StreamJoin { clock, .. }
            | Self::Suppress { clock, .. }
            | Self::Deduplicate { clock, .. }
            | Self::Scheduled { clock, .. }
            | Self::Process { clock, .. }
            | Self::Expire { clock, .. } => Some(*clock),
            Self::StreamTableJoin { clock, .. } => *clock,
            _ => None,
        }
    }
}
