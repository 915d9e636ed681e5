//! The aggregate of several measures, or of one that is not a plain datum.
//!
//! Takes cells, returns a shared datum that never changes, its JSON, and cells read back from JSON. The
//! JSON is the format of stores, changelogs and queries: it is documented (docs/guide/aggregations.md),
//! and old stores must stay readable. Never guesses: what another aggregation wrote is refused.

use super::cell::{Cell, Ranked};
use super::items::Items;
use super::sketch::{BITS, Sketch};
use crate::expr::json;
use smallvec::SmallVec;
use sonic_rs::PointerNode;
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::serde::check_json;
use stoatflow_core::{Bytes, Datum, Error, Opaque, Result};
use stoatflow_plan::{Aggregation as Spec, AggregationKind as Kind};

/// One cell per measure.
pub(super) type Cells = SmallVec<[Cell; 2]>;

/// How a measure is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasureKind {
    pub kind: Kind,
    /// The maximum number of elements.
    pub size: usize,
    /// Bits of precision.
    bits: u8,
    /// True if there is a rank.
    pub ranked: bool,
    /// True if it is written as part of a JSON state; false for a plain aggregate, which any serde may
    /// write.
    json: bool,
}

impl MeasureKind {
    pub fn start(&self) -> Cell {
        match self.kind {
            Kind::Count | Kind::Sum => Cell::Plain(Datum::Int(0)),
            Kind::Min | Kind::Max | Kind::First | Kind::Last => Cell::Plain(Datum::Null),
            Kind::Avg => Cell::Avg {
                sum: Datum::Int(0),
                count: 0,
            },
            Kind::Collect | Kind::CollectSet => Cell::Items(Arc::default()),
            Kind::TopK => Cell::Top {
                best: Arc::default(),
                ranked: self.ranked,
            },
            Kind::ApproxDistinct => Cell::Sketch(Arc::new(Sketch::new(self.bits))),
        }
    }

    /// Returns an error if a datum can't be kept. Checked once for each new datum, so that writing never
    /// fails.
    pub fn check(&self, kept: &Datum) -> Result<()> {
        if self.json {
            check_json(kept)?;
        }
        Ok(())
    }
}

/// What all aggregates of an aggregation have in common.
#[derive(Debug)]
pub(super) struct Shape {
    /// Names of the members, and the same as JSON text; `None`: one measure without a name.
    names: Option<Vec<(String, String)>>,
    pub measures: Vec<MeasureKind>,
    pub text: String,
    plain: bool,
}

impl Shape {
    pub fn new(spec: &Spec) -> Self {
        let names = match spec {
            Spec::One(_) => None,
            Spec::Several(all) => Some(
                all.iter()
                    .map(|(name, _)| {
                        let quoted = serde_json::Value::from(name.as_str()).to_string();
                        (name.clone(), quoted)
                    })
                    .collect(),
            ),
        };
        let measures = spec.measures().into_iter().map(|measure| MeasureKind {
            kind: measure.kind,
            size: measure.size.map_or(usize::MAX, |size| {
                usize::try_from(size).unwrap_or(usize::MAX)
            }),
            bits: measure
                .size
                .and_then(|bits| u8::try_from(bits).ok())
                .unwrap_or(BITS),
            // A member of another stream has no expressions here, but its state has the same form.
            ranked: measure.by.is_some(),
            json: spec.is_state(),
        });
        Self {
            measures: measures.collect(),
            names,
            plain: !spec.is_state(),
            text: spec.to_string(),
        }
    }

    /// True if the aggregate is a plain datum.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Checks that a plain measure can hold a datum.
    pub fn plain(&self, at: usize, found: Datum) -> Result<Datum> {
        let fits = match self.measures[at].kind {
            Kind::Count => matches!(found, Datum::Int(_)),
            Kind::Sum => matches!(found, Datum::Int(_) | Datum::Float(_)),
            _ => true,
        };
        if fits {
            Ok(found)
        } else {
            Err(self.foreign(&crate::expr::kind(&found)))
        }
    }

