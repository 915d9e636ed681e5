//! Finds values in Avro's binary encoding.
//!
//! Takes bytes and a node, returns the position after its value. Validates everything on the way:
//! truncated bytes, numbers that are too long, branches and symbols that don't exist, text that is not
//! UTF-8. Never copies.

use super::schema::{Node, NodeId, Schema};
use stoatflow_core::{Error, Result};

/// Maximum nesting of values: recursion must not overflow the stack of a lane.
const MAX_DEPTH: usize = 128;

/// Maximum length of a run whose elements take no bytes (an array of nulls); more are treated as damage.
const MAX_EMPTY_ELEMENTS: i64 = 65_536;

/// A position in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

/// One run of elements of an array or a map.
pub(super) struct Block {
    pub count: i64,
    /// Its size in bytes, if the writer included it.
    pub size: Option<usize>,
}

impl<'a> Cursor<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error about these bytes.
    #[cold]
    pub fn fault(&self, schema: &Schema, what: &str) -> Error {
        Error::serde(format!(
            "the bytes are no value of the Avro schema '{}': {what} at byte {} of {}",
            schema.title(),
            self.at,
            self.bytes.len()
        ))
        .hint("read the topic with the schema it was written with; say framing=\"confluent\" if its records begin with a schema id, and leave it out if they don't")
    }

    #[inline]
    pub fn byte(&mut self, schema: &Schema) -> Result<u8> {
        match self.bytes.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(*byte)
            }
            None => Err(self.fault(schema, "they end")),
        }
    }

    /// Reads a zigzag varint.
    #[inline]
    pub fn long(&mut self, schema: &Schema) -> Result<i64> {
        let first = self.byte(schema)?;
        if first < 0x80 {
            return Ok(i64::from(first >> 1) ^ -i64::from(first & 1));
        }
        self.rest_of_long(first, schema)
    }

    fn rest_of_long(&mut self, first: u8, schema: &Schema) -> Result<i64> {
        let mut number = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte(schema)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || shift > 63 {
                return Err(self.fault(schema, "a number is longer than 64 bits"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                #[allow(clippy::cast_possible_wrap)] // zigzag: the last bit is the sign
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
            shift += 7;
        }
    }

    pub fn int(&mut self, schema: &Schema) -> Result<i64> {
        let number = self.long(schema)?;
        if i32::try_from(number).is_err() {
            return Err(self.fault(schema, "an int is longer than 32 bits"));
        }
        Ok(number)
    }

    /// A length, or an index.
    #[inline]
    pub fn size(&mut self, schema: &Schema) -> Result<usize> {
        let number = self.long(schema)?;
        usize::try_from(number).map_err(|_| self.fault(schema, "a length is negative"))
    }

    #[inline]
    pub fn take(&mut self, size: usize, schema: &Schema) -> Result<&'a [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..size)) {
            Some(taken) => {
                self.at += size;
                Ok(taken)
            }
            None => Err(self.fault(schema, &format!("{size} bytes should follow"))),
        }
    }

    pub fn array<const N: usize>(&mut self, schema: &Schema) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, schema)?);
        Ok(out)
    }

    /// Bytes after their length.
    #[inline]
    pub fn sized(&mut self, schema: &Schema) -> Result<&'a [u8]> {
        let size = self.size(schema)?;
        self.take(size, schema)
    }

    #[inline]
    pub fn text(&mut self, schema: &Schema) -> Result<&'a str> {
        let text = self.sized(schema)?;
        std::str::from_utf8(text).map_err(|_| self.fault(schema, "a text is not UTF-8 up to here,"))
    }

    pub fn boolean(&mut self, schema: &Schema) -> Result<bool> {
        match self.byte(schema)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.fault(schema, "a boolean is neither 0 nor 1")),
        }
    }

    /// The branch of a union, or the symbol of an enum.
    #[inline]
    pub fn choice(&mut self, of: usize, schema: &Schema) -> Result<usize> {
        let at = self.size(schema)?;
        if at >= of {
            return Err(self.fault(schema, &format!("choice {at} of {of}")));
        }
        Ok(at)
    }

    /// The next run of elements; `None` after the last.
    #[inline]
    pub fn block(&mut self, schema: &Schema) -> Result<Option<Block>> {
        let count = self.long(schema)?;
        if count == 0 {
            return Ok(None);
        }
        if count > 0 {
            return Ok(Some(Block { count, size: None }));
        }
        let size = self.size(schema)?;
        let count = count.checked_neg();
        let count = count.ok_or_else(|| self.fault(schema, "a list has too many elements"))?;
        Ok(Some(Block {
            count,
            size: Some(size),
        }))
    }

    /// Called before the second element of a run that starts at `began`: refuses a long run of elements
    /// without bytes.
    pub fn weighs(&self, began: usize, count: i64, schema: &Schema) -> Result<()> {
        if self.at == began && count > MAX_EMPTY_ELEMENTS {
            return Err(self.fault(schema, "a list has too many empty elements"));
        }
        Ok(())
    }

    /// Skips a value.
    pub fn skip(&mut self, schema: &Schema, node: NodeId, depth: usize) -> Result<()> {
        match schema.node(node) {
            Node::Null => {}
            Node::Boolean => {
                self.boolean(schema)?;
            }
            Node::Int => {
                self.int(schema)?;
            }
            Node::Long => {
                self.long(schema)?;
            }
            Node::Float => {
                self.take(4, schema)?;
            }
            Node::Double => {
                self.take(8, schema)?;
            }
            Node::Bytes | Node::Decimal { size: None, .. } => {
                self.sized(schema)?;
            }
            Node::String => {
                self.text(schema)?;
            }
            Node::Uuid => {
                self.take(16, schema)?;
            }
            Node::Fixed(size)
            | Node::Decimal {
                size: Some(size), ..
            } => {
                self.take(*size, schema)?;
            }
            Node::Enum(symbols) => {
                self.choice(symbols.len(), schema)?;
            }
            Node::Union(branches) => {
                let at = self.choice(branches.len(), schema)?;
                self.deeper(schema, depth)?;
                self.skip(schema, branches[at], depth + 1)?;
            }
            Node::Record(fields) => {
                self.deeper(schema, depth)?;
                for field in fields.all() {
                    self.skip(schema, field.node, depth + 1)?;
                }
            }
            Node::Array(of) => {
                self.elements(schema, depth, |cursor| cursor.skip(schema, *of, depth + 1))?
            }
            Node::Map(of) => self.elements(schema, depth, |cursor| {
                cursor.text(schema)?;
                cursor.skip(schema, *of, depth + 1)
            })?,
        }
        Ok(())
    }

    /// Runs `each` for every element of an array or a map.
    pub fn elements(
        &mut self,
        schema: &Schema,
        depth: usize,
        mut each: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.deeper(schema, depth)?;
        while let Some(block) = self.block(schema)? {
            let began = self.at;
            for done in 0..block.count {
                if done == 1 {
                    self.weighs(began, block.count, schema)?;
                }
                each(self)?;
            }
            if block.size.is_some_and(|size| self.at - began != size) {
                return Err(self.fault(schema, "a run of elements has another size than it says"));
            }
        }
        Ok(())
    }

    pub fn deeper(&self, schema: &Schema, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.fault(
                schema,
                &format!("values are nested deeper than {MAX_DEPTH}"),
            ));
        }
        Ok(())
    }
}

/// Checks that bytes are exactly one value.
pub(super) fn check(schema: &Schema, bytes: &[u8]) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    cursor.skip(schema, schema.root(), 0)?;
    if cursor.at < bytes.len() {
        return Err(cursor.fault(schema, "something is left"));
    }
    Ok(())
}
