//! A call of a scalar function, ready to run.
//!
//! Takes the function and its arguments once: constants (patterns, zones, names, sets) are prepared and
//! removed from the arguments. Returns a result per record: null where the subject or another argument
//! is null, except for functions with their own rule for nulls.

use super::compile::Node;
use super::hash::Method;
use super::search::Search;
use super::strings::{Ends, Form};
use super::{args, canonical, cast, hash, json, list, math, object, strings, time, window};
use jiff::tz::TimeZone;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::HashSet;
use stoatflow_core::{Datum, Error, Record, Result, Text};
use stoatflow_plan::{Expression, Literal, ScalarFunction};

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    how: CallKind,
    /// The arguments that are evaluated for each record.
    args: Vec<Node>,
    /// If one of the first `strict` arguments is null, the result is null.
    strict: usize,
}

/// What the call does, with its constants.
#[derive(Clone, Debug)]
enum CallKind {
    Plain(ScalarFunction),
    Round(Option<usize>),
    Clip {
        low: bool,
        high: bool,
    },
    Slice {
        start: bool,
        stop: bool,
    },
    /// Canonical forms of the constant options, and whether null is one; other options are arguments.
    Among(HashSet<Vec<u8>>, bool),
    Fill(char, bool),
    Split(Option<String>, i64),
    Whole {
        base: u32,
        strict: bool,
    },
    Search(Search),
    Time {
        zone: TimeZone,
        strict: bool,
    },
    Truncate(i64, TimeZone),
    Part(ScalarFunction, TimeZone),
    Strftime(String, TimeZone),
    Number(Form),
    Sort(bool),
    /// Member names, and the same as JSON text.
    With(Vec<(String, String)>),
    Without(Vec<String>),
    Hash(Method),
}

const ALL: usize = usize::MAX;

fn text(args: &[Expression], at: usize) -> Option<&str> {
    match args.get(at)?.constant()? {
        Literal::Str(text) => Some(text),
        _ => None,
    }
}

fn whole(args: &[Expression], at: usize) -> Option<i64> {
    match args.get(at)?.constant()? {
        Literal::Int(number) => Some(*number),
        _ => None,
    }
}

fn truth(args: &[Expression], at: usize) -> Option<bool> {
    match args.get(at)?.constant()? {
        Literal::Bool(truth) => Some(*truth),
        _ => None,
    }
}

/// True if the argument is left out or a constant null.
fn is_open(args: &[Expression], at: usize) -> bool {
    args.get(at)
        .is_none_or(|arg| arg.constant() == Some(&Literal::Null))
}

