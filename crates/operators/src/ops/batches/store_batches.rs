//! The rows of a store as Arrow batches, for queries from outside the lanes.
//!
//! Takes a snapshot of committed rows, returns batches of columns in the order of the store's keys, a
//! page at a time: like the batches of `map_batches`, but with the key first. If the columns are
//! inferred from JSON, the store is read twice, so that the columns fit every row. Expired windows and
//! sessions are hidden, as for other reads; of versioned rows only the latest is returned. Never changes
//! a row, never holds more of the store than a page.

mod columns;
mod rows;
#[cfg(test)]
mod tests;

use crate::ForeignCode;
use crate::ops::batches::map_batches::{ErrorTexts, Layout, Reader, Shared};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::RwLock;
use rows::Rows;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result, Serde};
use stoatflow_plan::{Column, PhysicalPlan, Store, StoreKind};
use stoatflow_state::Snapshot;

/// Maximum bytes of keys and values in a page, exceeded by at most one entry.
const MOST_BYTES: usize = 8 << 20;

/// There are no row numbers: a store has no order other than that of its keys.
const NO_ROWS: &str = "";

/// The texts for a query.
const QUERY: ErrorTexts = ErrorTexts {
    give: "give the columns and their types: schema=pa.schema([...])",
    known: "the values before it have",
    mixed: "a store whose values are objects and others has no common columns; read it with a processor",
    wrong: "give the column another type in schema=, or leave it out",
};

/// A snapshot that can be revoked while it is read, so that the state can be closed.
#[derive(Debug)]
pub struct OpenSnapshot(RwLock<Option<Box<dyn Snapshot>>>);

impl OpenSnapshot {
    /// Opens it.
    #[must_use]
    pub fn new(snapshot: Box<dyn Snapshot>) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Some(snapshot))))
    }

    /// Revokes it; later reads get an error.
    pub fn close(&self) {
        let taken = self.0.write().take();
        drop(taken);
    }

    /// Reads from the snapshot.
    ///
    /// # Errors
    /// `Config` if it was closed, and errors of `read`.
    pub fn read<T>(&self, read: impl FnOnce(&dyn Snapshot) -> Result<T>) -> Result<T> {
        match &*self.0.read() {
            Some(snapshot) => read(snapshot.as_ref()),
            None => Err(Error::config(
                "the application has ended or restarted since the read of its store began",
            )
            .hint("read again when its state is RUNNING; to_arrow(...) reads all at once")),
        }
    }
}

/// A checked query of a store.
#[derive(Debug)]
pub struct StoreQuery {
    store: Store,
    key: Serde,
    value: Serde,
    schema: Option<Vec<Column>>,
    max_rows: usize,
}

impl StoreQuery {
    /// Checks everything that can be known without the state.
    ///
    /// # Errors
    /// `Config` if there is no such store, if it holds nothing that has columns, or if schema or
    /// `max_rows` are wrong.
    pub fn new(
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        name: &str,
        schema: Option<Vec<Column>>,
        max_rows: usize,
    ) -> Result<Self> {
        let store = plan.store_named(name)?;
        if matches!(store.kind, StoreKind::TimeOrdered | StoreKind::Timers) {
            return Err(Error::config(format!(
                "the store '{name}' keeps what waits for a time, in a form of its own: it has no columns"
            ))
            .hint("ask for a store of a table, an aggregation or a processor"));
        }
        let wrong = schema
            .as_deref()
            .and_then(|columns| stoatflow_plan::columns_problem(columns, &[]))
            .or_else(|| stoatflow_plan::rows_problem(max_rows));
        if let Some(problem) = wrong {
            return Err(
                Error::config(format!("the store '{name}' can't be read so: {problem}")).hint(
                    "write schema=pa.schema([(\"amount\", pa.float64())]), or leave schema= out",
                ),
            );
        }
        Ok(Self {
            store: store.clone(),
            key: foreign.serde(&store.key)?,
            value: match foreign.store_value(store)? {
                Serde::WithHeaders(inner) => Serde::WithoutHeaders(inner),
                value => value,
            },
            schema,
            max_rows,
        })
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Reads the store. `observed`: the highest timestamps that the store has seen, by task.
    ///
    /// # Errors
    /// Errors of the state and of custom serdes.
    pub fn ask(self, snapshot: Arc<OpenSnapshot>, observed: Vec<i64>) -> Result<StoreBatches> {
        let (layout, open) = columns::layout(
            self.schema.as_deref(),
            self.store.kind,
            &self.key,
            &self.value,
        );
        let mut rows = Rows::new(&self, snapshot, observed);
        let layout = if open.any() {
            let layout = columns::survey(layout, open, &mut rows)?;
            rows.rewind();
            layout
        } else {
            layout
        };
        Ok(StoreBatches::new(&self, rows, layout))
    }
}

/// The batches of a store.
#[derive(Debug)]
pub struct StoreBatches {
    name: String,
    rows: Rows,
    reader: Reader,
    /// Schema in the reader's order, and the order in which columns are returned.
    made: SchemaRef,
    order: Vec<usize>,
    schema: SchemaRef,
}

impl StoreBatches {
    fn new(query: &StoreQuery, rows: Rows, layout: Layout) -> Self {
        let made = layout.schema(NO_ROWS);
        let order = columns::order(&layout);
        let schema = columns::shown(&made, &order);
        Self {
            name: query.store.name.clone(),
            rows,
            reader: Reader::new(
                Arc::new(Shared::new(layout)),
                NO_ROWS,
                query.max_rows.min(4096),
                &QUERY,
            ),
            made,
            order,
            schema,
        }
    }

    /// Schema of all its batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// `Serde` for a row that doesn't fit the columns; errors of the state and of custom serdes.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(records) = self.rows.next_page()? else {
            return Ok(None);
        };
        let batch = match self.reader.read(&records, None)? {
            Ok(batch) => batch,
            Err(failed) => {
                let failed = failed.into_iter().next();
                let failed = failed.map(|f| (records.get(f.at).map(key_of), f.error));
                return Err(self.unfit(failed));
            }
        };
        if batch.schema_ref() != &self.made {
            return Err(Error::internal(format!(
                "the columns of the store '{}' have changed while it was read",
                self.name
            )));
        }
        let shown = batch.project(&self.order);
        shown
            .map(Some)
            .map_err(|e| Error::internal("a batch of a store can't be made").caused_by(e))
    }

    fn unfit(&self, failed: Option<(Option<String>, Error)>) -> Error {
        let Some((key, error)) = failed else {
            return Error::internal("a batch failed, and no row of it");
        };
        let key = key.unwrap_or_default();
        let next = error.next_step().to_owned();
        Error::serde(format!(
            "the store '{}' has no columns for the value of {key}: {}",
            self.name,
            error.message()
        ))
        .hint(next)
    }
}

/// A record's key, for a message.
fn key_of(record: &Record) -> String {
    let key = match &record.key {
        Datum::Windowed(window) => &window.key,
        key => key,
    };
    match key {
        Datum::Str(text) => format!("the key '{}'", short(text.as_str())),
        Datum::Int(number) => format!("the key {number}"),
        Datum::Float(number) => format!("the key {number}"),
        Datum::Json(json) => format!("the key {}", short(&String::from_utf8_lossy(json))),
        other => format!("a key of {}", other.type_name()),
    }
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
