//! A schema in the form that reading needs: nodes in one list, names resolved to indexes.
//!
//! Takes the text of a schema, returns [`Schema`]. Defaults are encoded here, once. Never reads a value.

use super::encode;
use crate::near::near;
use apache_avro::schema::{InnerDecimalSchema, Name, RecordSchema, Schema as Parsed, UuidSchema};
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt::Write;
use stoatflow_core::{Error, Result, Text};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The index of a node in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// The type of a value. Dates and times have the type of their numbers.
#[derive(Debug)]
pub enum Node {
    /// Null.
    Null,
    /// True or false.
    Boolean,
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    /// 32 bits.
    Float,
    /// 64 bits.
    Double,
    /// Bytes.
    Bytes,
    /// Text.
    String,
    /// This many bytes.
    Fixed(usize),
    /// A UUID in 16 bytes; one written as a string is a `String`.
    Uuid,
    /// A number with this many digits after the point; in bytes, or in a fixed size.
    Decimal {
        /// Digits in all.
        precision: usize,
        /// Digits after the point.
        scale: usize,
        /// The size of a fixed one.
        size: Option<usize>,
    },
    /// One of these symbols.
    Enum(Box<[Text]>),
    /// A list with elements of this type.
    Array(NodeId),
    /// A map with values of this type.
    Map(NodeId),
    /// A value of one of these types.
    Union(Box<[NodeId]>),
    /// Fields in order.
    Record(RecordFields),
}

/// A field of a record.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: Text,
    /// Its type.
    pub node: NodeId,
    /// Its encoded default.
    pub default: Option<Bytes>,
    /// Other names under which a writer may have written it.
    pub aliases: Box<[Text]>,
}

/// The fields of a record.
#[derive(Debug, Default)]
pub struct RecordFields {
    /// The record's full name.
    pub name: String,
    fields: Vec<Field>,
    by_name: HashMap<String, usize>,
}

impl RecordFields {
    /// The fields in order.
    #[must_use]
    pub fn all(&self) -> &[Field] {
        &self.fields
    }

    /// The index of a field.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        // For a few fields a linear search is cheaper than a hash.
        if self.fields.len() <= 8 {
            return self
                .fields
                .iter()
                .position(|field| field.name.as_str() == name);
        }
        self.by_name.get(name).copied()
    }

    /// A field by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.place(name).map(|at| &self.fields[at])
    }

    /// A suggestion for a user who mistyped a field's name.
    #[must_use]
    pub fn meant(&self, name: &str) -> String {
        near(name, self.fields.iter().map(|field| field.name.as_str()))
    }
}

/// A schema, ready for reading.
pub struct Schema {
    nodes: Vec<Node>,
    /// Names of records, enums and fixed types.
    names: HashMap<NodeId, String>,
    /// Default symbols of enums, for symbols that they don't have.
    fallbacks: HashMap<NodeId, usize>,
    root: NodeId,
    fingerprint: u128,
    form: u64,
    parsed: Parsed,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&self.title()).finish()
    }
}

impl Schema {
    /// Parses the text of a schema.
    ///
    /// # Errors
    /// `Topology` for an invalid schema.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = Parsed::parse_str(text).map_err(|e| {
            Error::topology("this is no Avro schema")
                .caused_by(e)
                .hint("give the JSON of a schema (the content of an .avsc file), or a dict of it")
        })?;
        let mut compiler = Compiler::default();
        let root = compiler.node(&parsed)?;
        let names = compiler.named.into_iter().map(|(name, id)| (id, name));
        let mut schema = Self {
            nodes: compiler.nodes,
            names: names.collect(),
            fallbacks: compiler.fallbacks,
            root,
            fingerprint: xxh3_128(text.as_bytes()),
            form: 0,
            parsed,
        };
        // The canonical form leaves out precision and scale of decimals.
        let mut form = schema.parsed.canonical_form();
        for node in &schema.nodes {
            if let Node::Decimal {
                precision, scale, ..
            } = node
            {
                let _always_fits = write!(form, " {precision} {scale}");
            }
        }
        schema.form = xxh3_64(form.as_bytes());
        for (record, field, default) in compiler.defaults {
            let Node::Record(fields) = &schema.nodes[record.0 as usize] else {
                continue;
            };
            let field_of = &fields.fields[field];
            let bytes = encode::default(&schema, field_of.node, &default).map_err(|e| {
                Error::topology(format!(
                    "the default of the field '{}' is no value of its type",
                    field_of.name.as_str()
                ))
                .caused_by(e)
                .hint("correct the default in the schema")
            })?;
            if let Node::Record(fields) = &mut schema.nodes[record.0 as usize] {
                fields.fields[field].default = Some(bytes);
            }
        }
        Ok(schema)
    }

    /// The node at an index.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The type of a whole value.
    #[must_use]
    pub const fn root(&self) -> NodeId {
        self.root
    }

    /// The full name of a record, an enum or a fixed type.
    pub(super) fn name(&self, id: NodeId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The default symbol of an enum, for symbols that it doesn't have.
    pub(super) fn fallback(&self, id: NodeId) -> Option<usize> {
        self.fallbacks.get(&id).copied()
    }

    /// The schema as parsed by `apache-avro`.
    pub(super) const fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// A hash of everything that affects the encoding; documentation and whitespace don't.
    #[must_use]
    pub const fn form(&self) -> u64 {
        self.form
    }

    /// Whether both were parsed from the same text.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.fingerprint == other.fingerprint
    }

    /// Its name in messages.
    #[must_use]
    pub fn title(&self) -> String {
        self.word(self.root)
    }

    /// A node's name in messages.
    #[must_use]
    pub fn word(&self, id: NodeId) -> String {
        match self.node(id) {
            Node::Null => "null".into(),
            Node::Boolean => "boolean".into(),
            Node::Int => "int".into(),
            Node::Long => "long".into(),
            Node::Float => "float".into(),
            Node::Double => "double".into(),
            Node::Bytes => "bytes".into(),
            Node::String => "string".into(),
            Node::Fixed(size) => format!("fixed({size})"),
            Node::Uuid => "uuid".into(),
            Node::Decimal {
                precision, scale, ..
            } => format!("decimal({precision}, {scale})"),
            Node::Enum(symbols) => {
                let symbols: Vec<&str> = symbols.iter().map(Text::as_str).collect();
                format!("enum of {}", symbols.join(", "))
            }
            Node::Array(of) => format!("array of {}", self.word(*of)),
            Node::Map(of) => format!("map of {}", self.word(*of)),
            Node::Union(of) => {
                let of: Vec<String> = of.iter().map(|id| self.word(*id)).collect();
                of.join(" or ")
            }
            Node::Record(fields) => fields.name.clone(),
        }
    }
}

