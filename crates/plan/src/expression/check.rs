//! Checks before the first record whether an expression can work at all.
//!
//! Takes an expression and what is known of the record's sides, returns the kinds of its result and a
//! sentence about each part that fails for every record: invalid constants, and operations on kinds that
//! don't support them. Never refuses what may work for some record: a member of JSON can be of any kind.

use super::functions::{ResultKinds, ScalarFunction};
use super::kinds::Kinds;
use super::known::{Known, serde_of, typed};
use super::render::located;
use super::{Expression as E, Literal, pattern};

/// The kinds of the result; problems are passed to `report`.
pub(crate) fn check(e: &E, known: Known<'_>, report: &mut dyn FnMut(String)) -> Kinds {
    Pass {
        known,
        line: None,
        found: 0,
        report,
    }
    .check(e)
}

/// The kinds of the result.
pub(crate) fn kinds(e: &E, known: Known<'_>) -> Kinds {
    check(e, known, &mut |_| {})
}

struct Pass<'a> {
    known: Known<'a>,
    line: Option<String>,
    /// Number of reported problems.
    found: usize,
    report: &'a mut dyn FnMut(String),
}

impl Pass<'_> {
    fn says(&mut self, e: &E, what: &str) {
        let text = located(e, self.line.as_deref());
        self.found += 1;
        (self.report)(format!("{text}: {what}"));
    }

    fn wants(&mut self, e: &E, given: Kinds, wanted: Kinds, what: &str) {
        if !given.fits(wanted) {
            self.says(e, &format!("{what} takes {wanted}, but this is {given}"));
        }
    }

    /// If a part fails, nothing is assumed about its result.
    fn check(&mut self, e: &E) -> Kinds {
        let before = self.found;
        let made = self.check_node(e);
        if self.found > before {
            Kinds::ALL
        } else {
            made
        }
    }

    fn check_node(&mut self, e: &E) -> Kinds {
        if let E::Located { args, line } = e {
            let above = self.line.replace(line.clone());
            let found = self.check(&args[0]);
            self.line = above;
            return found;
        }
        let given: Vec<Kinds> = e.args().iter().map(|arg| self.check(arg)).collect();
        let of = |at: usize| given.get(at).copied().unwrap_or(Kinds::ALL);
        match e {
            E::Key => self.known.key,
            E::Value => self.known.value,
            E::Left | E::Right | E::Old | E::New => Kinds::ALL,
            E::Timestamp => Kinds::INT,
            E::Lit { value } => Kinds::of_literal(value),
            E::Get { name, .. } => self.member(e, name, of(0)),
            E::At { .. } => self.element(e, of(0)),
            E::Eq { .. } | E::Ne { .. } => {
                if !may_equal(of(0), of(1)) {
                    self.says(
                        e,
                        &format!(
                            "{} never equals {}; convert one side with .cast(...)",
                            of(0),
                            of(1)
                        ),
                    );
                }
                Kinds::BOOL
            }
            E::Lt { .. } | E::Le { .. } | E::Gt { .. } | E::Ge { .. } => {
                if !have_order(of(0), of(1)) {
                    self.says(
                        e,
                        &format!(
                            "{} and {} have no order; convert one side with .cast(...)",
                            of(0),
                            of(1)
                        ),
                    );
                }
                Kinds::BOOL
            }
            E::And { .. } | E::Or { .. } | E::Not { .. } => {
                for at in given {
                    self.wants(e, at, Kinds::BOOL, "a condition");
                }
                Kinds::BOOL
            }
            E::IsNull { .. } => Kinds::BOOL,
            E::Add { .. } => self.sum(e, of(0), of(1)),
            E::Sub { .. } | E::Mul { .. } | E::FloorDiv { .. } | E::Mod { .. } | E::Div { .. } => {
                if !of(0).fits(Kinds::NUMBER) || !of(1).fits(Kinds::NUMBER) {
                    self.says(e, &format!("can't compute with {} and {}; convert what is no number with .cast(\"int\") or .cast(\"float\")", of(0), of(1)));
                }
                if matches!(e, E::Div { .. }) {
                    return Kinds::FLOAT;
                }
                number(of(0), of(1))
            }
            E::StrLower { .. } | E::StrUpper { .. } | E::StrStrip { .. } => {
                self.wants(e, of(0), Kinds::STR, ".str");
                Kinds::STR
            }
            E::StrSplit { .. } => {
                self.wants(e, of(0), Kinds::STR, ".str");
                Kinds::LIST
            }
            E::StrContains { .. } | E::StrStartsWith { .. } | E::StrEndsWith { .. } => {
                self.wants(e, of(0), Kinds::STR, ".str");
                Kinds::BOOL
            }
            E::Len { .. } => {
                let wanted = Kinds::STR
                    .or(Kinds::BYTES)
                    .or(Kinds::LIST)
                    .or(Kinds::OBJECT);
                self.wants(e, of(0), wanted, ".len()");
                Kinds::INT
            }
            E::Cast { to, .. } => self.cast(e, to, of(0)),
            E::Coalesce { .. } => given.into_iter().fold(Kinds::NULL, Kinds::or),
            E::When { .. } => {
                self.wants(e, of(0), Kinds::BOOL, "a condition");
                of(1).or(of(2))
            }
            E::Object { .. } => Kinds::OBJECT,
            E::Array { .. } => Kinds::LIST,
            E::Call { function, args } => self.call(e, *function, args, &given),
            // Located expressions were handled above; nothing is known about the others.
            _ => Kinds::ALL,
        }
    }

    fn member(&mut self, e: &E, name: &str, parent: Kinds) -> Kinds {
        if parent.within(Kinds::WINDOWED) && !parent.is_null() {
            self.says(
                e,
                &format!(
                    "a windowed key has no member '{name}'; write sf.key.key for the key within, \
                     sf.key.window.start or sf.key.window.end"
                ),
            );
            return Kinds::ALL;
        }
        if !parent.fits(Kinds::OBJECT) {
            self.says(e, &format!("a value of type {parent} has no member '{name}'; read the topic with Serdes.json(), or convert it with .cast(\"json\")"));
            return Kinds::JSON;
        }
        let known = e.args().first().and_then(|of| typed(of, self.known));
        match known.map(|known| known.member(name)) {
            Some(Ok(member)) => member.kinds(),
            Some(Err(what)) => {
                self.says(e, &what);
                Kinds::ALL
            }
            None => member_of(parent),
        }
    }

    fn element(&mut self, e: &E, list: Kinds) -> Kinds {
        if !list.fits(Kinds::LIST) {
            self.says(
                e,
                &format!("a value of type {list} has no elements; a text is cut with [start:stop]"),
            );
            return Kinds::JSON;
        }
        typed(e, self.known).map_or_else(|| member_of(list), |found| found.kinds())
    }

    fn sum(&mut self, e: &E, a: Kinds, b: Kinds) -> Kinds {
        if !add_up(a, b) {
            self.says(
                e,
                &format!("can't compute {a} + {b}; convert one side with .cast(...)"),
            );
        }
        let both = a.and(b).and(Kinds::STR);
        if some_pair(a, b, &[Kinds::NUMBER]) {
            both.or(number(a, b))
        } else {
            both
        }
    }

    fn cast(&mut self, e: &E, to: &str, given: Kinds) -> Kinds {
        let scalar = Kinds::NUMBER.or(Kinds::STR);
        let (wanted, made) = match to {
            "int" => (scalar, Kinds::INT),
            "float" => (scalar, Kinds::FLOAT),
            "bool" => (scalar, Kinds::BOOL),
            "str" => (Kinds::ALL, Kinds::STR),
            _ => (Kinds::ALL, Kinds::JSON),
        };
        self.wants(e, given, wanted, &format!(".cast({to:?})"));
        made
    }

    fn call(&mut self, e: &E, function: ScalarFunction, args: &[E], given: &[Kinds]) -> Kinds {
        let row = function.signature();
        let most = if row.more {
            usize::MAX
        } else {
            row.params.len()
        };
        if args.len() < row.needed || args.len() > most {
            self.says(
                e,
                &format!(
                    "it takes {} arguments, not {}",
                    row.params.len(),
                    args.len()
                ),
            );
            return Kinds::ALL;
        }
        for (at, (arg, kinds)) in args.iter().zip(given).enumerate() {
            let Some(param) = row.params.get(at).or(row.params.last()) else {
                continue;
            };
            if param.constant && arg.constant().is_none() {
                let which = located(arg, None);
                self.says(
                    e,
                    &format!(
                        "{which} must be a constant: it is prepared once, not for each record"
                    ),
                );
            } else if !kinds.fits(param.kinds) {
                let which = located(arg, None);
                if param.kinds == Kinds::WINDOWED {
                    let next = "only the keys of windowed aggregations have .key and .window";
                    self.says(e, &format!("{which} is {kinds}: {next}"));
                    continue;
                }
                self.says(
                    e,
                    &format!("{which} is {kinds}, but {} is wanted", param.kinds),
                );
            }
        }
        if function == ScalarFunction::Between
            && !(have_order(given[0], given[1]) && have_order(given[0], given[2]))
        {
            self.says(
                e,
                &format!(
                    "{} and {} or {} have no order",
                    given[0], given[1], given[2]
                ),
            );
        }
        if let Err(what) = constants(function, args) {
            self.says(e, &what);
        }
        let first = given.first().copied().unwrap_or(Kinds::NULL);
        match row.gives {
            ResultKinds::Is(kinds) => kinds,
            ResultKinds::First => first,
            ResultKinds::Any => given.iter().copied().fold(Kinds::NULL, Kinds::or),
            ResultKinds::Number => number(first, Kinds::INT),
            ResultKinds::Rounded if args.len() == 1 => Kinds::INT,
            ResultKinds::Rounded => number(first, Kinds::INT),
            ResultKinds::Within => Kinds::of_serde(serde_of(e, self.known)),
            ResultKinds::Power => {
                let whole = matches!(args[1].constant(), Some(Literal::Int(0..)));
                let made = number(given[0], given[1]);
                if whole || made == Kinds::FLOAT {
                    made
                } else {
                    made.or(Kinds::FLOAT)
                }
            }
        }
    }
}

