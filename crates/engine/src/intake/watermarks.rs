//! Watermark rules of source partitions, and the times that a commit stores beside an offset.
//!
//! Turns the plan's strategies and the setting's default into a rule per partition, and encodes
//! times into the metadata of a committed offset. Watermarks themselves are computed by
//! [`stoatflow_protocol::Watermarks`].

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::WatermarkDefault;
use stoatflow_core::{Result, Timestamp};
use stoatflow_operators::{ForeignCode, Udf};
use stoatflow_plan::{Source, WatermarkStrategy};
use stoatflow_protocol::{AlignmentGroup, Rule, Strategy};

#[cfg(test)]
mod tests;

/// How a partition's watermark is determined.
#[derive(Clone, Debug)]
pub struct WatermarkOf {
    /// The rule.
    pub rule: Rule,
    /// The user function of [`Strategy::Custom`].
    pub function: Option<Arc<dyn Udf>>,
    /// The strategy's name, for display.
    pub shown: Arc<str>,
    /// The alignment group.
    pub group: Option<Arc<str>>,
}

impl WatermarkOf {
    /// The rule of a source. `groups` has the names of all groups so far; new ones are added.
    ///
    /// # Errors
    /// `Internal` if the plan names a function that isn't there.
    pub fn source(
        source: &Source,
        default: WatermarkDefault,
        foreign: &ForeignCode,
        groups: &mut Vec<Arc<str>>,
    ) -> Result<Self> {
        if source.global {
            return Ok(Self::of(Rule::of(Strategy::None), "none"));
        }
        let Some(said) = &source.watermark else {
            let rule = Rule {
                strategy: default.delay_ms.map_or(Strategy::None, Strategy::Bounded),
                idle_after: default.idle_after,
                aligned: None,
            };
            return Ok(match default.delay_ms {
                None => Self::of(rule, "none"),
                Some(0) => Self::of(rule, "monotonic"),
                Some(ms) => Self::of(rule, &format!("bounded({ms} ms)")),
            });
        };
        let (strategy, shown) = match said.strategy {
            WatermarkStrategy::Monotonic => (Strategy::Bounded(0), "monotonic".to_owned()),
            WatermarkStrategy::Bounded(ms) => (Strategy::Bounded(ms), format!("bounded({ms} ms)")),
            WatermarkStrategy::Udf(_) => (Strategy::Custom, "custom".to_owned()),
            WatermarkStrategy::None => (Strategy::None, "none".to_owned()),
        };
        let function = match said.strategy {
            WatermarkStrategy::Udf(index) => Some(foreign.udf(index)?),
            _ => None,
        };
        let group = said.group.as_ref().map(|name| number(groups, name));
        let idle = said.idle_ms.and_then(|ms| u64::try_from(ms).ok());
        Ok(Self {
            rule: Rule {
                strategy,
                idle_after: idle.map(Duration::from_millis),
                aligned: group.map(|at| AlignmentGroup {
                    group: u32::try_from(at).unwrap_or(u32::MAX),
                    max_drift: said.max_drift_ms,
                }),
            },
            function,
            shown: shown.into(),
            group: group.map(|at| Arc::clone(&groups[at])),
        })
    }

    fn of(rule: Rule, shown: &str) -> Self {
        Self {
            rule,
            function: None,
            shown: shown.into(),
            group: None,
        }
    }

    /// True if both rules are the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let functions = (&self.function, &other.function);
        let same = match functions {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        same && self.rule == other.rule
    }
}

fn number(groups: &mut Vec<Arc<str>>, name: &str) -> usize {
    let known = groups.iter().position(|group| **group == *name);
    known.unwrap_or_else(|| {
        groups.push(name.into());
        groups.len() - 1
    })
}

/// A partition's times and leader epoch, stored beside a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The partition's highest timestamp.
    pub stream_time: Timestamp,
    /// The partition's watermark; -1: none.
    pub watermark: i64,
    /// The application's watermark, the same for all offsets of a commit; -1: none.
    pub application: i64,
    /// The leader epoch under which the last record before the offset was written (KIP-320); -1: unknown.
    pub leader_epoch: i32,
}

impl Progress {
    /// No times yet.
    pub const NONE: Self = Self {
        stream_time: Timestamp::UNKNOWN,
        watermark: -1,
        application: -1,
        leader_epoch: -1,
    };

    /// The metadata. Other marks may follow, separated by a semicolon.
    #[must_use]
    pub fn encode(self) -> String {
        let mut text = format!("st={}", self.stream_time.0);
        let epoch = i64::from(self.leader_epoch);
        for (name, value) in [
            ("wm", self.watermark),
            ("aw", self.application),
            ("le", epoch),
        ] {
            if value >= 0 {
                // Writing to a string can't fail.
                let _ = write!(text, ";{name}={value}");
            }
        }
        text
    }

    /// Parses the result of [`Self::encode`]; values that are missing (other tools, older versions) are
    /// unknown.
    #[must_use]
    pub fn decode(metadata: &str) -> Self {
        let mut parts = metadata.split(';');
        let mut found = Self::NONE;
        let Some(first) = parts.next().and_then(|part| part.strip_prefix("st=")) else {
            return found;
        };
        let Ok(stream_time) = first.parse() else {
            return found;
        };
        found.stream_time = Timestamp(stream_time);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let Ok(value) = value.parse::<i64>() else {
                continue;
            };
            match name {
                "wm" => found.watermark = value,
                "aw" => found.application = value,
                "le" => found.leader_epoch = i32::try_from(value).unwrap_or(-1),
                _ => {}
            }
        }
        found
    }
}

/// True if this engine wrote the metadata.
#[must_use]
pub fn is_own(metadata: &str) -> bool {
    metadata.starts_with("st=")
}

/// Metadata with nothing but the highest timestamp.
#[must_use]
pub fn encode_stream_time(time: Timestamp) -> String {
    let progress = Progress {
        stream_time: time,
        ..Progress::NONE
    };
    progress.encode()
}

/// The highest timestamp in the metadata.
#[must_use]
pub fn decode_stream_time(metadata: &str) -> Timestamp {
    Progress::decode(metadata).stream_time
}