/// A field's default, until all nodes are known: record, index of the field, JSON.
type Defaulted = (NodeId, usize, serde_json::Value);

#[derive(Default)]
struct Compiler {
    nodes: Vec<Node>,
    named: HashMap<String, NodeId>,
    fallbacks: HashMap<NodeId, usize>,
    defaults: Vec<Defaulted>,
}

impl Compiler {
    fn reserve(&mut self) -> NodeId {
        self.put(Node::Null)
    }

    fn put(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn put_named(&mut self, name: &Name, node: Node) -> NodeId {
        let id = self.put(node);
        self.named.insert(name.fullname(None), id);
        id
    }

    fn node(&mut self, schema: &Parsed) -> Result<NodeId> {
        Ok(match schema {
            Parsed::Null => self.put(Node::Null),
            Parsed::Boolean => self.put(Node::Boolean),
            Parsed::Int | Parsed::Date | Parsed::TimeMillis => self.put(Node::Int),
            Parsed::Long
            | Parsed::TimeMicros
            | Parsed::TimestampMillis
            | Parsed::TimestampMicros
            | Parsed::TimestampNanos
            | Parsed::LocalTimestampMillis
            | Parsed::LocalTimestampMicros
            | Parsed::LocalTimestampNanos => self.put(Node::Long),
            Parsed::Float => self.put(Node::Float),
            Parsed::Double => self.put(Node::Double),
            Parsed::Bytes | Parsed::BigDecimal | Parsed::Uuid(UuidSchema::Bytes) => {
                self.put(Node::Bytes)
            }
            Parsed::String | Parsed::Uuid(UuidSchema::String) => self.put(Node::String),
            Parsed::Uuid(UuidSchema::Fixed(fixed)) => self.put_named(&fixed.name, Node::Uuid),
            Parsed::Fixed(fixed) | Parsed::Duration(fixed) => {
                self.put_named(&fixed.name, Node::Fixed(fixed.size))
            }
            Parsed::Decimal(decimal) => {
                let (precision, scale) = (decimal.precision, decimal.scale);
                match &decimal.inner {
                    InnerDecimalSchema::Bytes => self.put(Node::Decimal {
                        precision,
                        scale,
                        size: None,
                    }),
                    InnerDecimalSchema::Fixed(fixed) => {
                        let size = Some(fixed.size);
                        let node = Node::Decimal {
                            precision,
                            scale,
                            size,
                        };
                        self.put_named(&fixed.name, node)
                    }
                }
            }
            Parsed::Enum(named) => {
                let symbols = named.symbols.iter().map(|s| Text::from(s.as_str()));
                let node = Node::Enum(symbols.collect());
                let id = self.put_named(&named.name, node);
                let default = named.default.as_ref();
                if let Some(at) =
                    default.and_then(|word| named.symbols.iter().position(|one| one == word))
                {
                    self.fallbacks.insert(id, at);
                }
                id
            }
            Parsed::Array(array) => {
                let id = self.reserve();
                let of = self.node(&array.items)?;
                self.set(id, Node::Array(of))
            }
            Parsed::Map(map) => {
                let id = self.reserve();
                let of = self.node(&map.types)?;
                self.set(id, Node::Map(of))
            }
            Parsed::Union(union) => {
                let id = self.reserve();
                let of = union.variants().iter().map(|each| self.node(each));
                let of = of.collect::<Result<_>>()?;
                self.set(id, Node::Union(of))
            }
            Parsed::Record(record) => self.record(record)?,
            Parsed::Ref { name } => match self.named.get(&name.fullname(None)) {
                Some(id) => *id,
                None => {
                    return Err(Error::topology(format!(
                        "the schema names the type '{name}', which it doesn't define"
                    ))
                    .hint("put the definition of the type where it is named first"));
                }
            },
        })
    }

    fn record(&mut self, record: &RecordSchema) -> Result<NodeId> {
        let id = self.reserve();
        self.named.insert(record.name.fullname(None), id);
        let mut fields = RecordFields {
            name: record.name.fullname(None),
            ..RecordFields::default()
        };
        for (at, field) in record.fields.iter().enumerate() {
            let node = self.node(&field.schema)?;
            if let Some(default) = &field.default {
                self.defaults.push((id, at, default.clone()));
            }
            fields.by_name.insert(field.name.clone(), at);
            fields.fields.push(Field {
                name: Text::from(field.name.as_str()),
                node,
                default: None,
                aliases: field
                    .aliases
                    .iter()
                    .map(|alias| Text::from(alias.as_str()))
                    .collect(),
            });
        }
        Ok(self.set(id, Node::Record(fields)))
    }

    fn set(&mut self, id: NodeId, node: Node) -> NodeId {
        self.nodes[id.0 as usize] = node;
        id
    }
}
