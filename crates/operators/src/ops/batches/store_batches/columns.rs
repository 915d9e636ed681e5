//! Which columns a store has, and in which order they are shown.
//!
//! Takes the schema that was given, serdes and kind of the store; what they leave open is looked for in all
//! rows.

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

/// What is known beforehand, and what is not.
pub(super) fn layout(
    schema: Option<&[Column]>,
    kind: StoreKind,
    key: &Serde,
    value: &Serde,
) -> (Layout, Open) {
    let mut layout = Layout::new(schema);
    // The keys of a table may be windowed in themselves.
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

/// The type that a serde gives to all that it reads; `None`: it depends.
const fn type_of(serde: &Serde) -> Option<ColumnType> {
    match serde {
        Serde::Bytes => Some(ColumnType::Binary),
        Serde::String => Some(ColumnType::String),
        Serde::Int32 | Serde::Int64 => Some(ColumnType::Int64),
        Serde::Double => Some(ColumnType::Float64),
        Serde::Json | Serde::Custom(_) | Serde::TimeWindowed { .. } | Serde::SessionWindowed(_) => {
            None
        }
    }
}

/// Looks at all rows.
pub(super) fn survey(mut layout: Layout, open: Open, rows: &mut Rows) -> Result<Layout> {
    while let Some(page) = rows.next_page()? {
        layout.survey(&page, open.keys, NO_ROWS);
    }
    Ok(layout)
}

/// The places of the shown columns among those that a reader makes: the key, its window, the value, the time.
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
