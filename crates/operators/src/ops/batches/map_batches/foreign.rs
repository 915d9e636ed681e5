//! Turns objects of the foreign language into a form that batches can be read from.
//!
//! Takes records, returns them with JSON or native parts in place of such objects. The interpreter is
//! attached once for all of them, and not while a lock is held. Most become JSON; if columns may hold
//! bytes, objects that contain bytes become their parts. Objects with neither form stay: the reader
//! reports them.

use super::schema_values::may_hold_bytes;
use crate::Udf;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Datum, Fields, Record};
use stoatflow_formats::Value;

/// The same records without foreign objects; `None`: there are none. `bytes`: whether columns may hold
/// bytes.
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
            // Keys with members become JSON text in any case.
            native(&mut row.key, false);
            native(&mut row.value, bytes);
        }
    });
    Some(plain)
}

/// Whether it contains an object of the foreign language. Values of formats with a schema don't count:
/// they are read in place.
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
