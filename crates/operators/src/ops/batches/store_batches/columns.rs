//! Which columns a store has, and in which order they are returned.
//!
//! Takes the schema of the query, and serdes and kind of the store; what they leave open is inferred
//! from all rows.

use super::NO_ROWS;
use super::rows::Rows;
use crate::ops::batches::map_batches::{Layout, Shape, VALUE, column};
use arrow_schema::{Schema, SchemaRef};
use std::sync::Arc;
use stoatflow_core::{Result, Serde};
use stoatflow_plan::{Column, ColumnType, StoreKind};

/// What only the rows can tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    keys: bool,
    values: bool,
}

impl Open {
    pub const fn any(self) -> bool {
        self.keys || self.values
    }
}

/// The layout as far as it is known beforehand, and what is still open.
pub(super) fn layout(
    schema: Option<&[Column]>,
    kind: StoreKind,
    key: &Serde,
    value: &Serde,
) -> (Layout, Open) {
    let mut layout = Layout::new(schema);
    // The keys of a table may be windowed themselves.
    let (key, windowed) = match key {
        Serde::TimeWindowed { inner, .. } | Serde::SessionWindowed(inner) => (&**inner, true),
        key => (key, false),
    };
    layout.windowed =
        windowed || matches!(kind, StoreKind::Window { .. } | StoreKind::Session { .. });
    if layout.key == ColumnType::Null {
        layout.key = type_of(key).unwrap_or(ColumnType::Null);
    }
    if let Some(kind) = type_of(value)
        && layout.shape == Shape::Unknown
    {
        layout.shape = Shape::Plain;
        if !layout.given {
            layout.columns = vec![column(VALUE, kind)];
        }
    }
    let open = Open {
        keys: layout.key == ColumnType::Null,
        values: layout.shape == Shape::Unknown,
    };
    (layout, open)
}

/// The type of all values that a serde reads; `None`: it depends on the value.
fn type_of(serde: &Serde) -> Option<ColumnType> {
    match serde {
        Serde::Bytes => Some(ColumnType::Binary),
        Serde::String => Some(ColumnType::String),
        Serde::Int32 | Serde::Int64 => Some(ColumnType::Int64),
        Serde::Double => Some(ColumnType::Float64),
        Serde::WithoutHeaders(inner) => type_of(inner),
        Serde::Json
        | Serde::Custom(_)
        | Serde::TimeWindowed { .. }
        | Serde::SessionWindowed(_)
        | Serde::WithHeaders(_) => None,
    }
}

/// Infers the layout from all rows.
pub(super) fn survey(mut layout: Layout, open: Open, rows: &mut Rows) -> Result<Layout> {
    while let Some(page) = rows.next_page()? {
        layout.survey(&page, open.keys, NO_ROWS);
    }
    Ok(layout)
}

/// Indexes of the returned columns among those of the reader: the key, its window, the value, the time.
pub(super) fn order(layout: &Layout) -> Vec<usize> {
    let values = layout.columns.len();
    let windows = if layout.windowed { 2 } else { 0 };
    let time = values + 1 + windows;
    let keys = values..time;
    keys.chain(0..values).chain([time]).collect()
}

pub(super) fn shown(made: &SchemaRef, order: &[usize]) -> SchemaRef {
    let fields = order.iter().map(|at| Arc::clone(&made.fields()[*at]));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
