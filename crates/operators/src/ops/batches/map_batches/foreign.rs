//! Objects of the foreign language, as what batches are read from.
//!
//! Takes records, gives them with JSON or native parts in the place of such objects: the interpreter is
//! attached once for all of them, and not while a lock is held. JSON is the form of most; where columns may
//! hold bytes, what has some is its parts. What has neither form stays: who reads it says so.

use super::open::may_hold_bytes;
use crate::Udf;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Datum, Fields, Record};
use stoatflow_formats::Value;

/// The same records without foreign objects; `None`: there are none. `bytes`: may columns hold them?
pub(super) fn plain(udf: &dyn Udf, rows: &[Record], bytes: bool) -> Option<Vec<Record>> {
    let any = rows
        .iter()
        .any(|row| is_object(&row.value) || is_object(&row.key));
    if !any {
        return None;
    }
    let mut plain = rows.to_vec();
    udf.scope(&mut || {
        for row in &mut plain {
            // Keys with members are their JSON text in any case.
            native(&mut row.key, false);
            native(&mut row.value, bytes);
        }
    });
    Some(plain)
}

/// Does it hold an object of the foreign language? Values of formats with a schema are read where they lie.
fn is_object(datum: &Datum) -> bool {
    match datum {
        Datum::Opaque(_) => match Fields::of(datum) {
            Some(Fields(members)) => members.iter().any(|(_, value)| is_object(value)),
            None => Value::of(datum).is_none(),
        },
        Datum::List(items) => items.iter().any(is_object),
        _ => false,
    }
}

fn native(datum: &mut Datum, bytes: bool) {
    if !is_object(datum) {
        return;
    }
    if let Some(Fields(members)) = Fields::of(datum) {
        let mut members = members.clone();
        for (_, value) in &mut members {
            native(value, bytes);
        }
        *datum = Fields(members).datum();
        return;
    }
    let parts = match &*datum {
        Datum::Opaque(object) if bytes => object.parts().ok().flatten(),
        _ => None,
    };
    if let Some(parts) = parts
        && may_hold_bytes(&parts)
    {
        *datum = parts;
    } else if let Ok(json) = json_bytes(datum) {
        *datum = Datum::Json(json);
    }
}
