//! Checks native expressions against the types of their inputs.
//!
//! Takes the serdes of a node's inputs, adds findings for expressions that would fail for every record.
//! Never changes a serde.

use super::Pass;
use crate::TimestampExtractor;
use crate::expression::check::check;
use crate::expression::kinds::Kinds;
use crate::expression::known::Known;
use crate::expression::render::located;
use crate::function::Function;
use crate::logical::DslCall;

impl Pass<'_> {
    /// What is known about the records that a node's expressions read.
    pub(super) fn known(&self, i: usize) -> Known<'_> {
        let call = &self.plan.nodes[i].call;
        let mut known = Known::kinds(Kinds::NULL, Kinds::NULL);
        let inputs = match call {
            // Expressions of a join read the record of its first input.
            DslCall::Join(join) | DslCall::LeftJoin(join) | DslCall::OuterJoin(join) => {
                vec![join.from]
            }
            // Expressions of a cogroup read the records of the stream that is added.
            DslCall::Cogroup { from, other, .. } => vec![other.unwrap_or(*from)],
            call => call.inputs(),
        };
        for &input in &inputs {
            let (key, value) = &self.sides[input];
            known.key = known.key.or(Kinds::of_serde(key.known()));
            known.value = known.value.or(Kinds::of_serde(value.known()));
        }
        match inputs.as_slice() {
            [] => Known::NOTHING,
            [only] => {
                let (key, value) = &self.sides[*only];
                Known::of(key.known(), value.known())
            }
            _ => known,
        }
    }

    /// Finds problems in a node's expressions, given the serdes of its inputs.
    pub(super) fn expressions(&mut self, i: usize) {
        let call = &self.plan.nodes[i].call;
        let known = self.known(i);
        let mut found = Vec::new();
        let wanted = match call {
            DslCall::Filter { .. } | DslCall::FilterNot { .. } | DslCall::Branch { .. } => {
                Kinds::BOOL
            }
            DslCall::FlatMapValues { .. } => Kinds::LIST,
            DslCall::To { .. } => Kinds::STR.or(Kinds::INT),
            _ => Kinds::ALL,
        };
        for function in call.functions() {
            let expressions = match function {
                Function::Expr(e) => vec![(e, wanted)],
                Function::Aggregation(aggregation) => aggregation.wanted(),
                Function::Udf(_) | Function::Async(_) => vec![],
            };
            for (e, wanted) in expressions {
                let given = check(e, known, &mut |what| found.push(what));
                if !given.fits(wanted) {
                    let text = located(e.bare(), e.line());
                    found.push(format!("{text}: it gives {given}, but {wanted} is wanted"));
                }
            }
        }
        if let Some(TimestampExtractor::Expr(e)) = call.timestamp() {
            let of = |name| {
                let mut serdes = call.serdes().into_iter();
                serdes.find_map(|(argument, serde)| (argument == name).then_some(serde))
            };
            let given = check(e, Known::of(of("key"), of("value")), &mut |what| {
                found.push(what);
            });
            if given.is_null() || !given.fits(Kinds::INT) {
                let text = located(e.bare(), e.line());
                found.push(format!(
                    "{text}: it gives {given}, but a timestamp is milliseconds since 1970, an int: .str.to_timestamp() makes one of a text, .cast(\"int\") of a float"
                ));
            }
        }
        for what in found {
            self.problems.at(self.plan, i, what);
        }
    }
}
