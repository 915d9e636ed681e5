//! What a table tells its children: the new value, and the old one where a child needs it.
//!
//! Takes and gives values of records. An update is the plain new value, or a [`Change`] if a node below
//! asked for old values, or if the update is not the newest of its key (versioned tables): joins and
//! aggregations leave such updates out. Never decides who needs what: that is the plan's `old`.

use stoatflow_core::{Change, Datum, Record};

/// Both sides of an update; nothing is known before a plain value.
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

/// The new value, where it stands.
pub(crate) fn new(value: &Datum) -> &Datum {
    match value {
        Datum::Change(change) => &change.new,
        new => new,
    }
}

/// The value before; null if there was none, or it is unknown.
pub(crate) fn old(value: &Datum) -> &Datum {
    match value {
        Datum::Change(change) => &change.old,
        _ => &Datum::Null,
    }
}

/// Is it the newest of its key?
pub(crate) fn is_latest(value: &Datum) -> bool {
    match value {
        Datum::Change(change) => change.latest,
        _ => true,
    }
}

/// An update for children that need the old value, or don't.
pub(crate) fn make(with_old: bool, old: Datum, new: Datum, latest: bool) -> Datum {
    if with_old {
        Datum::change(old, new, latest)
    } else if latest {
        new
    } else {
        Datum::change(Datum::Null, new, false)
    }
}

/// Is there nothing in these records but plain values? Then functions may have the batch as it is.
pub(crate) fn all_plain(batch: &[Record]) -> bool {
    batch
        .iter()
        .all(|record| !matches!(record.value, Datum::Change(_) | Datum::Null))
}

/// Records for a function of a table: one for each new value, and each old one if they are asked for.
/// Null is nothing, and functions of tables never see it.
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
