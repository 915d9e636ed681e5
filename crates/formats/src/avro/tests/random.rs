//! Random schemas and values: what `apache-avro` writes is read here, and vice versa.

use super::super::*;
use crate::{Leaf, Maker, PathStep};
use apache_avro::Schema as Parsed;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, HashMap};
use stoatflow_core::{CustomSerde, Datum, Fields, Opaque};

/// A schema without its names.
#[derive(Clone, Debug)]
enum Shape {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(usize),
    Array(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    Record(Vec<Shape>),
}

impl Shape {
    /// A union may contain only one type of each class.
    fn class(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean => 1,
            Self::Int => 2,
            Self::Long => 3,
            Self::Float => 4,
            Self::Double => 5,
            Self::Bytes => 6,
            Self::String => 7,
            Self::Fixed(_) => 8,
            Self::Enum(_) => 9,
            Self::Array(_) => 10,
            Self::Map(_) => 11,
            Self::Union(_) => 12,
            Self::Record(_) => 13,
        }
    }

    fn json(&self, names: &mut usize) -> serde_json::Value {
        use serde_json::json;
        *names += 1;
        let name = format!("N{names}");
        match self {
            Self::Null => json!("null"),
            Self::Boolean => json!("boolean"),
            Self::Int => json!("int"),
            Self::Long => json!("long"),
            Self::Float => json!("float"),
            Self::Double => json!("double"),
            Self::Bytes => json!("bytes"),
            Self::String => json!("string"),
            Self::Fixed(size) => json!({"type": "fixed", "name": name, "size": size}),
            Self::Enum(count) => {
                let symbols: Vec<String> = (0..*count).map(|n| format!("S{n}")).collect();
                json!({"type": "enum", "name": name, "symbols": symbols})
            }
            Self::Array(of) => json!({"type": "array", "items": of.json(names)}),
            Self::Map(of) => json!({"type": "map", "values": of.json(names)}),
            Self::Union(of) => of.iter().map(|each| each.json(names)).collect(),
            Self::Record(of) => {
                let fields = of.iter().enumerate().map(
                    |(at, field)| json!({"name": format!("f{at}"), "type": field.json(names)}),
                );
                let fields: Vec<_> = fields.collect();
                json!({"type": "record", "name": name, "fields": fields})
            }
        }
    }

    /// Whether a union in it accepts both bytes and text, or two types of bytes: they look the same in
    /// JSON text.
    fn is_vague(&self) -> bool {
        match self {
            Self::Union(of) => {
                let bytes = of
                    .iter()
                    .filter(|s| matches!(s, Self::Bytes | Self::Fixed(_)));
                let texts = of.iter().any(|s| matches!(s, Self::String | Self::Enum(_)));
                let bytes = bytes.count();
                bytes > 1 || bytes == 1 && texts || of.iter().any(Self::is_vague)
            }
            Self::Array(of) | Self::Map(of) => of.is_vague(),
            Self::Record(of) => of.iter().any(Self::is_vague),
            _ => false,
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Null),
        Just(Shape::Boolean),
        Just(Shape::Int),
        Just(Shape::Long),
        Just(Shape::Float),
        Just(Shape::Double),
        Just(Shape::Bytes),
        Just(Shape::String),
        (1_usize..20).prop_map(Shape::Fixed),
        (1_usize..5).prop_map(Shape::Enum),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Shape::Array(Box::new(of))),
            inner.clone().prop_map(|of| Shape::Map(Box::new(of))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|mut of| {
                of.retain(|shape| !matches!(shape, Shape::Union(_)));
                of.sort_by_key(Shape::class);
                of.dedup_by_key(|shape| shape.class());
                if of.is_empty() {
                    Shape::Null
                } else {
                    Shape::Union(of)
                }
            }),
            prop::collection::vec(inner, 0..12).prop_map(Shape::Record),
        ]
    })
}

fn values(shape: &Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Null => Just(Value::Null).boxed(),
        Shape::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        Shape::Int => any::<i32>().prop_map(Value::Int).boxed(),
        Shape::Long => any::<i64>().prop_map(Value::Long).boxed(),
        Shape::Float => prop::num::f32::NORMAL.prop_map(Value::Float).boxed(),
        Shape::Double => prop::num::f64::NORMAL.prop_map(Value::Double).boxed(),
        Shape::Bytes => any::<Vec<u8>>().prop_map(Value::Bytes).boxed(),
        Shape::String => prop::collection::vec(any::<char>(), 0..9)
            .prop_map(|text| Value::String(text.into_iter().collect()))
            .boxed(),
        Shape::Fixed(size) => {
            let size = *size;
            prop::collection::vec(any::<u8>(), size)
                .prop_map(move |bytes| Value::Fixed(size, bytes))
                .boxed()
        }
        Shape::Enum(count) => (0..*count)
            .prop_map(|at| Value::Enum(u32::try_from(at).unwrap(), format!("S{at}")))
            .boxed(),
        Shape::Array(of) => prop::collection::vec(values(of), 0..4)
            .prop_map(Value::Array)
            .boxed(),
        Shape::Map(of) => prop::collection::hash_map("[a-z]{0,3}", values(of), 0..4)
            .prop_map(Value::Map)
            .boxed(),
        Shape::Union(of) => {
            let each = (0..).zip(of).map(|(at, shape)| {
                values(shape)
                    .prop_map(move |value| Value::Union(at, Box::new(value)))
                    .boxed()
            });
            let each: Vec<_> = each.collect();
            any::<Index>()
                .prop_flat_map(move |at| at.get(&each).clone())
                .boxed()
        }
        Shape::Record(of) => {
            let fields: Vec<_> = of.iter().map(values).collect();
            fields
                .prop_map(|fields| {
                    let named = fields.into_iter().enumerate();
                    Value::Record(named.map(|(at, value)| (format!("f{at}"), value)).collect())
                })
                .boxed()
        }
    }
}

