//! Chooses the access path.
//!
//! Keys are better than an index, an index with more fixed fields is better than one with fewer, an index
//! with the requested order is better than one without, and then one that covers the query.

use super::covering::covered;
use super::ranges::{AccessRange, Domain, behind, ranges};
use super::{Access, AccessPath, FindSpec, IndexView, KeyOrder, OrderBy};
use crate::expression::render::located;
use crate::expression::{Expression as E, ScalarFunction};
use stoatflow_core::{Error, Result, ordered};

/// Conditions on several fields are combined into at most this many ranges.
const MOST_RANGES: usize = 1_000;

/// An access path along an index.
struct IndexPath {
    index: usize,
    ranges: Vec<AccessRange>,
    /// Fields that are restricted to single values.
    fixed: usize,
    ranged: bool,
    order: Option<bool>,
    repeats: bool,
    covers: bool,
}

impl IndexPath {
    /// Sort key; the best path has the largest.
    fn merit(&self) -> (usize, bool, bool, bool) {
        (self.fixed, self.ranged, self.order.is_some(), self.covers)
    }
}

/// The access path of a query.
///
/// # Errors
/// `Config` if all rows would have to be read without permission, or for a limit of 0.
pub fn choose(spec: &FindSpec, keys: KeyOrder, indexes: &[IndexView<'_>]) -> Result<Access> {
    if spec.limit == Some(0) {
        return Err(
            Error::config("limit=0 asks for no row").hint("give at least 1, or leave it out")
        );
    }
    let by_key = spec
        .condition
        .as_ref()
        .and_then(|condition| ranges(condition, &E::Key, Domain::Key(keys)));
    let key_order = key_order(&spec.order_by, keys);
    let keyed = |path, ranges| Access {
        path,
        ranges,
        reverse: key_order.unwrap_or(false),
        in_order: key_order.is_some(),
        repeats: false,
    };
    if let Some(points) = by_key
        .as_ref()
        .filter(|all| all.iter().all(|range| range.point))
    {
        return Ok(keyed(AccessPath::Keys, points.clone()));
    }
    let paths = indexes.iter().enumerate();
    let paths = paths.filter(|(_, index)| index.readable);
    let mut paths: Vec<IndexPath> = paths
        .filter_map(|(at, index)| index_path(spec, at, index))
        .collect();
    // Among equally good indexes the one that was declared first.
    paths.reverse();
    let best = paths.into_iter().max_by_key(IndexPath::merit);
    match (best, by_key) {
        (Some(path), by_key) if path.fixed > 0 || (path.ranged && by_key.is_none()) => {
            Ok(access(path))
        }
        (_, Some(ranges)) => Ok(keyed(AccessPath::KeyRange, ranges)),
        // No row is filtered out, so only as many rows are read as are returned.
        (_, None) if spec.condition.is_none() && spec.limit.is_some() && key_order.is_some() => {
            Ok(keyed(AccessPath::KeyRange, vec![everything()]))
        }
        (Some(path), None)
            if spec.condition.is_none() && spec.limit.is_some() && path.order.is_some() =>
        {
            Ok(access(path))
        }
        _ if spec.allow_scan => Ok(keyed(AccessPath::Scan, vec![everything()])),
        _ => Err(would_scan(spec, indexes)),
    }
}

fn access(path: IndexPath) -> Access {
    Access {
        path: AccessPath::Index(path.index),
        ranges: path.ranges,
        reverse: path.order.unwrap_or(false),
        in_order: path.order.is_some(),
        repeats: path.repeats,
    }
}

fn everything() -> AccessRange {
    AccessRange {
        from: Vec::new(),
        to: None,
        point: false,
    }
}

/// Whether the keys are stored in the requested order; `Some(true)`: they must be read backwards.
fn key_order(order_by: &[OrderBy], keys: KeyOrder) -> Option<bool> {
    match order_by {
        [] => Some(false),
        // Keys are unique, so later terms don't matter.
        [first, ..] if first.expr == E::Key && keys == KeyOrder::Text => Some(first.down),
        _ => None,
    }
}

fn index_path(spec: &FindSpec, index: usize, view: &IndexView<'_>) -> Option<IndexPath> {
    let fields: Vec<E> = view
        .spec
        .fields
        .iter()
        .map(|f| f.expr.without_places())
        .collect();
    if view.spec.each {
        let found = ranges(spec.condition.as_ref()?, &fields[0], Domain::Elements)?;
        return Some(IndexPath {
            index,
            covers: covered(spec, view.spec).is_some(),
            repeats: found.len() > 1,
            order: spec.order_by.is_empty().then_some(false),
            ranges: found,
            fixed: 1,
            ranged: false,
        });
    }
    let mut all = vec![AccessRange {
        from: Vec::new(),
        to: None,
        point: true,
    }];
    // `fixed`: fields restricted to single values; `single`: those at the front that have exactly one
    // value.
    let (mut fixed, mut single, mut ranged) = (0, 0, false);
    for field in &fields {
        let condition = spec.condition.as_ref();
        let Some(found) = condition.and_then(|c| ranges(c, field, Domain::Field)) else {
            break;
        };
        if all.len() * found.len() > MOST_RANGES {
            break;
        }
        let points = found.iter().all(|range| range.point);
        all = product(&all, &found);
        if !points {
            ranged = true;
            break;
        }
        if found.len() == 1 && single == fixed {
            single += 1;
        }
        fixed += 1;
    }
    if fixed == 0 && !ranged {
        all = vec![AccessRange {
            from: vec![ordered::NULL],
            to: None,
            point: false,
        }];
    }
    Some(IndexPath {
        index,
        covers: covered(spec, view.spec).is_some(),
        order: order(&spec.order_by, &fields, single),
        ranges: all,
        fixed,
        ranged,
        repeats: false,
    })
}

/// Combines the ranges of leading fields with those of the next field.
fn product(front: &[AccessRange], back: &[AccessRange]) -> Vec<AccessRange> {
    let mut all = Vec::with_capacity(front.len() * back.len());
    for a in front {
        for b in back {
            let to = match &b.to {
                Some(to) => Some([a.from.as_slice(), to].concat()),
                None => behind(&a.from),
            };
            all.push(AccessRange {
                from: [a.from.as_slice(), &b.from].concat(),
                to,
                point: b.point,
            });
        }
    }
    all
}

/// Whether the index has this order if its first `single` fields have one value each; `Some(true)`: it
/// must be read backwards.
fn order(order_by: &[OrderBy], fields: &[E], single: usize) -> Option<bool> {
    let (known, rest) = fields.split_at(single);
    let asked: Vec<&OrderBy> = order_by
        .iter()
        .filter(|by| !known.contains(&by.expr))
        .collect();
    let Some(first) = asked.first() else {
        return Some(false);
    };
    let fits = asked.len() <= rest.len()
        && asked
            .iter()
            .zip(rest)
            .all(|(by, field)| by.expr == *field && by.down == first.down);
    fits.then_some(first.down)
}

fn would_scan(spec: &FindSpec, indexes: &[IndexView<'_>]) -> Error {
    let building: Vec<&str> = indexes
        .iter()
        .filter(|index| !index.readable)
        .map(|index| index.spec.name.as_str())
        .collect();
    let hint = if !building.is_empty() {
        format!(
            "the index {} is still being built, see /state: ask again when it is done, or read everything with \
             allow_scan=True",
            building.join(", ")
        )
    } else if let Some(index) = helpful(spec) {
        format!("declare {index} with the store, or read everything with allow_scan=True")
    } else {
        "give a condition that an index or the key can answer, or a limit=, or read everything with allow_scan=True"
            .to_owned()
    };
    let what = match &spec.condition {
        Some(condition) => format!(
            "no index finds {}: all rows would be read",
            located(condition, None)
        ),
        None => "all rows would be read".to_owned(),
    };
    Error::config(what).hint(hint)
}

/// An index that would help, as the user would declare it.
fn helpful(spec: &FindSpec) -> Option<String> {
    let (mut fixed, mut ranged, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(condition) = &spec.condition {
        sides(condition, &mut fixed, &mut ranged, &mut lists);
    }
    if let Some(list) = lists.first().filter(|_| fixed.is_empty()) {
        let text = located(list, None);
        return Some(format!(
            "sf.Index({:?}, {text}, each=True)",
            name_of(&[list])
        ));
    }
    let mut fields: Vec<&E> = fixed;
    match ranged.first() {
        Some(ranged) => fields.push(ranged),
        None => fields.extend(spec.order_by.iter().map(|by| &by.expr)),
    }
    let mut each: Vec<&E> = Vec::new();
    for field in fields {
        if *field != E::Key && !each.contains(&field) {
            each.push(field);
        }
    }
    if each.is_empty() || (spec.condition.is_none() && spec.limit.is_none()) {
        return None;
    }
    let texts: Vec<String> = each.iter().map(|field| located(field, None)).collect();
    Some(format!(
        "sf.Index({:?}, {})",
        name_of(&each),
        texts.join(", ")
    ))
}

fn name_of(fields: &[&E]) -> String {
    let parts = fields.iter().map(|field| match field {
        E::Get { name, .. } => name.as_str(),
        _ => "field",
    });
    format!("by_{}", parts.collect::<Vec<_>>().join("_"))
}

/// The expressions that are compared with constants, in conditions that must all be true.
fn sides<'e>(
    condition: &'e E,
    fixed: &mut Vec<&'e E>,
    ranged: &mut Vec<&'e E>,
    lists: &mut Vec<&'e E>,
) {
    let other = |args: &'e [E; 2]| match args {
        [left, right] if right.constant().is_some() => Some(left),
        [left, right] if left.constant().is_some() => Some(right),
        _ => None,
    };
    match condition {
        E::And { args } => args
            .iter()
            .for_each(|part| sides(part, fixed, ranged, lists)),
        E::Eq { args } => fixed.extend(other(args)),
        E::IsNull { args } => fixed.push(&args[0]),
        E::Lt { args } | E::Le { args } | E::Gt { args } | E::Ge { args } => {
            ranged.extend(other(args));
        }
        E::StrStartsWith { args, .. } => ranged.push(&args[0]),
        E::Call { function, args } => match (function, args.first()) {
            (ScalarFunction::IsIn, Some(of)) => fixed.push(of),
            (ScalarFunction::Between, Some(of)) => ranged.push(of),
            (ScalarFunction::ListContains, Some(of)) => lists.push(of),
            _ => {}
        },
        _ => {}
    }
}
