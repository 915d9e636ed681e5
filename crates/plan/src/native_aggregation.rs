//! Native aggregations as data: `sf.sum(sf.value["amount"])` in the form in which Python sends it.
//!
//! One measure, or several under names. Validates an aggregation, combines those of a cogroup, and
//! renders them in the user's syntax. Never computes: that is `stoatflow-operators::expr::aggregation`.

use crate::Expression;
use crate::expression::kinds::Kinds;
use serde::{Deserialize, Serialize};

/// The kind of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregationKind {
    /// The number of records, or of those for which the expression is not null.
    Count,
    /// The sum of numbers; 0 for none.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean of numbers.
    Avg,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// All values in order; with a size: the last ones.
    Collect,
    /// Distinct values in the order of first occurrence; with a size: at most that many.
    CollectSet,
    /// The values with the highest rank, the highest first.
    TopK,
    /// The approximate number of distinct values; the size is the precision in bits.
    ApproxDistinct,
}

impl AggregationKind {
    /// The DSL function that creates it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::First => "first",
            Self::Last => "last",
            Self::Collect => "collect",
            Self::CollectSet => "collect_set",
            Self::TopK => "top_k",
            Self::ApproxDistinct => "approx_distinct",
        }
    }

    /// Whether a value can be subtracted again. Aggregations of tables need that.
    #[must_use]
    pub const fn is_subtractable(self) -> bool {
        matches!(self, Self::Count | Self::Sum | Self::Avg)
    }
}

/// One measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The kind.
    pub kind: AggregationKind,
    /// The measured expression; null is skipped. Only a count may have none: then it counts records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Expression>,
    /// `top_k`: ranks by this expression instead of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Expression>,
    /// The maximum number of elements, or the bits of precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// In a cogroup: it belongs to another stream, and records of this one don't change it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub elsewhere: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde calls
const fn is_false(b: &bool) -> bool {
    !*b
}

impl Measure {
    /// Two measures must agree in this to share their state.
    fn shape(&self) -> (AggregationKind, Option<u64>, bool) {
        (self.kind, self.size, self.by.is_some())
    }

    /// The same measure, for another stream's records.
    fn elsewhere(&self) -> Self {
        Self {
            elsewhere: true,
            ..self.clone()
        }
    }

    /// The expressions that it evaluates on records, and the kinds that each must have.
    fn wanted(&self) -> impl Iterator<Item = (&Expression, Kinds)> {
        let of = match self.kind {
            AggregationKind::Sum | AggregationKind::Avg => Kinds::NUMBER,
            AggregationKind::Min | AggregationKind::Max => Kinds::ORDERED,
            AggregationKind::TopK if self.by.is_none() => Kinds::ORDERED,
            _ => Kinds::ALL,
        };
        let of = self.of.iter().map(move |e| (e, of));
        of.chain(self.by.iter().map(|e| (e, Kinds::ORDERED)))
    }

    fn problem(&self) -> Option<String> {
        let name = self.kind.name();
        if self.of.is_none() && self.kind != AggregationKind::Count {
            return Some(format!("{name} needs an expression: what is measured"));
        }
        if self.by.is_some() && self.kind != AggregationKind::TopK {
            return Some(format!("{name} has no rank: leave by= out"));
        }
        match (self.kind, self.size) {
            (AggregationKind::TopK, None) => Some("top_k needs k: how many are kept".into()),
            (
                AggregationKind::TopK | AggregationKind::Collect | AggregationKind::CollectSet,
                Some(0),
            ) => Some(format!("{name} that keeps nothing: give 1 or more")),
            (AggregationKind::ApproxDistinct, Some(bits)) if !(4..=16).contains(&bits) => Some(
                format!("approx_distinct counts with 4 to 16 bits of precision, not {bits}"),
            ),
            (
                AggregationKind::TopK
                | AggregationKind::Collect
                | AggregationKind::CollectSet
                | AggregationKind::ApproxDistinct,
                _,
            ) => None,
            (_, Some(_)) => Some(format!("{name} has no size: leave it out")),
            (_, None) => None,
        }
    }
}

/// A native aggregation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// One measure; its state is the aggregate.
    One(Measure),
    /// Several measures, the members of an object.
    Several(Vec<(String, Measure)>),
}

impl Aggregation {
    /// Its measures.
    #[must_use]
    pub fn measures(&self) -> Vec<&Measure> {
        match self {
            Self::One(measure) => vec![measure],
            Self::Several(all) => all.iter().map(|(_, measure)| measure).collect(),
        }
    }