impl Call {
    pub fn new(function: ScalarFunction, given: &[Expression]) -> Result<Self> {
        let row = function.signature();
        if given.len() < row.needed || (!row.more && given.len() > row.params.len()) {
            return Err(Error::topology(format!(
                "{function:?} takes {} arguments, not {}",
                row.params.len(),
                given.len()
            ))
            .hint("build expressions with the functions of stoatflow"));
        }
        let wrong = |what: &str| {
            Error::topology(format!("{what} must be a constant"))
                .hint("it is prepared once, not for each record")
        };
        let (how, run, strict): (CallKind, Vec<&Expression>, usize) = match function {
            ScalarFunction::Round => {
                let digits = if is_open(given, 1) {
                    None
                } else {
                    let digits = whole(given, 1).and_then(|digits| usize::try_from(digits).ok());
                    let digits = digits.filter(|digits| *digits <= 300);
                    Some(digits.ok_or_else(|| wrong("the number of digits, from 0 to 300,"))?)
                };
                (CallKind::Round(digits), vec![&given[0]], ALL)
            }
            ScalarFunction::Clip | ScalarFunction::Slice => {
                let (one, two) = (!is_open(given, 1), !is_open(given, 2));
                let how = if function == ScalarFunction::Clip {
                    CallKind::Clip {
                        low: one,
                        high: two,
                    }
                } else {
                    CallKind::Slice {
                        start: one,
                        stop: two,
                    }
                };
                let mut run = vec![&given[0]];
                run.extend(one.then(|| &given[1]));
                run.extend(two.then(|| &given[2]));
                (how, run, ALL)
            }
            ScalarFunction::IsIn => {
                let mut forms = HashSet::new();
                let mut null = false;
                let mut run = vec![&given[0]];
                for option in &given[1..] {
                    match option.constant() {
                        Some(Literal::Null) => null = true,
                        Some(constant) => {
                            forms.insert(canonical::form(&super::compile::literal(constant))?);
                        }
                        None => run.push(option),
                    }
                }
                (CallKind::Among(forms, null), run, 0)
            }
            ScalarFunction::StrLjust | ScalarFunction::StrRjust => {
                let fill = text(given, 2).and_then(|fill| fill.chars().next());
                let fill = fill.ok_or_else(|| wrong("the character to fill with"))?;
                let how = CallKind::Fill(fill, function == ScalarFunction::StrRjust);
                (how, vec![&given[0], &given[1]], ALL)
            }
            ScalarFunction::StrSplitN => {
                let by = text(given, 1).map(str::to_owned);
                if by.as_deref() == Some("") {
                    return Err(
                        Error::topology("a text can't be split at an empty separator")
                            .hint("name a separator, or none to split at white space"),
                    );
                }
                let cuts = whole(given, 2).ok_or_else(|| wrong("the number of cuts"))?;
                (CallKind::Split(by, cuts), vec![&given[0]], ALL)
            }
            ScalarFunction::StrToInt => {
                let base = whole(given, 1).and_then(|base| u32::try_from(base).ok());
                let base = base.filter(|base| (2..=36).contains(base));
                let base = base.ok_or_else(|| wrong("the base, from 2 to 36,"))?;
                let strict = truth(given, 2).unwrap_or(true);
                (CallKind::Whole { base, strict }, vec![&given[0]], ALL)
            }
            ScalarFunction::StrMatches => {
                let pattern = text(given, 1).ok_or_else(|| wrong("the pattern"))?;
                (
                    CallKind::Search(Search::matches(pattern)?),
                    vec![&given[0]],
                    ALL,
                )
            }
            ScalarFunction::StrExtract | ScalarFunction::StrExtractAll => {
                let pattern = text(given, 1).ok_or_else(|| wrong("the pattern"))?;
                let number = whole(given, 2).map(|number| number.to_string());
                let group = number.as_deref().or_else(|| text(given, 2));
                let group = group.ok_or_else(|| wrong("the group"))?;
                let all = function == ScalarFunction::StrExtractAll;
                let search = Search::extract(pattern, group, all)?;
                (CallKind::Search(search), vec![&given[0]], ALL)
            }
            ScalarFunction::StrReplaceRegex => {
                let pattern = text(given, 1).ok_or_else(|| wrong("the pattern"))?;
                let by = text(given, 2).ok_or_else(|| wrong("the replacement"))?;
                let search = Search::replace(pattern, by)?;
                (CallKind::Search(search), vec![&given[0]], ALL)
            }
            ScalarFunction::StrToTimestamp => {
                let zone = time::zone(text(given, 1))?;
                let strict = truth(given, 2).unwrap_or(true);
                (CallKind::Time { zone, strict }, vec![&given[0]], ALL)
            }
            ScalarFunction::DtTruncate => {
                let span = whole(given, 1).filter(|span| *span > 0);
                let span = span.ok_or_else(|| wrong("the span to truncate to"))?;
                let zone = time::zone(text(given, 2))?;
                (CallKind::Truncate(span, zone), vec![&given[0]], ALL)
            }
            ScalarFunction::DtStrftime => {
                let form = text(given, 1).ok_or_else(|| wrong("the form of a time"))?;
                let how = CallKind::Strftime(form.to_owned(), time::zone(text(given, 2))?);
                (how, vec![&given[0]], ALL)
            }
            ScalarFunction::DtYear
            | ScalarFunction::DtMonth
            | ScalarFunction::DtDay
            | ScalarFunction::DtHour
            | ScalarFunction::DtMinute
            | ScalarFunction::DtSecond
            | ScalarFunction::DtMillisecond
            | ScalarFunction::DtWeekday
            | ScalarFunction::DtDate
            | ScalarFunction::DtIso => {
                let how = CallKind::Part(function, time::zone(text(given, 1))?);
                (how, vec![&given[0]], ALL)
            }
            ScalarFunction::FormatNumber => {
                let form = text(given, 1).and_then(Form::new).ok_or_else(|| {
                    Error::topology("a number has forms such as .2f, 08.2f, 5d, 05d")
                        .hint("write one of these behind the colon of the template")
                })?;
                (CallKind::Number(form), vec![&given[0]], ALL)
            }
            ScalarFunction::ListSort => (
                CallKind::Sort(truth(given, 1).unwrap_or(false)),
                vec![&given[0]],
                ALL,
            ),
            ScalarFunction::WithFields => {
                let mut names = Vec::new();
                let mut run = vec![&given[0]];
                for at in (1..given.len()).step_by(2) {
                    let name = text(given, at).ok_or_else(|| wrong("a member's name"))?;
                    names.push((name.to_owned(), serde_json::Value::from(name).to_string()));
                    run.push(given.get(at + 1).ok_or_else(|| wrong("a member"))?);
                }
                (CallKind::With(names), run, 1)
            }
            ScalarFunction::Drop => {
                let names = (1..given.len())
                    .map(|at| text(given, at).map(str::to_owned))
                    .collect::<Option<_>>()
                    .ok_or_else(|| wrong("a member's name"))?;
                (CallKind::Without(names), vec![&given[0]], ALL)
            }
            ScalarFunction::Hash => {
                let method = match text(given, 1) {
                    Some("xxh3") => Method::Xxh3,
                    Some("murmur2") => Method::Murmur2,
                    _ => return Err(wrong("the hash (\"xxh3\" or \"murmur2\")")),
                };
                (CallKind::Hash(method), vec![&given[0]], ALL)
            }
            ScalarFunction::Least | ScalarFunction::Greatest | ScalarFunction::Merge => {
                (CallKind::Plain(function), given.iter().collect(), 0)
            }
            ScalarFunction::ListContains => (CallKind::Plain(function), given.iter().collect(), 1),
            other => (CallKind::Plain(other), given.iter().collect(), ALL),
        };
        Ok(Self {
            how,
            args: run.into_iter().map(Node::new).collect::<Result<_>>()?,
            strict,
        })
    }

