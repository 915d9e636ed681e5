//! Random messages against the crate `prost-reflect`, which decodes them whole.

use super::*;
use crate::{Leaf, Maker};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost_reflect::{FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};
use std::collections::{BTreeMap, HashMap};
use stoatflow_core::{Error, Result};

/// All kinds of fields, in proto2 and proto3.
const ALL: &str = r#"
syntax = "proto3";
package r;
import "google/protobuf/wrappers.proto";
message All {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6; sint32 s32 = 7;
  sint64 s64 = 8; fixed32 f32 = 9; fixed64 f64 = 10; sfixed32 sf32 = 11; sfixed64 sf64 = 12; bool b = 13;
  string s = 14; bytes by = 15; E e = 16; All all = 17;
  optional int32 o = 18; optional string os = 19; optional E oe = 20;
  repeated double rd = 21; repeated int32 ri = 22 [packed = false]; repeated sint64 rs = 23; repeated bool rb = 24;
  repeated string rt = 25; repeated E re = 26; repeated All ra = 27; repeated fixed32 rf = 28;
  map<string, int32> m1 = 29; map<int64, string> m2 = 30; map<bool, All> m3 = 31; map<uint64, E> m4 = 32;
  oneof choice { int32 c1 = 33; string c2 = 34; All c3 = 35; google.protobuf.StringValue c4 = 36; }
  google.protobuf.UInt64Value w = 100; repeated google.protobuf.StringValue rw = 1000;
  map<string, google.protobuf.BytesValue> mw = 5000;
}
enum E { A = 0; B = 1; C = -5; }
"#;

const BOTH: [(&str, &str); 2] = [(ALL, "r.All"), (OLD, "old.Old")];

fn descriptor(text: &str, message: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(&*of_text(text, &[]).unwrap()).unwrap();
    pool.get_message_by_name(message).unwrap()
}

/// A value, independent of its format.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    Int(i128),
    /// As bits, because NaN equals nothing.
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Plain>),
    Object(BTreeMap<String, Plain>),
}

struct Plainly;

impl Maker for Plainly {
    type Made = Plain;
    type Object = BTreeMap<String, Plain>;
    type Trouble = Error;

    fn leaf(&mut self, leaf: Leaf<'_>) -> Result<Plain> {
        Ok(match leaf {
            Leaf::Null => Plain::Null,
            Leaf::Bool(truth) => Plain::Bool(truth),
            Leaf::Int(number) => Plain::Int(number.into()),
            Leaf::Large(number) => Plain::Int(number.into()),
            Leaf::Float(number) => Plain::Float(number.to_bits()),
            Leaf::Text(text) => Plain::Text(text.into()),
            Leaf::Bytes(bytes) => Plain::Bytes(bytes.into()),
        })
    }

    fn list(&mut self, items: Vec<Plain>) -> Result<Plain> {
        Ok(Plain::List(items))
    }

    fn object(&mut self) -> Self::Object {
        BTreeMap::new()
    }

    fn member(&mut self, object: &mut Self::Object, name: &str, value: Plain) -> Result<()> {
        assert!(object.insert(name.into(), value).is_none(), "{name} twice");
        Ok(())
    }

    fn done(&mut self, object: Self::Object) -> Plain {
        Plain::Object(object)
    }
}

/// The expected value of a message, as documented on the page about values.
fn expected(message: &DynamicMessage) -> Plain {
    let of = message.descriptor();
    if of.full_name().starts_with("google.protobuf.") {
        let field = of.get_field(1).unwrap();
        return plain(&field.kind(), &message.get_field(&field));
    }
    let members = of.fields().map(|field| {
        let said = field.field_descriptor_proto().default_value.is_some();
        let unset = field.supports_presence() && !message.has_field(&field);
        let value = match unset && !said {
            true => Plain::Null,
            false => plain(&field.kind(), &message.get_field(&field)),
        };
        (field.name().to_owned(), value)
    });
    Plain::Object(members.collect())
}

fn plain(kind: &Kind, value: &Value) -> Plain {
    match value {
        Value::Bool(truth) => Plain::Bool(*truth),
        Value::I32(number) => Plain::Int((*number).into()),
        Value::I64(number) => Plain::Int((*number).into()),
        Value::U32(number) => Plain::Int((*number).into()),
        Value::U64(number) => Plain::Int((*number).into()),
        Value::F32(number) => Plain::Float(f64::from(*number).to_bits()),
        Value::F64(number) => Plain::Float(number.to_bits()),
        Value::String(text) => Plain::Text(text.clone()),
        Value::Bytes(bytes) => Plain::Bytes(bytes.to_vec()),
        Value::EnumNumber(number) => match kind.as_enum().unwrap().get_value(*number) {
            Some(word) => Plain::Text(word.name().into()),
            None => Plain::Int((*number).into()),
        },
        Value::Message(message) => expected(message),
        Value::List(items) => Plain::List(items.iter().map(|item| plain(kind, item)).collect()),
        Value::Map(entries) => {
            let entry = kind.as_message().unwrap();
            let of = entry.map_entry_value_field().kind();
            let entries = entries.iter().map(|(name, value)| {
                let name = match name {
                    MapKey::Bool(truth) => truth.to_string(),
                    MapKey::I32(number) => number.to_string(),
                    MapKey::I64(number) => number.to_string(),
                    MapKey::U32(number) => number.to_string(),
                    MapKey::U64(number) => number.to_string(),
                    MapKey::String(text) => text.clone(),
                };
                (name, plain(&of, value))
            });
            Plain::Object(entries.collect())
        }
    }
}

