//! How keys and values of a store are written in URLs and answers.
//!
//! Uses serdes that work without the user's runtime. If the serde is the user's own, in Python, keys and
//! values are shown as the bytes that it wrote, in base64, and the answer notes that.

use super::params::KeyFormat;
use crate::admin::problem::Problem;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use stoatflow_core::fields::{Fields, Open};
use stoatflow_core::json::check_bytes;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Bytes, Datum, Error, Result, Serde, Text};
use stoatflow_operators::ForeignCode;
use stoatflow_plan::find::text::Values;
use stoatflow_plan::{SerdeSpec, Store, StoreKind};

/// The format of a store's keys or values.
#[derive(Clone, Debug)]
pub(super) struct SideFormat {
    serde: Option<Serde>,
    /// The name of the serde.
    name: String,
    /// True if the serde is the user's and can't be used, so that its bytes are shown.
    needs_user_runtime: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct StoreFormats {
    /// The store, with usable serdes.
    pub store: Store,
    pub key: SideFormat,
    pub value: SideFormat,
}

/// The name of a kind of store.
pub(super) const fn kind_name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => "key-value",
        StoreKind::Window { .. } => "window",
        StoreKind::Session { .. } => "session",
        StoreKind::Versioned { .. } => "versioned",
        StoreKind::TimeOrdered => "time-ordered",
        StoreKind::Timers => "timers",
    }
}

impl StoreFormats {
    pub(super) fn of(store: &Store, foreign: &ForeignCode) -> Self {
        let (mut usable, mut formats) = (store.clone(), Vec::new());
        for spec in [&mut usable.key, &mut usable.value] {
            let name = foreign.serde(spec).map(|serde| serde.name().to_owned());
            let needs_user_runtime = replace(spec, foreign);
            formats.push(SideFormat {
                serde: foreign.serde(spec).ok(),
                name: name.unwrap_or_default(),
                needs_user_runtime,
            });
        }
        let value = formats.pop().expect("two were pushed");
        let key = formats.pop().expect("two were pushed");
        Self {
            store: usable,
            key,
            value,
        }
    }

    /// Whether both serdes are built in, so that decoding needs nothing but the bytes.
    pub(super) fn are_built_in(&self) -> bool {
        let built_in = |side: &SideFormat| {
            matches!(
                side.serde,
                Some(
                    Serde::Bytes
                        | Serde::String
                        | Serde::Int32
                        | Serde::Int64
                        | Serde::Double
                        | Serde::Json
                )
            )
        };
        built_in(&self.key) && built_in(&self.value)
    }

