//! The serdes of a function's result.
//!
//! Takes a native expression and the serdes of its input, returns what is certain about its result.
//! Nothing is known here about the result of a callable.

use super::{Pass, Side};
use crate::function::Function;
use crate::infer::{Type, infer};
use crate::spec::SerdeSpec;

impl Pass<'_> {
    /// The serde of a function's result, if it is a native expression.
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
            // An expression that returns a side unchanged keeps what is known about it.
            (Type::Unknown, crate::Expression::Key) if !elements => key.clone(),
            (Type::Unknown, crate::Expression::Value) if !elements => value.clone(),
            (given, _) => given.serde().map_or(Side::Lost(i), Side::Known),
        }
    }
}

/// The serdes of both sides of a pair, if a native expression returns it.
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
