//! Checks the parameters of a request for a store: unknown names are refused, never ignored.

use crate::admin::problem::Problem;
use std::time::Duration;
use stoatflow_core::{Offset, TopicPartition};
use stoatflow_plan::StoreKind;

/// Default number of entries per page.
const LIMIT: usize = 100;
/// Maximum number of entries per page.
const MOST: usize = 10_000;
/// Default timeout for `at_least`.
const TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(60);

/// How keys are written in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyFormat {
    /// As the serde of the keys defines: text, numbers, JSON.
    #[default]
    Text,
    /// The bytes that the store keeps.
    Base64,
}

/// See the module. Keys are not parsed yet.
#[derive(Clone, Debug)]
pub(super) struct StoreParams {
    pub key_format: KeyFormat,
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
    pub prefix: Option<Vec<u8>>,
    pub reverse: bool,
    /// In SQL syntax.
    pub condition: Option<String>,
    pub order_by: Option<String>,
    pub allow_scan: bool,
    pub snapshot: bool,
    pub limit: usize,
    pub cursor: Option<String>,
    pub time: Option<i64>,
    pub from_time: Option<i64>,
    pub to_time: Option<i64>,
    pub as_of: Option<i64>,
    pub at_least: Vec<(TopicPartition, Offset)>,
    pub timeout: Duration,
}

/// The parameters that each kind of request accepts.
fn allowed(kind: StoreKind, has_key: bool) -> &'static [&'static str] {
    match (kind, has_key) {
        (StoreKind::Window { .. } | StoreKind::Session { .. }, false) => &[
            "from",
            "to",
            "from_time",
            "to_time",
            "reverse",
            "limit",
            "cursor",
            "key_format",
            "at_least",
            "timeout_ms",
        ],
        (StoreKind::Window { .. } | StoreKind::Session { .. }, true) => &[
            "time",
            "from_time",
            "to_time",
            "reverse",
            "limit",
            "cursor",
            "key_format",
            "at_least",
            "timeout_ms",
        ],
        (StoreKind::Versioned { .. }, true) => &[
            "as_of",
            "from_time",
            "to_time",
            "limit",
            "key_format",
            "at_least",
            "timeout_ms",
        ],
        (StoreKind::Versioned { .. }, false) => &["at_least", "timeout_ms"],
        (_, true) => &["key_format", "at_least", "timeout_ms"],
        (_, false) => &[
            "from",
            "to",
            "prefix",
            "reverse",
            "where",
            "order_by",
            "allow_scan",
            "limit",
            "cursor",
            "key_format",
            "at_least",
            "timeout_ms",
        ],
    }
}

impl StoreParams {
    /// Parses the query string.
    pub(super) fn parse(query: &str, kind: StoreKind, has_key: bool) -> Result<Self, Problem> {
        Self::taken(query, allowed(kind, has_key))
    }

    /// Parses the query string of a request that follows a store.
    pub(super) fn following(query: &str, kind: StoreKind) -> Result<Self, Problem> {
        match kind {
            StoreKind::Window { .. } | StoreKind::Session { .. } => {
                Self::taken(query, &["snapshot", "at_least", "timeout_ms"])
            }
            _ => {
                let keys = ["from", "to", "prefix", "key_format"];
                Self::taken(
                    query,
                    &[&keys[..], &["snapshot", "at_least", "timeout_ms"]].concat(),
                )
            }
        }
    }