    /// A note that the reader of the answer needs.
    pub(super) fn note(&self) -> Option<String> {
        let sides = [("keys", &self.key), ("values", &self.value)];
        let sides = sides.iter().filter(|(_, side)| side.needs_user_runtime);
        let said: Vec<String> = sides
            .map(|(name, side)| {
                format!(
                    "{name} are written by the Python serde {}, so they are the bytes that it made, in base64",
                    side.name
                )
            })
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Replaces a serde that needs the user's runtime by plain bytes; true if it did.
fn replace(spec: &mut SerdeSpec, foreign: &ForeignCode) -> bool {
    match spec {
        SerdeSpec::Custom { custom } => {
            let serde = foreign.serdes.get(*custom as usize);
            if serde.is_some_and(|serde| serde.is_native()) {
                return false;
            }
            *spec = SerdeSpec::Builtin("bytes".to_owned());
            true
        }
        SerdeSpec::TimeWindowed { time_windowed, .. } => replace(time_windowed, foreign),
        SerdeSpec::SessionWindowed { session_windowed } => replace(session_windowed, foreign),
        _ => false,
    }
}

impl SideFormat {
    /// `text`, `number`, `json` or `base64`.
    pub(super) const fn format(&self) -> &'static str {
        match &self.serde {
            Some(Serde::String) => "text",
            Some(Serde::Int32 | Serde::Int64 | Serde::Double) => "number",
            Some(Serde::Bytes) | None => "base64",
            Some(_) => "json",
        }
    }

    /// How a condition reads the values.
    pub(super) const fn as_named(&self) -> Values {
        match &self.serde {
            _ if self.needs_user_runtime => Values::Unreadable,
            Some(Serde::Json | Serde::Custom(_)) => Values::Objects,
            Some(_) => Values::Plain,
            None => Values::Unreadable,
        }
    }

    pub(super) const fn needs_user_runtime(&self) -> bool {
        self.needs_user_runtime
    }

    pub(super) fn shown(&self) -> Value {
        json!({ "serde": self.name, "format": self.format() })
    }

    /// Parses a key of a URL.
    pub(super) fn key(&self, given: &[u8], format: KeyFormat) -> Result<Datum, Problem> {
        let serde = self.serde()?;
        let datum = match format {
            KeyFormat::Base64 => serde.decode(Some(unpacked(given)?)),
            KeyFormat::Text => self.parsed(serde, given)?,
        };
        let datum = datum.map_err(|e| self.refused(&e))?;
        // What the serde can't encode is not a key, whatever the store contains.
        match serde.encode(&datum) {
            Ok(Some(_)) => Ok(datum),
            Ok(None) => Err(Problem::bad("a store has no null keys", "ask for a key")),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// The bytes that keys must begin with.
    pub(super) fn prefix(&self, given: &[u8], format: KeyFormat) -> Result<Datum, Problem> {
        match (format, self.serde()?) {
            (KeyFormat::Base64, _) => Ok(Datum::Bytes(unpacked(given)?)),
            (KeyFormat::Text, Serde::String) => Ok(Datum::Bytes(Bytes::copy_from_slice(given))),
            (KeyFormat::Text, Serde::Bytes) if !self.needs_user_runtime => {
                Ok(Datum::Bytes(Bytes::copy_from_slice(given)))
            }
            _ => Err(Problem::bad(
                format!(
                    "keys of the serde '{}' have no prefix that is text",
                    self.name
                ),
                "give the first bytes of the key with key_format=base64, or a range with from= and to=",
            )),
        }
    }

    fn serde(&self) -> Result<&Serde, Problem> {
        self.serde.as_ref().ok_or_else(|| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                format!("the serde '{}' can't be made", self.name),
                "report it with the log",
            )
        })
    }

    fn parsed(&self, serde: &Serde, given: &[u8]) -> Result<Result<Datum>, Problem> {
        if self.needs_user_runtime {
            return Err(Problem::bad(
                format!("keys are written by the Python serde {}", self.name),
                "give the bytes that it makes of the key, with key_format=base64",
            ));
        }
        let text = || {
            std::str::from_utf8(given)
                .map_err(|_| Problem::bad("the key is not UTF-8", "use key_format=base64"))
        };
        let no_number = || {
            Problem::bad(
                format!(
                    "'{}' is no key of the serde '{}'",
                    String::from_utf8_lossy(given),
                    self.name
                ),
                "write a number",
            )
        };
        Ok(match serde {
            Serde::Bytes => Ok(Datum::Bytes(Bytes::copy_from_slice(given))),
            Serde::String => Text::from_utf8(Bytes::copy_from_slice(given)).map(Datum::Str),
            Serde::Int32 | Serde::Int64 => {
                Ok(Datum::Int(text()?.parse().map_err(|_| no_number())?))
            }
            Serde::Double => Ok(Datum::Float(text()?.parse().map_err(|_| no_number())?)),
            Serde::TimeWindowed { .. }
            | Serde::SessionWindowed(_)
            | Serde::WithHeaders(_)
            | Serde::WithoutHeaders(_) => {
                return Err(Problem::bad(
                    "keys of this store are windowed",
                    "give the bytes of the key with key_format=base64",
                ));
            }
            Serde::Json | Serde::Custom(_) => {
                // Compact, as the engine writes it.
                let value: Value = serde_json::from_slice(given).map_err(|e| {
                    Problem::bad(
                        format!("the key is no JSON: {e}"),
                        "write text in quotes (\"abc\", encoded as %22abc%22), or use key_format=base64",
                    )
                })?;
                match value {
                    Value::Null => Ok(Datum::Null),
                    value => Ok(Datum::Json(value.to_string().into())),
                }
            }
        })
    }

    fn refused(&self, error: &Error) -> Problem {
        Problem::bad(
            format!(
                "this is no key of the serde '{}': {}",
                self.name,
                error.message()
            ),
            "see /stores for how keys are written",
        )
    }
}

fn unpacked(given: &[u8]) -> Result<Bytes, Problem> {
    let url_safe = || URL_SAFE_NO_PAD.decode(given.trim_ascii_end_of(b'='));
    let decoded = STANDARD.decode(given).or_else(|_| url_safe());
    decoded.map(Bytes::from).map_err(|_| {
        Problem::bad(
            "the key is not base64",
            "encode + and / and = with %, or use the alphabet for URLs (- and _)",
        )
    })
}

trait TrimEnd {
    fn trim_ascii_end_of(&self, byte: u8) -> &[u8];
}

impl TrimEnd for [u8] {
    fn trim_ascii_end_of(&self, byte: u8) -> &[u8] {
        let mut rest = self;
        while let [head @ .., last] = rest
            && *last == byte
        {
            rest = head;
        }
        rest
    }
}

/// Appends a key or value as JSON: bytes in base64, a windowed key with its times, numbers that JSON
/// can't represent as text.
///
/// # Errors
/// `Serde` for damaged bytes.
pub(super) fn write(datum: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Bytes(bytes) => {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
        Datum::Float(number) if !number.is_finite() => {
            out.extend_from_slice(format!("\"{number}\"").as_bytes());
        }
        Datum::Windowed(windowed) => {
            out.extend_from_slice(b"{\"key\":");
            write(&windowed.key, out)?;
            let times = format!(",\"start\":{},\"end\":{}}}", windowed.start, windowed.end);
            out.extend_from_slice(times.as_bytes());
        }
        Datum::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        // Not checked since it was written; a changelog may contain anything.
        Datum::Json(text) => {
            check_bytes(text)?;
            out.extend_from_slice(text);
        }
        Datum::Opaque(object) => match object.to_json() {
            Ok(text) => out.extend_from_slice(&text),
            // Parts of it can't be represented in JSON.
            Err(error) => match object.open() {
                Some(open) => members(open, out)?,
                None => return Err(error),
            },
        },
        Datum::Change(change) => write(&change.new, out)?,
        plain => write_json(plain, out)?,
    }
    Ok(())
}

fn members(open: &dyn Open, out: &mut Vec<u8>) -> Result<()> {
    let parts = open.parts()?;
    let Some(Fields(fields)) = Fields::of(&parts) else {
        return write(&parts, out);
    };
    out.push(b'{');
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_json(&Datum::Str(name.clone()), out)?;
        out.push(b':');
        write(value, out)?;
    }
    out.push(b'}');
    Ok(())
}
