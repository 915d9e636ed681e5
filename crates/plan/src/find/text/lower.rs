//! Translates an SQL condition to an expression that is true for the same rows.

use super::{Comparison, Condition, Part};
use crate::expression::{Expression as E, Literal, ScalarFunction};

/// The expression that is true where the condition is true, or if negated where it is false.
pub(super) fn lower(condition: Condition, negated: bool) -> E {
    match condition {
        Condition::Both(sides) => join(*sides, negated, negated),
        Condition::Either(sides) => join(*sides, negated, !negated),
        Condition::Not(inner) => lower(*inner, !negated),
        Condition::Compare(how, left, right) => compare(how, left, right, negated),
        Condition::IsNull(of) => not_if(negated, is_null(of)),
        Condition::In(of, values) => within(of, values, negated),
        Condition::Between(of, from, to) => between(of, from, to, negated),
        // Null if the text is null.
        Condition::Text(part, of, text) => not_if(negated, part_of(part, of, text)),
        Condition::ListContains(of, value) => {
            let args = vec![of, literal(value)];
            let function = ScalarFunction::ListContains;
            not_if(negated, E::Call { function, args })
        }
        Condition::Is(of) => not_if(negated, of),
    }
}

/// A conjunction or a disjunction of both sides.
fn join(sides: [Condition; 2], negated: bool, either: bool) -> E {
    let args = Box::new(sides.map(|side| lower(side, negated)));
    if either {
        E::Or { args }
    } else {
        E::And { args }
    }
}

fn compare(how: Comparison, left: E, right: E, negated: bool) -> E {
    let how = if negated { opposite(how) } else { how };
    // In expressions null equals null, and differs from everything else; in SQL neither is true.
    let nullable = |side: &E| side.constant().is_none() || side.constant() == Some(&Literal::Null);
    let guarded = match how {
        Comparison::NotEqual => true,
        Comparison::Equal => nullable(&left) && nullable(&right),
        _ => false,
    };
    let guards: Vec<E> = [&left, &right]
        .into_iter()
        .filter(|side| guarded && nullable(side))
        .map(|side| not(is_null(side.clone())))
        .collect();
    let args = Box::new([left, right]);
    let compared = match how {
        Comparison::Equal => E::Eq { args },
        Comparison::NotEqual => E::Ne { args },
        Comparison::Less => E::Lt { args },
        Comparison::LessOrEqual => E::Le { args },
        Comparison::Greater => E::Gt { args },
        Comparison::GreaterOrEqual => E::Ge { args },
    };
    guards.into_iter().fold(compared, and)
}

const fn opposite(how: Comparison) -> Comparison {
    match how {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

/// A null in the list matches no row, and `not in` a list with null is never true.
fn within(of: E, mut values: Vec<Literal>, negated: bool) -> E {
    let count = values.len();
    values.retain(|value| *value != Literal::Null);
    if values.is_empty() || (negated && values.len() < count) {
        return literal(Literal::Bool(false));
    }
    let guard = not(is_null(of.clone()));
    let args = std::iter::once(of).chain(values.into_iter().map(literal));
    let function = ScalarFunction::IsIn;
    let args = args.collect();
    let found = E::Call { function, args };
    if negated {
        and(not(found), guard)
    } else {
        found
    }
}

fn between(of: E, from: Literal, to: Literal, negated: bool) -> E {
    let (from, to) = (literal(from), literal(to));
    let lower = Condition::Compare(Comparison::GreaterOrEqual, of.clone(), from);
    let upper = Condition::Compare(Comparison::LessOrEqual, of, to);
    join([lower, upper], negated, negated)
}

fn part_of(part: Part, of: E, text: String) -> E {
    let args = Box::new([of]);
    match part {
        Part::Start => E::StrStartsWith { args, text },
        Part::End => E::StrEndsWith { args, text },
        Part::Middle => E::StrContains { args, text },
    }
}

fn literal(value: Literal) -> E {
    E::Lit { value }
}

fn is_null(of: E) -> E {
    E::IsNull {
        args: Box::new([of]),
    }
}

fn not(of: E) -> E {
    E::Not {
        args: Box::new([of]),
    }
}

fn not_if(negated: bool, of: E) -> E {
    if negated { not(of) } else { of }
}

fn and(left: E, right: E) -> E {
    E::And {
        args: Box::new([left, right]),
    }
}