    fn taken(query: &str, allowed: &[&str]) -> Result<Self, Problem> {
        let mut params = Self {
            key_format: KeyFormat::Text,
            from: None,
            to: None,
            prefix: None,
            reverse: false,
            condition: None,
            order_by: None,
            allow_scan: false,
            snapshot: true,
            limit: LIMIT,
            cursor: None,
            time: None,
            from_time: None,
            to_time: None,
            as_of: None,
            at_least: Vec::new(),
            timeout: TIMEOUT,
        };
        let mut seen: Vec<String> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = text(decoded(&name.replace('+', "%20"))?)?;
            let value = decoded(&value.replace('+', "%20"))?;
            if !allowed.contains(&name.as_str()) {
                return Err(Problem::bad(
                    format!("this request has no parameter '{name}'"),
                    format!("use {}", allowed.join(", ")),
                ));
            }
            if seen.contains(&name) {
                return Err(Problem::bad(
                    format!("'{name}' is given twice"),
                    "keep one of the two",
                ));
            }
            params.take(&name, value)?;
            seen.push(name);
        }
        let begins = [
            "from",
            "to",
            "prefix",
            "reverse",
            "where",
            "order_by",
            "allow_scan",
            "time",
            "from_time",
            "to_time",
            "at_least",
        ];
        if params.cursor.is_some()
            && let Some(name) = seen.iter().find(|name| begins.contains(&name.as_str()))
        {
            return Err(Problem::bad(
                format!(
                    "'{name}' stands beside a cursor, which goes on with what its walk began with"
                ),
                "give cursor= and perhaps limit= only",
            ));
        }
        if params.condition.is_some() || params.order_by.is_some() {
            let by_key = ["from", "to", "prefix", "reverse", "key_format"];
            if let Some(name) = seen.iter().find(|name| by_key.contains(&name.as_str())) {
                return Err(Problem::bad(
                    format!("'{name}' stands beside where or order_by"),
                    "write it as a condition, such as where=_key >= 'a', or as an order, such as order_by=_key desc",
                ));
            }
        }
        if params.prefix.is_some() && (params.from.is_some() || params.to.is_some()) {
            return Err(Problem::bad(
                "prefix stands beside from or to",
                "give a prefix, or a range",
            ));
        }
        Ok(params)
    }

    fn take(&mut self, name: &str, value: Vec<u8>) -> Result<(), Problem> {
        match name {
            "from" => self.from = Some(value),
            "to" => self.to = Some(value),
            "prefix" => self.prefix = Some(value),
            "reverse" => self.reverse = flag(name, text(value)?)?,
            "where" => self.condition = Some(text(value)?),
            "order_by" => self.order_by = Some(text(value)?),
            "allow_scan" => self.allow_scan = flag(name, text(value)?)?,
            "snapshot" => self.snapshot = flag(name, text(value)?)?,
            "limit" => self.limit = limit(text(value)?)?,
            "cursor" => self.cursor = Some(text(value)?),
            "time" => self.time = Some(time(name, text(value)?)?),
            "from_time" => self.from_time = Some(time(name, text(value)?)?),
            "to_time" => self.to_time = Some(time(name, text(value)?)?),
            "as_of" => self.as_of = Some(time(name, text(value)?)?),
            "at_least" => self.at_least = at_least(&text(value)?)?,
            "timeout_ms" => self.timeout = timeout(text(value)?)?,
            "key_format" => self.key_format = key_format(&text(value)?)?,
            _ => {}
        }
        Ok(())
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|_| {
        Problem::bad(
            "a parameter is not UTF-8",
            "encode it as UTF-8, then with %",
        )
    })
}

fn flag(name: &str, value: String) -> Result<bool, Problem> {
    match value.as_str() {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(Problem::bad(
            format!("{name}={other} is neither true nor false"),
            format!("write {name}=true, or leave it out"),
        )),
    }
}

fn limit(value: String) -> Result<usize, Problem> {
    let number = value.parse::<usize>().ok();
    number.filter(|n| (1..=MOST).contains(n)).ok_or_else(|| {
        Problem::bad(
            format!("limit={value} is no number from 1 to {MOST}"),
            "ask for a page of that size, then for the next one with its cursor",
        )
    })
}

fn time(name: &str, value: String) -> Result<i64, Problem> {
    value.parse().map_err(|_| {
        Problem::bad(
            format!("{name}={value} is no time"),
            "write milliseconds since 1970, such as 1700000000000",
        )
    })
}

fn timeout(value: String) -> Result<Duration, Problem> {
    let number = value.parse().ok().map(Duration::from_millis);
    number.filter(|time| *time <= LONGEST).ok_or_else(|| {
        Problem::bad(
            format!(
                "timeout_ms={value} is no number from 0 to {}",
                LONGEST.as_millis()
            ),
            "wait for less, and ask again",
        )
    })
}

fn key_format(value: &str) -> Result<KeyFormat, Problem> {
    match value {
        "text" => Ok(KeyFormat::Text),
        "base64" => Ok(KeyFormat::Base64),
        other => Err(Problem::bad(
            format!("key_format={other} is unknown"),
            "use key_format=text or key_format=base64",
        )),
    }
}

/// `topic:partition:offset,...`
fn at_least(value: &str) -> Result<Vec<(TopicPartition, Offset)>, Problem> {
    let one = |part: &str| {
        let mut words = part.rsplitn(3, ':');
        let offset = words.next()?.parse().ok()?;
        let partition = words.next()?.parse().ok()?;
        let topic = words.next().filter(|topic| !topic.is_empty())?;
        Some((
            TopicPartition::new(topic.to_owned(), partition),
            Offset(offset),
        ))
    };
    value
        .split(',')
        .map(|part| {
            one(part.trim()).ok_or_else(|| {
                Problem::bad(
                    format!("at_least={value}: '{part}' is not topic:partition:offset"),
                    "write for example at_least=orders:0:17,orders:1:4",
                )
            })
        })
        .collect()
}

/// Decodes percent-encoding.
pub(in crate::admin) fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(Problem::bad(
                "a percent sign is not followed by two digits",
                "encode the percent sign itself as %25",
            ));
        };
        out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
    }
    Ok(out)
}
