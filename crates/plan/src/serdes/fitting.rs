//! Checks the values of a sink against the schema that they are written with.
//!
//! Takes the expression that produces a sink's values, if there is one, and the schema. Adds findings
//! for what fits no record: fields that the schema doesn't have, missing fields, kinds that a field
//! doesn't accept. Never refuses what may fit: the result of a function is only known at run time.

use super::Pass;
use crate::expression::check::check;
use crate::expression::kinds::Kinds;
use crate::expression::known::Known;
use crate::expression::members::{Record, Shape, Typed};
use crate::expression::render::located;
use crate::function::Function;
use crate::logical::DslCall;
use crate::spec::SerdeSpec;
use crate::{Expression as E, Literal};
use stoatflow_formats::near;

impl Pass<'_> {
    /// Finds values that can't be written.
    pub(super) fn fitting(&mut self, i: usize, from: usize, serde: Option<&SerdeSpec>) {
        let Some(wanted) = Typed::of_serde(serde) else {
            return;
        };
        let mut found = Vec::new();
        match self.made(from) {
            Some((at, e)) => Fit {
                known: self.known(at),
                found: &mut found,
                within: false,
            }
            .fit(e, None, &wanted),
            None => {
                let given = Kinds::of_serde(self.sides[from].1.known());
                let takes = wanted.takes(false);
                if !given.fits(takes) {
                    found.push(format!(
                        "its values are {given}, but the {} ({}) takes {takes}",
                        wanted.schema(),
                        wanted.word()
                    ));
                }
            }
        }
        for what in found {
            self.problems.at(self.plan, i, what);
        }
    }

    /// The expression that produces the values of a node's records, and its node.
    fn made(&self, mut at: usize) -> Option<(usize, &E)> {
        loop {
            match &self.plan.nodes[at].call {
                DslCall::MapValues {
                    function: Function::Expr(e),
                    ..
                } => return Some((at, e)),
                DslCall::Map {
                    function: Function::Expr(e),
                    ..
                } => match e.bare() {
                    E::Array { args } => return Some((at, args.get(1)?)),
                    _ => return None,
                },
                DslCall::Filter { from, .. }
                | DslCall::FilterNot { from, .. }
                | DslCall::Peek { from, .. }
                | DslCall::Split { from }
                | DslCall::Branch { from, .. }
                | DslCall::SelectKey { from, .. }
                | DslCall::Repartition { from, .. } => at = *from,
                _ => return None,
            }
        }
    }
}

struct Fit<'a> {
    known: Known<'a>,
    found: &'a mut Vec<String>,
    /// Whether it is a part of an object.
    within: bool,
}

impl Fit<'_> {
    fn fit(&mut self, e: &E, line: Option<&str>, wanted: &Typed) {
        match e {
            E::Located { args, line } => self.fit(&args[0], Some(line), wanted),
            E::Object { names, args } => self.object(e, line, (names, args), wanted),
            E::When { args } => {
                self.fit(&args[1], line, wanted);
                self.fit(&args[2], line, wanted);
            }
            E::Coalesce { args } => args.iter().for_each(|arg| self.fit(arg, line, wanted)),
            E::Lit {
                value: Literal::Str(text),
            } if wanted.words().is_some() => {
                let words = wanted.words().unwrap_or_default();
                if !words.contains(&text.as_str()) {
                    let near = near(text, words.iter().copied());
                    let format = wanted.format();
                    self.says(
                        e,
                        line,
                        &format!("the {format} enum has no '{text}', {near}"),
                    );
                }
            }
            _ => {
                // Problems inside the expression are reported at its own node.
                let given = check(e, self.known, &mut |_| {});
                let takes = wanted.takes(self.within);
                if !given.fits(takes) {
                    let what = format!(
                        "it gives {given}, but the {} {} takes {takes}",
                        wanted.format(),
                        wanted.word()
                    );
                    self.says(e, line, &what);
                }
            }
        }
    }

    fn object(
        &mut self,
        e: &E,
        line: Option<&str>,
        (names, args): (&[String], &[E]),
        wanted: &Typed,
    ) {
        match wanted.shape() {
            Shape::Record(record) => self.record(e, line, (names, args), &record),
            Shape::Map(of) => self.parts(args, line, |_| Some(of.clone())),
            Shape::Other => {
                let what = format!(
                    "an object can't be written as the {} {}",
                    wanted.format(),
                    wanted.word()
                );
                self.says(e, line, &what);
            }
            Shape::Several => {}
        }
    }

    fn record(
        &mut self,
        e: &E,
        line: Option<&str>,
        (names, args): (&[String], &[E]),
        record: &Record,
    ) {
        for name in names {
            if record.get(name).is_none() {
                self.says(e, line, &record.lacks(name));
            }
        }
        for field in &record.fields {
            let name = &field.name;
            if let Some(why) = field.needed
                && !names.contains(name)
            {
                let what = format!("{} needs the field '{name}', {why}", record.title);
                self.says(e, line, &what);
            }
        }
        self.parts(args, line, |at| {
            record.get(names.get(at)?).map(|field| field.of.clone())
        });
    }

    fn parts(&mut self, args: &[E], line: Option<&str>, wanted: impl Fn(usize) -> Option<Typed>) {
        let before = std::mem::replace(&mut self.within, true);
        for (at, arg) in args.iter().enumerate() {
            if let Some(wanted) = wanted(at) {
                self.fit(arg, line, &wanted);
            }
        }
        self.within = before;
    }

    fn says(&mut self, e: &E, line: Option<&str>, what: &str) {
        self.found.push(format!("{}: {what}", located(e, line)));
    }
}

#[cfg(test)]
mod tests;