/// A part of JSON is JSON; a part of a completely unknown value may be bytes too.
fn member_of(of: Kinds) -> Kinds {
    if of == Kinds::ALL {
        return Kinds::JSON.or(Kinds::BYTES);
    }
    Kinds::JSON
}

fn number(a: Kinds, b: Kinds) -> Kinds {
    let float = |k: Kinds| k.and(Kinds::NUMBER) == Kinds::FLOAT;
    let whole = |k: Kinds| k.and(Kinds::NUMBER).within(Kinds::WHOLE);
    if whole(a) && whole(b) {
        Kinds::INT
    } else if float(a) || float(b) {
        Kinds::FLOAT
    } else {
        Kinds::INT.or(Kinds::FLOAT)
    }
}

/// Whether the operation works for some pair of kinds, one of each set.
fn some_pair(a: Kinds, b: Kinds, groups: &[Kinds]) -> bool {
    let both = |group: &Kinds| !a.and(*group).is_null() && !b.and(*group).is_null();
    a.is_null() || b.is_null() || groups.iter().any(both)
}

fn have_order(a: Kinds, b: Kinds) -> bool {
    some_pair(a, b, &[Kinds::NUMBER, Kinds::STR, Kinds::BYTES])
}

fn add_up(a: Kinds, b: Kinds) -> bool {
    some_pair(a, b, &[Kinds::NUMBER, Kinds::STR])
}

