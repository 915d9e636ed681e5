//! Foreign objects: how they are parked, and what is restored.

use super::parking::{ALONE, opened, restarted};
use crate::testing::manual_async_udf::{ManualAsyncUdf, calls_op, rig, rig_of, rows};
use crate::testing::{Rig, record};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use stoatflow_core::{CustomSerde, Datum, ErrorKind, Handler, Opaque, PlainJson};
use stoatflow_plan::{Form, Op, SerdeSpec};

#[derive(Debug)]
struct Object(Option<&'static str>);

impl Opaque for Object {
    fn to_json(&self) -> stoatflow_core::Result<bytes::Bytes> {
        let json = self.0.map(Into::into);
        json.ok_or_else(|| stoatflow_core::Error::serde("a Socket has no JSON form"))
    }
    fn type_name(&self) -> String {
        "Socket".into()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Parks a value and returns the restored one.
fn parked_and_back(value: Datum) -> Datum {
    let mut rig = rig(&ManualAsyncUdf::new(), 10, 0);
    rig.push(vec![stoatflow_core::Record {
        value,
        ..record("a", "", 1)
    }])
    .unwrap();
    rig.barrier();
    restarted(&mut rig, ALONE).values().remove(0)
}

#[test]
fn an_object_of_the_foreign_language_comes_back_as_one_and_not_as_json_that_was_read() {
    let object = |json| Datum::Opaque(Arc::new(Object(Some(json))));
    let plain = |value: &Datum| match value {
        Datum::Opaque(object) if object.as_any().is::<PlainJson>() => object.to_json().unwrap(),
        other => panic!("an object was expected, found {other:?}"),
    };
    assert_eq!(plain(&parked_and_back(object("[1,2]"))), "[1,2]");
    assert_eq!(plain(&parked_and_back(object("{}"))), "{}");
    let Datum::List(items) = parked_and_back(Datum::List([object("{}")].into())) else {
        panic!("a list was expected");
    };
    assert_eq!(plain(&items[0]), "{}");
    // These can't be changed, or were read as plain JSON.
    assert_eq!(
        parked_and_back(object("\"text\"")),
        Datum::Json("\"text\"".into())
    );
    assert_eq!(
        parked_and_back(Datum::Json("{}".into())),
        Datum::Json("{}".into())
    );
}

#[test]
fn a_row_of_an_object_that_was_written_as_read_json_is_still_read() {
    let mut rig = rig(&ManualAsyncUdf::new(), 10, 0);
    let mut row = bytes::BytesMut::from(&[1][..]);
    row.extend(7_i64.to_be_bytes());
    row.extend([0; 4]);
    row.extend([&[0, 0, 0, 2], &b"in"[..], &[0; 4], &[0; 8]].concat());
    row.extend(0_i32.to_be_bytes());
    row.extend([&[5, 0, 0, 0, 1], &b"a"[..], &[6, 0, 0, 0, 2], b"{}"].concat());
    let stored = stoatflow_state::Stored {
        value: Datum::Bytes(row.freeze()),
        timestamp: stoatflow_core::Timestamp(7),
    };
    let store = &mut rig.stores[3];
    let key = "\u{1}a\0\0\0\0\0\0\0\u{1}".into();
    store
        .store
        .put(rig.epoch, &mut store.dirty, &key, Some(stored))
        .unwrap();
    let manual = restarted(&mut rig, ALONE);
    assert_eq!(manual.values(), [Datum::Json("{}".into())]);
}

/// An object that its function changes, of a runtime that counts how often it was entered.
#[derive(Debug, Default)]
struct Order {
    total: AtomicI64,
    entered: Arc<AtomicUsize>,
}

impl Opaque for Order {
    fn to_json(&self) -> stoatflow_core::Result<bytes::Bytes> {
        let total = self.total.load(Relaxed);
        if total < 0 {
            return Err(stoatflow_core::Error::serde("debts have no form"));
        }
        Ok(total.to_string().into())
    }
    fn type_name(&self) -> String {
        "Order".into()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        self.entered.fetch_add(1, Relaxed);
        body();
    }
}

/// Records with such values.
fn orders(entered: &Arc<AtomicUsize>, totals: &[i64]) -> Vec<stoatflow_core::Record> {
    let order = |total: i64| Order {
        total: total.into(),
        entered: Arc::clone(entered),
    };
    let all = (0..).zip(totals).map(|(at, total)| stoatflow_core::Record {
        value: Datum::Opaque(Arc::new(order(*total))),
        ..record(&format!("k{at}"), "", at)
    });
    all.collect()
}

fn totals_of(values: &[Datum]) -> Vec<String> {
    let json = |value: &Datum| match value {
        Datum::Opaque(order) => order.to_json().unwrap(),
        Datum::Json(text) => text.clone(),
        other => panic!("an order was expected, found {other:?}"),
    };
    let text = |value| String::from_utf8(json(value).to_vec()).unwrap();
    values.iter().map(text).collect()
}

#[test]
fn a_call_begins_again_with_what_it_got_and_not_with_what_it_made_of_it() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let mut all = orders(&Arc::default(), &[100]);
    // Nested as well.
    let within = std::mem::take(&mut orders(&Arc::default(), &[7])[0].value);
    all.push(stoatflow_core::Record {
        value: Datum::List([within.clone()].into()),
        ..record("l", "", 9)
    });
    rig.push(all).unwrap();
    for value in [&manual.values()[0], &within] {
        let Datum::Opaque(order) = value else {
            panic!("an order was expected, found {value:?}");
        };
        let order: &Order = order.as_any().downcast_ref().unwrap();
        order.total.fetch_add(100, Relaxed);
    }
    rig.barrier();
    assert_eq!(rows(&rig), 2);
    let manual = restarted(&mut rig, ALONE);
    let values = manual.values();
    let Datum::List(within) = &values[1] else {
        panic!("a list was expected, found {values:?}");
    };
    let first = totals_of(&[values[0].clone(), within[0].clone()]);
    assert_eq!(first, ["100", "7"]);
}

#[test]
fn foreign_values_of_a_batch_are_written_with_one_entry_and_a_handler_decides_outside() {
    let entered = Arc::default();
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(orders(&entered, &[1, 2, 3])).unwrap();
    rig.barrier();
    assert_eq!((rows(&rig), entered.load(Relaxed)), (3, 1));
    let (op, leave_out) = (calls_op(Form::MapValues, 10, 0), Handler::Continue);
    let mut lenient = rig_of(&ManualAsyncUdf::new(), op, Some(leave_out)).unwrap();
    entered.store(0, Relaxed);
    lenient.push(orders(&entered, &[1, -1, 3, -1])).unwrap();
    lenient.barrier();
    assert_eq!((rows(&lenient), lenient.handled().len()), (2, 2));
    assert_eq!(entered.load(Relaxed), 3, "left for each that has failed");
}

/// The user's own serde, which can serialize sockets.
#[derive(Debug)]
struct Sockets;

impl CustomSerde for Sockets {
    fn name(&self) -> &str {
        "sockets"
    }
    fn encode(&self, value: &Datum) -> stoatflow_core::Result<bytes::Bytes> {
        let Datum::Opaque(object) = value else {
            return Err(stoatflow_core::Error::serde("no Socket"));
        };
        let held = object.as_any().downcast_ref::<Object>();
        Ok(held.and_then(|held| held.0).unwrap_or("closed").into())
    }
    fn decode(&self, bytes: &bytes::Bytes) -> stoatflow_core::Result<Datum> {
        assert_eq!(&bytes[..], b"closed");
        Ok(Datum::Opaque(Arc::new(Object(None))))
    }
}

/// Calls whose values have the user's serde, or no longer have it.
fn with_sockets(manual: &Arc<ManualAsyncUdf>, still: bool) -> Rig {
    let mut op = calls_op(Form::MapValues, 10, 0);
    if let (Op::Calls { value, .. }, true) = (&mut op, still) {
        *value = SerdeSpec::Custom { custom: 0 };
    }
    let mut plan = crate::testing::plan(crate::testing::into_sink(op, 0));
    plan.stores
        .push(crate::testing::manual_async_udf::parked(&plan));
    let foreign = crate::ForeignCode {
        serdes: vec![Arc::new(Sockets)],
        ..crate::testing::manual_async_udf::foreign(manual)
    };
    Rig::of_foreign(&plan, &foreign, false).unwrap()
}

#[test]
fn a_value_of_the_users_serde_is_parked_with_it_and_says_when_that_is_lost() {
    let mut rig = with_sockets(&ManualAsyncUdf::new(), true);
    let mut one = record("a", "", 1);
    one.value = Datum::Opaque(Arc::new(Object(None)));
    rig.push(vec![one]).unwrap();
    rig.barrier();
    assert_eq!(rows(&rig), 1);
    let manual = ManualAsyncUdf::new();
    rig.assignment = ALONE;
    rig.reopen(with_sockets(&manual, true));
    let values = manual.values();
    let [Datum::Opaque(socket)] = values.as_slice() else {
        panic!("a Socket was expected, found {values:?}");
    };
    assert_eq!(socket.type_name(), "Socket");
    let error = opened(&mut rig, with_sockets(&ManualAsyncUdf::new(), false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.next_step().contains("the serde it had"), "{error}");
}

#[test]
fn a_value_that_can_not_be_parked_is_found_out_before_the_call() {
    let manual = ManualAsyncUdf::new();
    let mut one = record("a", "", 1);
    one.value = Datum::Opaque(Arc::new(Object(None)));
    let mut rig = rig(&manual, 10, 0);
    let error = rig.push(vec![one.clone()]).unwrap_err();
    assert!(error.next_step().contains("a Socket"), "{error}");
    assert!(error.coordinates().offset.is_some());
    // A handler may leave it out.
    let leave_out = Some(Handler::Continue);
    let mut lenient = rig_of(&manual, calls_op(Form::MapValues, 10, 0), leave_out).unwrap();
    lenient.push(vec![one]).unwrap();
    assert_eq!(lenient.handled().len(), 1);
    assert!(manual.running().is_empty());
}