    /// The expressions that it evaluates on records.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let measures = self.measures().into_iter();
        measures.flat_map(|m| m.of.iter().chain(&m.by)).collect()
    }

    /// The same, with the kinds that each must have.
    pub(crate) fn wanted(&self) -> Vec<(&Expression, Kinds)> {
        let measures = self.measures().into_iter();
        measures.flat_map(Measure::wanted).collect()
    }

    /// Whether it is a plain count, whose aggregate is a number.
    #[must_use]
    pub const fn is_count(&self) -> bool {
        matches!(self, Self::One(measure) if matches!(measure.kind, AggregationKind::Count))
    }

    /// Whether the aggregate is a list or an object, or the store keeps more than the result.
    #[must_use]
    pub const fn is_state(&self) -> bool {
        match self {
            Self::One(measure) => !matches!(
                measure.kind,
                AggregationKind::Count
                    | AggregationKind::Sum
                    | AggregationKind::Min
                    | AggregationKind::Max
                    | AggregationKind::First
                    | AggregationKind::Last
            ),
            Self::Several(_) => true,
        }
    }

    /// A problem with it, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if let Self::Several(all) = self {
            if all.is_empty() {
                return Some("sf.agg needs at least one aggregation".into());
            }
            let twice = all
                .iter()
                .enumerate()
                .find(|(n, (name, _))| all[..*n].iter().any(|(other, _)| other == name));
            if let Some((_, (name, _))) = twice {
                return Some(format!(
                    "sf.agg names '{name}' twice: give each its own name"
                ));
            }
        }
        self.measures().into_iter().find_map(Measure::problem)
    }

    /// The first measure from which nothing can be subtracted.
    #[must_use]
    pub fn first_not_subtractable(&self) -> Option<AggregationKind> {
        let mut kinds = self.measures().into_iter().map(|m| m.kind);
        kinds.find(|kind| !kind.is_subtractable())
    }

    /// The aggregations of a cogroup, each with the measures of all: they share one object.
    ///
    /// # Errors
    /// Why they can't be combined.
    pub fn together(all: &[&Self]) -> Result<Vec<Self>, String> {
        let [first, rest @ ..] = all else {
            return Ok(vec![]);
        };
        let named = |aggregation: &&Self| matches!(aggregation, Self::Several(_));
        if let Self::One(measure) = first {
            for other in rest {
                match other {
                    Self::One(o) if o.shape() == measure.shape() => {}
                    _ => return Err(not_one(&first.to_string(), &other.to_string())),
                }
            }
            return Ok(all.iter().map(|one| (*one).clone()).collect());
        }
        if let Some(other) = rest.iter().find(|other| !named(other)) {
            return Err(not_one(&first.to_string(), &other.to_string()));
        }
        let mut union: Vec<(String, Measure)> = Vec::new();
        for (name, measure) in all.iter().flat_map(|one| one.members()) {
            match union.iter().find(|(known, _)| known == name) {
                None => union.push((name.clone(), measure.elsewhere())),
                Some((_, known)) if known.shape() == measure.shape() => {}
                Some((_, known)) => {
                    return Err(format!(
                        "its streams measure '{name}' as {} and as {}: give them different names",
                        known.kind.name(),
                        measure.kind.name()
                    ));
                }
            }
        }
        let completed = all.iter().map(|one| {
            let members = union.iter().map(|(name, elsewhere)| {
                let own = one.members().iter().find(|(known, _)| known == name);
                let measure = own.map_or(elsewhere, |(_, measure)| measure);
                (name.clone(), measure.clone())
            });
            Self::Several(members.collect())
        });
        Ok(completed.collect())
    }

    fn members(&self) -> &[(String, Measure)] {
        match self {
            Self::One(_) => &[],
            Self::Several(all) => all,
        }
    }
}

fn not_one(one: &str, other: &str) -> String {
    format!(
        "its streams have one aggregate, but {one} and {other} don't fit together: give each of them names, sf.agg(name=...)"
    )
}

impl std::fmt::Display for Aggregation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(measure) => write!(f, "sf.{}", measure.kind.name()),
            Self::Several(all) => {
                f.write_str("sf.agg(")?;
                for (n, (name, measure)) in all.iter().filter(|(_, m)| !m.elsewhere).enumerate() {
                    let comma = if n > 0 { ", " } else { "" };
                    write!(f, "{comma}{name}=sf.{}", measure.kind.name())?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests;