fn scalars(kind: &Kind) -> BoxedStrategy<Value> {
    match kind {
        Kind::Double => any::<f64>().prop_map(Value::F64).boxed(),
        // A signalling NaN becomes a quiet one when it is converted to a wider type.
        Kind::Float => any::<f32>()
            .prop_filter("a number", |x| !x.is_nan())
            .prop_map(Value::F32)
            .boxed(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => any::<i32>().prop_map(Value::I32).boxed(),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => any::<i64>().prop_map(Value::I64).boxed(),
        Kind::Uint32 | Kind::Fixed32 => any::<u32>().prop_map(Value::U32).boxed(),
        Kind::Uint64 | Kind::Fixed64 => any::<u64>().prop_map(Value::U64).boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::String => ".{0,4}".prop_map(Value::String).boxed(),
        Kind::Bytes => vec(any::<u8>(), 0..4)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        Kind::Enum(_) => prop_oneof![0..4, Just(-5)]
            .prop_map(Value::EnumNumber)
            .boxed(),
        Kind::Message(_) => unreachable!("is no scalar"),
    }
}

fn values(kind: &Kind, depth: usize) -> BoxedStrategy<Value> {
    match kind {
        Kind::Message(of) => messages(of, depth + 1).prop_map(Value::Message).boxed(),
        kind => scalars(kind),
    }
}

fn keys(kind: &Kind) -> BoxedStrategy<MapKey> {
    let key = |value| match value {
        Value::Bool(truth) => MapKey::Bool(truth),
        Value::I32(number) => MapKey::I32(number),
        Value::I64(number) => MapKey::I64(number),
        Value::U32(number) => MapKey::U32(number),
        Value::U64(number) => MapKey::U64(number),
        Value::String(text) => MapKey::String(text),
        other => unreachable!("{other:?} is no key"),
    };
    scalars(kind).prop_map(key).boxed()
}

fn field(field: &FieldDescriptor, depth: usize) -> BoxedStrategy<Option<Value>> {
    let kind = field.kind();
    if field.is_map() {
        let entry = kind.as_message().unwrap();
        let of = entry.map_entry_value_field().kind();
        if matches!(of, Kind::Message(_)) && depth > 1 {
            return Just(None).boxed();
        }
        let entries = vec(
            (
                keys(&entry.map_entry_key_field().kind()),
                values(&of, depth),
            ),
            0..3,
        );
        let entries =
            entries.prop_map(|all| Value::Map(all.into_iter().collect::<HashMap<_, _>>()));
        return option::of(entries).boxed();
    }
    if matches!(kind, Kind::Message(_)) && depth > 1 {
        return Just(None).boxed();
    }
    if field.is_list() {
        let items = vec(values(&kind, depth), 0..3).prop_map(Value::List);
        return option::of(items).boxed();
    }
    if field.is_required() {
        return values(&kind, depth).prop_map(Some).boxed();
    }
    option::weighted(0.4, values(&kind, depth)).boxed()
}

fn messages(of: &MessageDescriptor, depth: usize) -> BoxedStrategy<DynamicMessage> {
    let described: Vec<FieldDescriptor> = of.fields().collect();
    let all: Vec<_> = described.iter().map(|each| field(each, depth)).collect();
    let of = of.clone();
    all.prop_map(move |values| {
        let mut message = DynamicMessage::new(of.clone());
        for (field, value) in described.iter().zip(values) {
            if let Some(value) = value {
                message.set_field(field, value);
            }
        }
        message
    })
    .boxed()
}

fn made(value: &Datum) -> Plain {
    make(ProtobufValue::of(value).unwrap(), &mut Plainly).unwrap()
}

/// A part that was read by a path.
fn of_datum(datum: &Datum) -> Plain {
    match datum {
        Datum::Null => Plain::Null,
        Datum::Bool(truth) => Plain::Bool(*truth),
        Datum::Int(number) => Plain::Int((*number).into()),
        Datum::Json(digits) => Plain::Int(std::str::from_utf8(digits).unwrap().parse().unwrap()),
        Datum::Float(number) => Plain::Float(number.to_bits()),
        Datum::Str(text) => Plain::Text(text.as_str().into()),
        Datum::Bytes(bytes) => Plain::Bytes(bytes.to_vec()),
        value => made(value),
    }
}

fn to_datum(plain: &Plain) -> Datum {
    match plain {
        Plain::Null => Datum::Null,
        Plain::Bool(truth) => Datum::Bool(*truth),
        Plain::Int(number) => i64::try_from(*number)
            .map_or_else(|_| Datum::Json(number.to_string().into()), Datum::Int),
        Plain::Float(bits) => Datum::Float(f64::from_bits(*bits)),
        Plain::Text(text) => Datum::text(text.clone()),
        Plain::Bytes(bytes) => Datum::Bytes(bytes.clone().into()),
        Plain::List(items) => Datum::List(items.iter().map(to_datum).collect()),
        Plain::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (Text::from(name.as_str()), to_datum(value)));
            Fields(members.collect()).datum()
        }
    }
}