/// A value, independent of its format.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Plain>),
    Object(BTreeMap<String, Plain>),
}

fn plain(value: &Value) -> Plain {
    match value {
        Value::Null => Plain::Null,
        Value::Boolean(truth) => Plain::Bool(*truth),
        Value::Int(number) => Plain::Int(i64::from(*number)),
        Value::Long(number) => Plain::Int(*number),
        Value::Float(number) => Plain::Float(f64::from(*number).to_bits()),
        Value::Double(number) => Plain::Float(number.to_bits()),
        Value::Bytes(bytes) | Value::Fixed(_, bytes) => Plain::Bytes(bytes.clone()),
        Value::String(text) | Value::Enum(_, text) => Plain::Text(text.clone()),
        Value::Union(_, value) => plain(value),
        Value::Array(items) => Plain::List(items.iter().map(plain).collect()),
        Value::Map(members) => Plain::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
        ),
        Value::Record(members) => Plain::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
        ),
        other => panic!("{other:?} is not among the shapes"),
    }
}

/// Reads a datum with all its parts, one by one.
fn plain_datum(datum: &Datum) -> Plain {
    if let Some(value) = AvroValue::of(datum) {
        return plain_datum(&value.split().unwrap());
    }
    if let Some(Fields(members)) = Fields::of(datum) {
        let members = members.iter();
        let each = members.map(|(name, value)| (name.as_str().to_owned(), plain_datum(value)));
        return Plain::Object(each.collect());
    }
    match datum {
        Datum::Null => Plain::Null,
        Datum::Bool(truth) => Plain::Bool(*truth),
        Datum::Int(number) => Plain::Int(*number),
        Datum::Float(number) => Plain::Float(number.to_bits()),
        Datum::Str(text) => Plain::Text(text.as_str().to_owned()),
        Datum::Bytes(bytes) => Plain::Bytes(bytes.to_vec()),
        Datum::List(items) => Plain::List(items.iter().map(plain_datum).collect()),
        other => panic!("{other:?} is read of no value"),
    }
}

/// The value as a function might create it: no part refers to the bytes of a record.
fn made(plain: &Plain) -> Datum {
    match plain {
        Plain::Null => Datum::Null,
        Plain::Bool(truth) => Datum::Bool(*truth),
        Plain::Int(number) => Datum::Int(*number),
        Plain::Float(bits) => Datum::Float(f64::from_bits(*bits)),
        Plain::Text(text) => Datum::text(text.as_str()),
        Plain::Bytes(bytes) => Datum::Bytes(bytes.clone().into()),
        Plain::List(items) => Datum::List(items.iter().map(made).collect()),
        Plain::Object(members) => {
            let members = members.iter();
            Fields(
                members
                    .map(|(name, value)| (name.as_str().into(), made(value)))
                    .collect(),
            )
            .datum()
        }
    }
}