    pub fn reads_record(&self) -> bool {
        self.args.iter().any(Node::reads_record)
    }

    pub fn run(&self, record: &Record) -> Result<Datum> {
        let mut given = SmallVec::<[Datum; 3]>::new();
        // A member of a value with a schema is read in place.
        let whole = matches!(self.how, CallKind::Plain(ScalarFunction::Item));
        for arg in &self.args {
            let value = arg.eval(record)?;
            given.push(if whole {
                json::kept(value)?
            } else {
                json::plain(value)?
            });
        }
        if given.iter().take(self.strict).any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        match &self.how {
            CallKind::Plain(function) => plain(*function, given),
            CallKind::Round(digits) => math::round(&given[0], *digits),
            CallKind::Clip { low, high } => {
                let low_at = low.then_some(1);
                let high_at = high.then_some(1 + usize::from(*low));
                let of = given[0].clone();
                math::clip(
                    of,
                    low_at.map(|at| &given[at]),
                    high_at.map(|at| &given[at]),
                )
            }
            CallKind::Slice { start, stop } => {
                let bound = |at: Option<usize>| at.map(|at| args::whole(&given[at])).transpose();
                let (from, to) = (
                    bound(start.then_some(1))?,
                    bound(stop.then_some(1 + usize::from(*start)))?,
                );
                match &given[0] {
                    Datum::Str(text) => Ok(Datum::Str(strings::slice(text, from, to))),
                    other => list::slice(other, from, to),
                }
            }
            CallKind::Among(forms, null) => {
                let (of, others) = given.split_first().expect("a subject");
                if of.is_null() && *null {
                    return Ok(Datum::Bool(true));
                }
                if !forms.is_empty() && forms.contains(&canonical::form(of)?) {
                    return Ok(Datum::Bool(true));
                }
                for other in others {
                    if super::compare::equal(of, other, 0)? {
                        return Ok(Datum::Bool(true));
                    }
                }
                Ok(Datum::Bool(false))
            }
            CallKind::Fill(fill, at_start) => {
                let (of, width) = (args::text(&given[0])?.clone(), args::whole(&given[1])?);
                strings::justify(of, width, *fill, *at_start).map(Datum::Str)
            }
            CallKind::Split(by, cuts) => {
                Ok(strings::split(args::text(&given[0])?, by.as_deref(), *cuts))
            }
            CallKind::Whole { base, strict } => {
                let text = args::text(&given[0])?.as_str();
                match strings::to_int(text, *base) {
                    Some(number) => Ok(Datum::Int(number)),
                    None if !strict => Ok(Datum::Null),
                    None => Err(no("whole number", text)),
                }
            }
            CallKind::Search(search) => Ok(search.run(args::text(&given[0])?)),
            CallKind::Time { zone, strict } => {
                let text = args::text(&given[0])?.as_str();
                match time::parse(text, zone) {
                    Some(ms) => Ok(Datum::Int(ms)),
                    None if !strict => Ok(Datum::Null),
                    None => Err(no("time in ISO 8601", text)),
                }
            }
            CallKind::Truncate(span, zone) => time::truncate(args::whole(&given[0])?, *span, zone),
            CallKind::Part(which, zone) => time::part(*which, args::whole(&given[0])?, zone),
            CallKind::Strftime(form, zone) => time::strftime(args::whole(&given[0])?, form, zone),
            CallKind::Number(form) => form.write(&given[0]).map(Datum::Str),
            CallKind::Sort(down) => list::sort(&given[0], *down),
            CallKind::With(names) => {
                let (of, values) = given.split_first().expect("a subject");
                let named = names.iter().zip(values);
                let changes: SmallVec<[(&str, &str, &Datum); 4]> = named
                    .map(|((name, written), value)| (name.as_str(), written.as_str(), value))
                    .collect();
                object::with_fields(of, &changes)
            }
            CallKind::Without(names) => object::without(&given[0], names),
            CallKind::Hash(method) => hash::hash(*method, &given[0]),
        }
    }
}

