//! Native aggregations as data: what `sf.sum(sf.value["amount"])` becomes when it crosses the border.
//!
//! Takes and gives shapes: one measure, or several under names. Says what is wrong with one, puts those
//! of a cogroup together, and shows them as a user would write them. Never computes: that is
//! `stoatflow-operators::expr::aggregation`.

use crate::Expression;
use crate::expression::kinds::Kinds;
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregationKind {
    /// How many: records, or those for which the expression gives something.
    Count,
    /// The sum of numbers; 0 for none.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The mean of numbers.
    Avg,
    /// What came first.
    First,
    /// What came last.
    Last,
    /// All, in their order; with a size: the last so many.
    Collect,
    /// Each once, in the order in which they came first; with a size: no more than so many.
    CollectSet,
    /// Those with the greatest rank, the greatest first.
    TopK,
    /// About how many different ones; the size is the precision in bits.
    ApproxDistinct,
}

impl AggregationKind {
    /// The function that makes it.
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

    /// Can what went in be taken out again? Tables need that.
    #[must_use]
    pub const fn goes_back(self) -> bool {
        matches!(self, Self::Count | Self::Sum | Self::Avg)
    }
}

/// One measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// What is measured.
    pub kind: AggregationKind,
    /// Of what; null is left out. Only a count may have none: it counts records then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Expression>,
    /// `top_k`: ranked by this, instead of by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Expression>,
    /// How much it may hold: elements, or bits of precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Of a cogroup: it is another stream's, records of this one don't touch it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub elsewhere: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
const fn is_false(b: &bool) -> bool {
    !*b
}

impl Measure {
    /// What the states of two must have in common to be one.
    fn shape(&self) -> (AggregationKind, Option<u64>, bool) {
        (self.kind, self.size, self.by.is_some())
    }

    /// The same measure, of another stream's records.
    fn elsewhere(&self) -> Self {
        Self {
            elsewhere: true,
            ..self.clone()
        }
    }

    /// The expressions that it reads records with, and what each must give.
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
    /// Several, the members of an object.
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

    /// The expressions that it reads records with.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let measures = self.measures().into_iter();
        measures.flat_map(|m| m.of.iter().chain(&m.by)).collect()
    }

    /// The same, with what each must give to be measured.
    pub(crate) fn wanted(&self) -> Vec<(&Expression, Kinds)> {
        let measures = self.measures().into_iter();
        measures.flat_map(Measure::wanted).collect()
    }

    /// Is it a plain count of records, written as one?
    #[must_use]
    pub const fn is_count(&self) -> bool {
        matches!(self, Self::One(measure) if matches!(measure.kind, AggregationKind::Count))
    }

    /// Is the aggregate a list or an object, or does the store keep more than the result?
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

    /// What is wrong with it, if anything.
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

    /// The first measure from which nothing can be taken away.
    #[must_use]
    pub fn one_way(&self) -> Option<AggregationKind> {
        let mut kinds = self.measures().into_iter().map(|m| m.kind);
        kinds.find(|kind| !kind.goes_back())
    }

    /// Those of a cogroup, each with the members of all: they share one object.
    ///
    /// # Errors
    /// What doesn't fit together.
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
