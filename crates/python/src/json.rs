//! JSON text to Python objects and back, without a Python-level encoder in between.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::fmt;
use stoatflow_core::{Bytes, Error, Result};

/// Python objects of JSON text.
pub fn read<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Seed(py)
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    read.map_err(|e| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(60).collect();
        crate::errors::to_py_err(
            Error::serde(format!("the value is not JSON ({e}): {shown}"))
                .hint("fix the producer, or read the topic with Serdes.string() or Serdes.bytes()"),
        )
    })
}

#[derive(Clone, Copy)]
struct Seed<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for Seed<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Seed<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E>(self, v: bool) -> std::result::Result<Self::Value, E> {
        Ok(PyBool::new(self.0, v).to_owned().into_any())
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> std::result::Result<Self::Value, E> {
        v.into_pyobject(self.0)
            .map(Bound::into_any)
            .map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> std::result::Result<Self::Value, E> {
        v.into_pyobject(self.0)
            .map(Bound::into_any)
            .map_err(E::custom)
    }

    fn visit_f64<E>(self, v: f64) -> std::result::Result<Self::Value, E> {
        Ok(PyFloat::new(self.0, v).into_any())
    }

    fn visit_str<E>(self, v: &str) -> std::result::Result<Self::Value, E> {
        Ok(PyString::new(self.0, v).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut seq: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(item) = seq.next_element_seed(self)? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.0);
        while let Some(name) = map.next_key_seed(Key(self.0))? {
            dict.set_item(name, map.next_value_seed(self)?)
                .map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}

/// Member names repeat in every record: Python's intern table keeps one string for each.
struct Key<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for Key<'py> {
    type Value = Bound<'py, PyString>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'py> Visitor<'_> for Key<'py> {
    type Value = Bound<'py, PyString>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, v: &str) -> std::result::Result<Self::Value, E> {
        Ok(PyString::intern(self.0, v))
    }
}

/// Compact JSON text of a Python object.
pub fn write(object: &Bound<'_, PyAny>) -> Result<Bytes> {
    let mut out = Vec::with_capacity(128);
    write_into(object, &mut out, 0)?;
    Ok(out.into())
}

/// Deeper values are almost surely cycles; Python's own encoder stops at its recursion limit too.
const MAX_DEPTH: usize = 200;

fn write_into(object: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(
            Error::serde("a value is nested too deeply for JSON").hint("does it contain itself?")
        );
    }
    let refused = |what: &str| {
        Error::serde(format!("JSON has no form for {what}")).hint(
            "return dicts, lists, text, numbers, booleans and None, or use a serde of your own",
        )
    };
    if object.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(text) = object.cast::<PyString>() {
        let text = text
            .to_cow()
            .map_err(|_| refused("a text with a lone surrogate"))?;
        serde_json::to_writer(out, text.as_ref()).map_err(|e| refused("a text").caused_by(e))?;
    } else if let Ok(b) = object.cast::<PyBool>() {
        out.extend_from_slice(if b.is_true() { b"true" } else { b"false" });
    } else if object.cast::<PyInt>().is_ok() {
        // Python's own digits: JSON sets no bound on whole numbers.
        let digits = object
            .call_method0("__int__")
            .and_then(|i| i.str().map(|s| s.to_string()));
        out.extend_from_slice(digits.map_err(|_| refused("a number"))?.as_bytes());
    } else if let Ok(x) = object.cast::<PyFloat>() {
        if !x.value().is_finite() {
            return Err(refused(&format!("the number {}", x.value())));
        }
        serde_json::to_writer(out, &x.value()).map_err(|e| refused("a number").caused_by(e))?;
    } else if let Ok(dict) = object.cast::<PyDict>() {
        out.push(b'{');
        for (i, (name, value)) in dict.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let Ok(name) = name.cast::<PyString>() else {
                return Err(refused("a dict whose key is not text"));
            };
            write_into(name.as_any(), out, depth + 1)?;
            out.push(b':');
            write_into(&value, out, depth + 1)?;
        }
        out.push(b'}');
    } else if let Ok(list) = object.cast::<PyList>() {
        write_items(list.iter(), out, depth)?;
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        write_items(tuple.iter(), out, depth)?;
    } else {
        let name = object.get_type().qualname().map_or_else(
            |_| "an object".to_owned(),
            |n| format!("an object of type {n}"),
        );
        return Err(refused(&name));
    }
    Ok(())
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<()> {
    out.push(b'[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_into(&item, out, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}