fn no(what: &str, text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    Error::user(format!("the text {shown:?} is no {what}"))
        .hint("filter such records out before, or write strict=False to get null for them")
}

/// Evaluates a function without constants.
fn plain(function: ScalarFunction, given: SmallVec<[Datum; 3]>) -> Result<Datum> {
    let text_at = |at: usize| args::text(&given[at]);
    let share = |text: Text| Ok(Datum::Str(text));
    let ends = match function {
        ScalarFunction::StrLstrip => Ends::Left,
        ScalarFunction::StrRstrip => Ends::Right,
        _ => Ends::Both,
    };
    match function {
        ScalarFunction::Neg => math::negative(&given[0]),
        ScalarFunction::Abs => math::absolute(&given[0]),
        ScalarFunction::Floor => math::floor(&given[0]),
        ScalarFunction::Ceil => math::ceil(&given[0]),
        ScalarFunction::Sqrt => math::sqrt(&given[0]),
        ScalarFunction::Pow => math::power(&given[0], &given[1]),
        ScalarFunction::Least => math::extreme(given, Ordering::Less),
        ScalarFunction::Greatest => math::extreme(given, Ordering::Greater),
        ScalarFunction::Between => {
            let low = math::order(&given[0], &given[1])?;
            let high = math::order(&given[0], &given[2])?;
            let inside = low.is_some_and(Ordering::is_ge) && high.is_some_and(Ordering::is_le);
            Ok(Datum::Bool(inside))
        }
        ScalarFunction::Item => list::item(&given[0], &given[1]),
        ScalarFunction::StrStripChars | ScalarFunction::StrLstrip | ScalarFunction::StrRstrip => {
            let chars = given.get(1).map(args::text).transpose()?;
            share(strings::strip(text_at(0)?, chars.map(Text::as_str), ends))
        }
        ScalarFunction::StrReplace => {
            let count = given.get(3).map_or(Ok(-1), args::whole)?;
            let (of, old, new) = (text_at(0)?.clone(), text_at(1)?, text_at(2)?);
            share(strings::replace(of, old.as_str(), new.as_str(), count))
        }
        ScalarFunction::StrRemoveprefix => {
            let (of, what) = (text_at(0)?, text_at(1)?.as_str());
            share(of.cut(of.as_str().strip_prefix(what).unwrap_or(of.as_str())))
        }
        ScalarFunction::StrRemovesuffix => {
            let (of, what) = (text_at(0)?, text_at(1)?.as_str());
            share(of.cut(of.as_str().strip_suffix(what).unwrap_or(of.as_str())))
        }
        ScalarFunction::StrZfill => {
            let (of, width) = (text_at(0)?.clone(), args::whole(&given[1])?);
            strings::zfill(of, width).map(Datum::Str)
        }
        ScalarFunction::StrFind => Ok(Datum::Int(strings::find(
            text_at(0)?.as_str(),
            text_at(1)?.as_str(),
        ))),
        ScalarFunction::StrCount => {
            let count = text_at(0)?.as_str().matches(text_at(1)?.as_str()).count();
            Ok(Datum::Int(i64::try_from(count).unwrap_or(i64::MAX)))
        }
        ScalarFunction::Format => {
            let mut text = String::new();
            for part in given {
                text.push_str(cast::text(part)?.as_str());
            }
            share(Text::from(text))
        }
        ScalarFunction::ListContains => list::contains(&given[0], &given[1]),
        ScalarFunction::ListSum => list::sum(&given[0]),
        ScalarFunction::ListMin => list::extreme(&given[0], Ordering::Less),
        ScalarFunction::ListMax => list::extreme(&given[0], Ordering::Greater),
        ScalarFunction::ListMean => list::mean(&given[0]),
        ScalarFunction::ListJoin => list::join(&given[0], text_at(1)?.as_str()),
        ScalarFunction::ListUnique => list::unique(&given[0]),
        ScalarFunction::ListReverse => list::reverse(&given[0]),
        ScalarFunction::Merge => object::merge(&given[0], &given[1]),
        ScalarFunction::Keys => object::keys(&given[0]),
        ScalarFunction::Values => object::values(&given[0]),
        ScalarFunction::Has => object::has(&given[0], text_at(1)?.as_str()),
        ScalarFunction::WindowedKey | ScalarFunction::WindowStart | ScalarFunction::WindowEnd => {
            window::part(function, &given[0])
        }
        // Functions with constants have their own variants of `CallKind`.
        other => Err(Error::internal(format!("{other:?} has no evaluation"))),
    }
}