/// Calls `take` with every path into a value and the part found there.
fn paths<'p>(
    plain: &'p Plain,
    here: &mut Vec<PathStep<'p>>,
    take: &mut dyn FnMut(&[PathStep<'p>], &Plain),
) {
    take(here, plain);
    match plain {
        Plain::List(items) => {
            for (at, item) in items.iter().enumerate() {
                here.push(PathStep::Element(at));
                paths(item, here, take);
                here.pop();
            }
        }
        Plain::Object(members) => {
            for (name, value) in members {
                here.push(PathStep::Member(name));
                paths(value, here, take);
                here.pop();
            }
        }
        _ => {}
    }
}

struct Plainly;

impl Maker for Plainly {
    type Made = Plain;
    type Object = BTreeMap<String, Plain>;
    type Trouble = stoatflow_core::Error;

    fn leaf(&mut self, leaf: Leaf<'_>) -> Result<Plain, Self::Trouble> {
        Ok(match leaf {
            Leaf::Null => Plain::Null,
            Leaf::Bool(truth) => Plain::Bool(truth),
            Leaf::Int(number) => Plain::Int(number),
            Leaf::Large(number) => unreachable!("Avro has no {number}"),
            Leaf::Float(number) => Plain::Float(number.to_bits()),
            Leaf::Text(text) => Plain::Text(text.to_owned()),
            Leaf::Bytes(bytes) => Plain::Bytes(bytes.to_vec()),
        })
    }

    fn list(&mut self, items: Vec<Plain>) -> Result<Plain, Self::Trouble> {
        Ok(Plain::List(items))
    }

    fn object(&mut self) -> Self::Object {
        BTreeMap::new()
    }

    fn member(
        &mut self,
        object: &mut Self::Object,
        name: &str,
        value: Plain,
    ) -> Result<(), Self::Trouble> {
        object.insert(name.to_owned(), value);
        Ok(())
    }

    fn done(&mut self, object: Self::Object) -> Plain {
        Plain::Object(object)
    }
}

fn cases() -> impl Strategy<Value = (Shape, Value)> {
    shapes().prop_flat_map(|shape| {
        let values = values(&shape);
        (Just(shape), values)
    })
}

fn format_of(shape: &Shape) -> (Format, Parsed) {
    let text = shape.json(&mut 0).to_string();
    let format = Format::new(&text, None, &BTreeMap::new()).unwrap();
    (format, Parsed::parse_str(&text).unwrap())
}

/// Encodes with `apache-avro`.
fn written(schema: &Parsed, value: Value) -> Bytes {
    let writer = GenericDatumWriter::builder(schema).build().unwrap();
    writer.write_value_to_vec(value).unwrap().into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn values_written_by_apache_avro_are_read((shape, value) in cases()) {
        let (format, parsed) = format_of(&shape);
        let bytes = written(&parsed, value.clone());
        let (wanted, found) = (plain(&value), format.decode(&bytes).unwrap());
        prop_assert_eq!(&plain_datum(&found), &wanted);
        if let Some(found) = AvroValue::of(&found) {
            prop_assert_eq!(&make(found, &mut Plainly).unwrap(), &wanted);
            let mut wrong = Vec::new();
            paths(&wanted, &mut Vec::new(), &mut |path, wanted| {
                let there = found.walk(path.iter().copied()).unwrap();
                if plain_datum(&there) != *wanted {
                    wrong.push(format!("{path:?}: {there:?}, not {wanted:?}"));
                }
            });
            prop_assert!(wrong.is_empty(), "{:?}", wrong);
            prop_assert_eq!(format.encode(&Datum::Opaque(std::sync::Arc::new(found.clone()))).unwrap().as_ptr(), bytes.as_ptr());
        }
    }

    #[test]
    fn apache_avro_reads_what_is_written((shape, value) in cases()) {
        let (format, parsed) = format_of(&shape);
        let wanted = plain(&value);
        prop_assume!(wanted != Plain::Null);
        let bytes = format.encode(&made(&wanted)).unwrap();
        let read = GenericDatumReader::builder(&parsed).build().unwrap().read_value(&mut bytes.as_ref()).unwrap();
        prop_assert_eq!(plain(&read), wanted);
    }

    #[test]
    fn json_text_of_a_value_is_the_value((shape, value) in cases()) {
        prop_assume!(!shape.is_vague());
        let (format, parsed) = format_of(&shape);
        let bytes = written(&parsed, value);
        let found = format.decode(&bytes).unwrap();
        if let Some(value) = AvroValue::of(&found) {
            let json = Datum::Json(value.to_json().unwrap());
            let again = format.decode(&format.encode(&json).unwrap()).unwrap();
            prop_assert_eq!(plain_datum(&again), plain_datum(&found));
        }
    }

    #[test]
    fn a_part_of_the_bytes_is_no_value((shape, value) in cases(), cut in any::<Index>()) {
        let (format, parsed) = format_of(&shape);
        let bytes = written(&parsed, value);
        if !bytes.is_empty() {
            prop_assert!(format.decode(&bytes.slice(..cut.index(bytes.len()))).is_err());
        }
        let longer: Bytes = [bytes.as_ref(), &[0]].concat().into();
        prop_assert!(format.decode(&longer).is_err());
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(shape in shapes(), bytes in any::<Vec<u8>>()) {
        let (format, _) = format_of(&shape);
        if let Ok(found) = format.decode(&bytes.into()) {
            let read = plain_datum(&found);
            if let Some(value) = AvroValue::of(&found) {
                prop_assert_eq!(make(value, &mut Plainly).unwrap(), read);
            }
        }
    }
}

#[test]
fn maps_are_read_whatever_their_order() {
    let map: HashMap<String, Value> = (0..50).map(|n| (format!("k{n}"), Value::Long(n))).collect();
    let (format, parsed) = format_of(&Shape::Map(Box::new(Shape::Long)));
    let bytes = written(&parsed, Value::Map(map));
    let found = format.decode(&bytes).unwrap();
    let found = AvroValue::of(&found).unwrap();
    for n in 0..50 {
        let name = format!("k{n}");
        assert_eq!(
            found.walk([PathStep::Member(&name)]).unwrap(),
            Datum::Int(n)
        );
    }
}
