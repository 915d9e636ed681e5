//! Values by the type of their setting, and the forms that only one setting has.

use super::WatermarkDefault;
use super::read::{Value, bool_of, duration_of, number_of, size_of, text_of};
use super::table::{KeySpec, KeyType};
use serde_json::Value as Json;
use std::time::Duration;

pub(super) fn of_table(key: &KeySpec, default: &str) -> Value {
    read(key, &Json::from(default)).expect("defaults in the table are valid (tested)")
}

/// A value of the type that the row asks for, or a text that says what is allowed.
pub(super) fn read(key: &KeySpec, value: &Json) -> std::result::Result<Value, String> {
    let text = text_of(value);
    let bounded = |n: Option<i64>, what: &str| match n {
        Some(n) if (key.min..=key.max).contains(&n) => Ok(Value::Number(n)),
        Some(_) if key.max == i64::MAX => Err(format!("must be at least {}", key.min)),
        Some(_) => Err(format!("must be between {} and {}", key.min, key.max)),
        None => Err(what.to_owned()),
    };
    match key.kind {
        KeyType::Text | KeyType::Path => text
            .filter(|t| !t.trim().is_empty())
            .map(Value::Text)
            .ok_or_else(|| "must be text".to_owned()),
        KeyType::Choice => {
            let words = || format!("must be {}", key.allowed.join(" or "));
            let text = text.ok_or_else(words)?;
            let found = key
                .allowed
                .iter()
                .find(|w| w.eq_ignore_ascii_case(text.trim()));
            found
                .map(|w| Value::Text((*w).to_owned()))
                .ok_or_else(words)
        }
        KeyType::Bool => bool_of(value)
            .map(Value::Bool)
            .ok_or_else(|| "must be true or false".to_owned()),
        KeyType::Count => bounded(number_of(value), "must be a whole number"),
        KeyType::Duration => bounded(
            duration_of(value),
            "must be milliseconds, or a duration such as 100ms, 5s, 2m",
        ),
        KeyType::Size => bounded(
            size_of(value),
            "must be bytes, or a size such as 64MiB, 10MB, 512KiB",
        ),
    }
}

/// `bounded:10s`, `monotonic` or `none`, optionally followed by `,idle:5m`.
pub(super) fn watermark_of(text: &str) -> Option<WatermarkDefault> {
    let ms = |text: &str| duration_of(&Json::from(text.trim())).filter(|ms| *ms >= 0);
    let (strategy, idle) = match text.split_once(',') {
        Some((strategy, idle)) => {
            let idle = ms(idle.trim().strip_prefix("idle:")?).filter(|ms| *ms > 0)?;
            (strategy, Some(idle))
        }
        None => (text, None),
    };
    let delay_ms = match strategy.trim() {
        "none" => None,
        "monotonic" => Some(0),
        bounded => Some(ms(bounded.strip_prefix("bounded:")?)?),
    };
    let idle = idle.and_then(|ms| u64::try_from(ms).ok());
    Some(WatermarkDefault {
        delay_ms,
        idle_after: idle.map(Duration::from_millis),
    })
}

pub(super) fn is_address(part: &str) -> bool {
    // PLAINTEXT://host:port is accepted by librdkafka too.
    let rest = part.split_once("://").map_or(part, |(_, rest)| rest);
    rest.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(char::is_whitespace)
            && port.parse::<u16>().is_ok_and(|p| p > 0)
    })
}

pub(super) fn default_lanes() -> i64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    i64::try_from(cores * 4).unwrap_or(4).min(4_096)
}