/// Compares the value at every path.
fn walked<'p>(value: &ProtobufValue, plain: &'p Plain, here: &mut Vec<PathStep<'p>>) {
    let found = value.walk(here.iter().copied()).unwrap();
    assert_eq!(&of_datum(&found), plain, "{here:?}");
    match plain {
        Plain::List(items) => {
            for (at, item) in items.iter().enumerate() {
                here.push(PathStep::Element(at));
                walked(value, item, here);
                here.pop();
            }
        }
        Plain::Object(members) => {
            for (name, member) in members {
                here.push(PathStep::Member(name));
                walked(value, member, here);
                here.pop();
            }
        }
        _ => {}
    }
}

/// Checks that all ways of reading agree with `prost-reflect`.
fn agrees(format: &Format, bytes: &[u8], theirs: &DynamicMessage) {
    let value = format.decode(&Bytes::copy_from_slice(bytes)).unwrap();
    let plain = expected(theirs);
    assert_eq!(made(&value), plain);
    walked(ProtobufValue::of(&value).unwrap(), &plain, &mut Vec::new());
}

/// Messages written by `prost-reflect`. (Its debug output of recursive types would never end.)
fn written(of: &MessageDescriptor) -> impl Strategy<Value = Vec<u8>> + use<> {
    messages(of, 0).prop_map(|message| message.encode_to_vec())
}

fn each(test: impl Fn(&Format, &MessageDescriptor)) {
    for (text, message) in BOTH {
        test(&format_of(text, message), &descriptor(text, message));
    }
}

fn run<S: Strategy>(strategy: S, test: impl Fn(S::Value)) {
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let done = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    done.unwrap();
}

#[test]
fn messages_are_read_as_they_were_written() {
    each(|format, of| {
        run(written(of), |bytes| {
            let theirs = DynamicMessage::decode(of.clone(), &*bytes).unwrap();
            agrees(format, &bytes, &theirs);
        });
    });
}

#[test]
fn messages_are_written_as_they_will_be_read() {
    each(|format, of| {
        run(written(of), |bytes| {
            let plain = expected(&DynamicMessage::decode(of.clone(), &*bytes).unwrap());
            let written = format.encode(&to_datum(&plain)).unwrap();
            let theirs = DynamicMessage::decode(of.clone(), &*written).unwrap();
            assert_eq!(expected(&theirs), plain);
            // A value put together from its parts is encoded to an equal value.
            let value = format.decode(&written).unwrap();
            let parts = Open::parts(ProtobufValue::of(&value).unwrap()).unwrap();
            let again = format.encode(&parts).unwrap();
            assert_eq!(made(&format.decode(&again).unwrap()), plain);
        });
    });
}

#[test]
fn pieces_of_messages_are_one_message() {
    each(|format, of| {
        run((written(of), written(of)), |(one, other)| {
            let bytes = [one, other].concat();
            let merged = DynamicMessage::decode(of.clone(), &*bytes).unwrap();
            agrees(format, &bytes, &merged);
        });
    });
}

#[test]
fn messages_that_prost_reflect_reads_are_read() {
    // `prost-reflect` accepts any wire type for the entry of a map.
    let without_maps = ALL.replace("  map<", "  // map<");
    for (text, message) in [(&*without_maps, "r.All"), (OLD, "old.Old")] {
        let (format, of) = (&format_of(text, message), descriptor(text, message));
        let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
        run((written(&of), changes), |(mut bytes, changes)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            // `prost-reflect` may refuse more, for example fields with another wire type.
            let read = format.decode(&Bytes::copy_from_slice(&bytes));
            match (DynamicMessage::decode(of.clone(), &*bytes), read) {
                (Ok(theirs), Ok(_)) => agrees(format, &bytes, &theirs),
                (Ok(_), Err(error)) => {
                    let said = error.to_string();
                    assert!(said.contains("required field"), "{said}");
                }
                (Err(_), Ok(value)) => {
                    let texts = make(ProtobufValue::of(&value).unwrap(), &mut Plainly);
                    assert!(texts.is_ok() || texts.unwrap_err().to_string().contains("UTF-8"));
                }
                (Err(_), Err(_)) => {}
            }
        });
    }
}

#[test]
fn random_bytes_never_panic() {
    each(|format, _| {
        run(vec(any::<u8>(), 0..40), |bytes| {
            if let Ok(value) = format.decode(&bytes.into()) {
                let texts = make(ProtobufValue::of(&value).unwrap(), &mut Plainly);
                assert!(texts.is_ok() || texts.unwrap_err().to_string().contains("UTF-8"));
            }
        });
    });
}