    /// Reads an aggregate from a store.
    pub fn read(&self, bytes: &Bytes) -> Result<Cells> {
        let Some(names) = &self.names else {
            return Ok(SmallVec::from_elem(
                self.cell(0, json::settle(bytes.clone())?)?,
                1,
            ));
        };
        let mut found: Vec<Option<Datum>> = vec![None; names.len()];
        self.members(bytes, &mut |name, value| {
            if let Some(at) = names.iter().position(|(known, _)| known == name) {
                found[at] = Some(value);
            }
        })?;
        let cells = found.into_iter().enumerate().map(|(at, found)| {
            let name = &names[at].0;
            let found = found.ok_or_else(|| self.foreign(&format!("no member '{name}'")))?;
            self.cell(at, found)
        });
        cells.collect()
    }

    fn cell(&self, at: usize, found: Datum) -> Result<Cell> {
        let how = &self.measures[at];
        let what = crate::expr::kind(&found);
        let read = match (how.kind, found) {
            (Kind::Avg, Datum::Json(bytes)) => self.avg(&bytes)?,
            (Kind::Collect | Kind::CollectSet, Datum::Json(bytes)) if json::is_array(&bytes) => {
                Some(Cell::Items(Arc::new(Items::read(&bytes, how)?)))
            }
            (Kind::TopK, Datum::Json(bytes)) => self.top(how, &bytes)?,
            (Kind::ApproxDistinct, Datum::Json(bytes)) => self.sketch(how, &bytes)?,
            (
                Kind::Avg | Kind::Collect | Kind::CollectSet | Kind::TopK | Kind::ApproxDistinct,
                _,
            ) => None,
            (_, plain) => Some(Cell::Plain(self.plain(at, plain)?)),
        };
        read.ok_or_else(|| self.foreign(&what))
    }

    fn avg(&self, bytes: &Bytes) -> Result<Option<Cell>> {
        let (mut sum, mut count) = (None, None);
        self.members(bytes, &mut |name, value| match name {
            "sum" => sum = Some(value),
            "count" => count = Some(value),
            _ => {}
        })?;
        Ok(match (sum, count) {
            (Some(sum @ (Datum::Int(_) | Datum::Float(_))), Some(Datum::Int(count))) => {
                Some(Cell::Avg { sum, count })
            }
            _ => None,
        })
    }

    /// `None` also if the rank was added or removed: stored elements could not be compared with new
    /// ones.
    fn top(&self, how: &MeasureKind, bytes: &Bytes) -> Result<Option<Cell>> {
        let (mut top, mut by) = (Vec::new(), Vec::new());
        if json::is_array(bytes) {
            if how.ranked {
                return Ok(None);
            }
            json::items(bytes, &mut |item| by.push(item))?;
            by.truncate(how.size);
            let best = by.into_iter().map(|by| Ranked {
                by,
                of: Datum::Null,
            });
            return Ok(Some(Cell::Top {
                best: Arc::new(best.collect()),
                ranked: false,
            }));
        }
        if !how.ranked {
            return Ok(None);
        }
        let (mut tops, mut bys) = (None, None);
        self.members(bytes, &mut |name, value| match name {
            "top" => tops = Some(value),
            "by" => bys = Some(value),
            _ => {}
        })?;
        for (list, into) in [(tops, &mut top), (bys, &mut by)] {
            match list {
                Some(Datum::Json(list)) if json::is_array(&list) => {
                    json::items(&list, &mut |item| into.push(item))?;
                }
                _ => return Ok(None),
            }
        }
        if top.len() != by.len() {
            return Ok(None);
        }
        let best = by.into_iter().zip(top).map(|(by, of)| Ranked { by, of });
        Ok(Some(Cell::Top {
            best: Arc::new(best.take(how.size).collect()),
            ranked: true,
        }))
    }