fn may_equal(a: Kinds, b: Kinds) -> bool {
    let groups = [
        Kinds::NUMBER,
        Kinds::STR,
        Kinds::BYTES,
        Kinds::LIST,
        Kinds::OBJECT,
        Kinds::WINDOWED,
    ];
    some_pair(a, b, &groups)
}

/// Requirements of single functions on their constants.
fn constants(function: ScalarFunction, args: &[E]) -> Result<(), String> {
    let text = |at: usize| match args.get(at).and_then(E::constant) {
        Some(Literal::Str(text)) => Some(text.as_str()),
        _ => None,
    };
    let whole = |at: usize| match args.get(at).and_then(E::constant) {
        Some(Literal::Int(number)) => Some(*number),
        _ => None,
    };
    match function {
        ScalarFunction::StrMatches
        | ScalarFunction::StrExtract
        | ScalarFunction::StrExtractAll
        | ScalarFunction::StrReplaceRegex => {
            let found = pattern::pattern(text(1).unwrap_or_default())?;
            if function == ScalarFunction::StrReplaceRegex {
                pattern::replacement(&found, text(2).unwrap_or_default())?;
            } else if let Some(wanted) = whole(2).map(|n| n.to_string()).or(text(2).map(Into::into))
            {
                pattern::group(&found, &wanted)?;
            }
        }
        ScalarFunction::Round if whole(1).is_some_and(|digits| !(0..=300).contains(&digits)) => {
            return Err("round to 0 to 300 digits".into());
        }
        ScalarFunction::StrToInt if whole(1).is_some_and(|base| !(2..=36).contains(&base)) => {
            return Err("a base is from 2 to 36".into());
        }
        ScalarFunction::StrSplitN if text(1) == Some("") => {
            return Err("an empty separator; leave it out to split at white space".into());
        }
        ScalarFunction::StrLjust | ScalarFunction::StrRjust
            if text(2).is_some_and(|f| f.chars().count() != 1) =>
        {
            return Err("fill with one character".into());
        }
        ScalarFunction::WithFields => {
            let names = args.iter().skip(1).step_by(2);
            if args.len().is_multiple_of(2)
                || names
                    .into_iter()
                    .any(|n| !matches!(n.constant(), Some(Literal::Str(_))))
            {
                return Err("give a name and a value for each member".into());
            }
        }
        ScalarFunction::DtTruncate if whole(1).is_none_or(|ms| ms <= 0) => {
            return Err("truncate to spans of at least 1 ms".into());
        }
        ScalarFunction::Hash if !matches!(text(1), Some("xxh3" | "murmur2")) => {
            return Err("hash with \"xxh3\" or \"murmur2\"".into());
        }
        ScalarFunction::DtStrftime => {
            let form = text(1).unwrap_or_default();
            jiff::fmt::strtime::format(form, &jiff::Zoned::default())
                .map_err(|e| format!("{form:?} is no form of a time: {e}"))?;
        }
        _ => {}
    }
    zone(function, &text)
}

fn zone<'a>(
    function: ScalarFunction,
    text: &dyn Fn(usize) -> Option<&'a str>,
) -> Result<(), String> {
    let at = match function {
        ScalarFunction::DtTruncate | ScalarFunction::DtStrftime => 2,
        ScalarFunction::StrToTimestamp
        | ScalarFunction::DtYear
        | ScalarFunction::DtMonth
        | ScalarFunction::DtDay
        | ScalarFunction::DtHour
        | ScalarFunction::DtMinute
        | ScalarFunction::DtSecond
        | ScalarFunction::DtMillisecond
        | ScalarFunction::DtWeekday
        | ScalarFunction::DtDate
        | ScalarFunction::DtIso => 1,
        _ => return Ok(()),
    };
    match text(at).map(|name| (name, jiff::tz::TimeZone::get(name))) {
        Some((name, Err(_))) => Err(format!(
            "there is no time zone {name:?}; write a name such as \"UTC\" or \"Europe/Berlin\""
        )),
        _ => Ok(()),
    }
}
