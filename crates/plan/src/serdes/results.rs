//! The serdes of what a function gives.
//!
//! Takes a native expression and what it reads, gives what is certain of its result. Of what a callable
//! returns nothing is known here.

use super::{Pass, Side};
use crate::function::Function;
use crate::infer::{Type, infer};
use crate::spec::SerdeSpec;

impl Pass<'_> {
    /// What a function gives, if it is a native expression.
    pub(super) fn result(
        &self,
        i: usize,
        from: usize,
        function: &Function,
        elements: bool,
    ) -> Side {
        let Function::Expr(e) = function else {
            return Side::Lost(i);
        };
        let (key, value) = &self.sides[from];
        let given = infer(e, key.known(), value.known());
        match (if elements { given.element() } else { given }, e.bare()) {
            // What hands a side through hands its history through as well.
            (Type::Unknown, crate::Expression::Key) if !elements => key.clone(),
            (Type::Unknown, crate::Expression::Value) if !elements => value.clone(),
            (given, _) => given.serde().map_or(Side::Lost(i), Side::Known),
        }
    }
}

/// What the sides of a pair are written with, if a native expression gives it.
pub(super) fn pair(
    function: &Function,
    key: Option<&SerdeSpec>,
    value: Option<&SerdeSpec>,
) -> Option<(Option<SerdeSpec>, Option<SerdeSpec>)> {
    let Function::Expr(e) = function else {
        return None;
    };
    let crate::Expression::Array { args } = e.bare() else {
        return None;
    };
    let side = |e: &crate::Expression| infer(e, key, value).serde();
    match args.as_slice() {
        [key, value] => Some((side(key), side(value))),
        _ => None,
    }
}