    fn sketch(&self, how: &MeasureKind, bytes: &Bytes) -> Result<Option<Cell>> {
        // Earlier versions did not write the precision.
        let (mut sketch, mut bits) = (None, i64::from(how.bits));
        self.members(bytes, &mut |name, value| match (name, value) {
            ("few" | "registers", Datum::Str(text)) => {
                sketch = Sketch::read(how.bits, name, text.as_str());
            }
            ("bits", Datum::Int(written)) => bits = written,
            _ => {}
        })?;
        let sketch = sketch.filter(|_| bits == i64::from(how.bits));
        Ok(sketch.map(|sketch| Cell::Sketch(Arc::new(sketch))))
    }

    fn members(&self, bytes: &Bytes, take: &mut dyn FnMut(&str, Datum)) -> Result<()> {
        if bytes.trim_ascii().first() != Some(&b'{') {
            return Err(self.foreign(json::kind(bytes)));
        }
        for member in sonic_rs::to_object_iter(bytes.as_ref()) {
            let (name, value) = member.map_err(|e| self.foreign("broken JSON").caused_by(e))?;
            let value = json::settle(bytes.slice_ref(value.as_raw_str().as_bytes()))?;
            take(&name, value);
        }
        Ok(())
    }

    /// The error for a store that holds something else.
    pub fn foreign(&self, found: &str) -> Error {
        Error::incompatible(format!(
            "the store of {} holds rows of another aggregation ({found})",
            self.text
        ))
        .hint("use Serdes.json(), and give a changed aggregation another store= name. To compute everything again: stoatflow \
            reset")
    }

    fn same(&self, other: &Self) -> bool {
        let names = |shape: &Self| shape.names.as_ref().map(Vec::len);
        self.measures == other.measures
            && names(self) == names(other)
            && self
                .names
                .iter()
                .flatten()
                .zip(other.names.iter().flatten())
                .all(|(a, b)| a.0 == b.0)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    shape: Arc<Shape>,
    cells: Cells,
}

impl State {
    pub(super) fn datum(shape: Arc<Shape>, cells: Cells) -> Datum {
        Datum::Opaque(Arc::new(Self { shape, cells }))
    }

    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }

    pub(super) fn is_of(&self, shape: &Arc<Shape>) -> bool {
        Arc::ptr_eq(&self.shape, shape) || self.shape.same(shape)
    }

    /// The state in a datum, if it is one.
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// Follows a path without writing the whole; `None`: the caller must use its JSON.
    pub fn walk(&self, path: &[PointerNode]) -> Option<Result<Datum>> {
        let (cell, rest) = match &self.shape.names {
            None => (self.cells.first()?, path),
            Some(names) => {
                let [PointerNode::Key(name), rest @ ..] = path else {
                    return None;
                };
                let at = names.iter().position(|(known, _)| known == name.as_str())?;
                (self.cells.get(at)?, rest)
            }
        };
        match rest {
            [] => Some(cell.clone().datum()),
            [PointerNode::Key(name)] => cell.member(name.as_str()),
            _ => None,
        }
    }
}

impl Opaque for State {
    fn to_json(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(64);
        match &self.shape.names {
            None => self
                .cells
                .iter()
                .try_for_each(|cell| cell.write(&mut out))?,
            Some(names) => {
                for ((_, name), cell) in names.iter().zip(&self.cells) {
                    out.push(if out.is_empty() { b'{' } else { b',' });
                    out.extend_from_slice(name.as_bytes());
                    out.push(b':');
                    cell.write(&mut out)?;
                }
                out.push(b'}');
            }
        }
        Ok(out.into())
    }

    fn type_name(&self) -> String {
        format!("aggregate of {}", self.shape.text)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn changes(&self) -> bool {
        false
    }

    fn weight(&self) -> usize {
        self.cells.iter().map(Cell::weight).sum::<usize>() + 64
    }
}
