//! The values that a table sends to its children: the new value, and the old one if a child needs it.
//!
//! Reads and makes values of records. An update is the plain new value, or a [`Change`] if a node
//! downstream needs old values or if the update is not the newest of its key (versioned tables). Joins
//! and aggregations leave such updates out. The plan's `old` decides which nodes need old values, never
//! this module.

use stoatflow_core::{Change, Datum, Record};

/// Both sides of an update; the old side of a plain value is null.
pub(crate) fn split(value: Datum) -> Change {
    match value {
        Datum::Change(change) => *change,
        new => Change {
            old: Datum::Null,
            new,
            latest: true,
        },
    }
}

/// The new value.
pub(crate) fn into_new(value: Datum) -> Datum {
    match value {
        Datum::Change(change) => change.new,
        new => new,
    }
}

/// The new value, by reference.
pub(crate) fn new(value: &Datum) -> &Datum {
    match value {
        Datum::Change(change) => &change.new,
        new => new,
    }
}

/// The old value; null if there was none, or it is unknown.
pub(crate) fn old(value: &Datum) -> &Datum {
    match value {
        Datum::Change(change) => &change.old,
        _ => &Datum::Null,
    }
}

/// Whether it is the newest update of its key.
pub(crate) fn is_latest(value: &Datum) -> bool {
    match value {
        Datum::Change(change) => change.latest,
        _ => true,
    }
}

/// An update, with the old value if `with_old`.
pub(crate) fn make(with_old: bool, old: Datum, new: Datum, latest: bool) -> Datum {
    if with_old {
        Datum::change(old, new, latest)
    } else if latest {
        new
    } else {
        Datum::change(Datum::Null, new, false)
    }
}

/// True if all values are plain and not null. Then functions can process the batch as it is.
pub(crate) fn all_plain(batch: &[Record]) -> bool {
    batch
        .iter()
        .all(|record| !matches!(record.value, Datum::Change(_) | Datum::Null))
}

/// Records for a function of a table: one for each new value and, `with_old`, for each old one.
/// Functions of tables are never called with null.
pub(crate) fn probe(batch: &[Record], with_old: bool, probes: &mut Vec<Record>) {
    probes.clear();
    for record in batch {
        let sides = [
            Some(new(&record.value)),
            with_old.then(|| old(&record.value)),
        ];
        let asked = sides.into_iter().flatten().filter(|value| !value.is_null());
        probes.extend(asked.map(|value| record.with_value(value.clone())));
    }
}
