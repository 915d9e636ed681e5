//! The functions of native expressions: names, parameters and results.
//!
//! One row each. The check at build time and the error messages use it, and the evaluation matches over
//! the same names, so a function without a row does not compile. Never evaluates.

use super::kinds::Kinds;
use serde::{Deserialize, Serialize};

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The kinds it accepts (null is always accepted).
    pub kinds: Kinds,
    /// Whether it must be a constant, so that it is prepared once and not evaluated for each record.
    pub constant: bool,
}

/// The kinds of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKinds {
    /// These kinds.
    Is(Kinds),
    /// Those of the first argument.
    First,
    /// Those of any argument.
    Any,
    /// A number like the first argument; true and false count as integers.
    Number,
    /// A number like the arguments.
    Power,
    /// An integer; with a second argument a number like the first.
    Rounded,
    /// The key within a windowed key.
    Within,
}

/// How the user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `x.str.zfill(3)`.
    Method(&'static str),
    /// `sf.least(x, y)`.
    Function(&'static str),
    /// `-x`.
    Prefix(&'static str),
    /// `x ** y`.
    Infix(&'static str),
    /// `sf.key.window.start`.
    Attribute(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// How the user writes it.
    pub written: Syntax,
    /// Its parameters, in order.
    pub params: &'static [Param],
    /// The number of required ones.
    pub needed: usize,
    /// Whether any number of further arguments may follow, all like the last of `params`.
    pub more: bool,
    /// The kinds of the result.
    pub gives: ResultKinds,
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $written:expr, [$($param:expr),*] $needed:literal $more:expr, $gives:expr;)*) => {
        /// A function of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ScalarFunction { $($(#[$doc])* $name,)* }

        impl ScalarFunction {
            /// All functions.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The signature of this function.
            #[must_use]
            pub const fn signature(self) -> Signature {
                match self {
                    $(Self::$name => {
                        const PARAMS: &[Param] = &[$($param),*];
                        Signature {
                            written: $written,
                            params: PARAMS,
                            needed: $needed,
                            more: $more,
                            gives: $gives,
                        }
                    })*
                }
            }
        }
    };
}

const fn a(kinds: Kinds) -> Param {
    Param {
        kinds,
        constant: false,
    }
}

const fn c(kinds: Kinds) -> Param {
    Param {
        kinds,
        constant: true,
    }
}

const NUM: Kinds = Kinds::NUMBER;
const INT: Kinds = Kinds::WHOLE;
const STR: Kinds = Kinds::STR;
const LIST: Kinds = Kinds::LIST;
const OBJ: Kinds = Kinds::OBJECT;
const BOOL: Kinds = Kinds::BOOL;
const ALL: Kinds = Kinds::ALL;
const JSON: Kinds = Kinds::JSON;
const WINDOWED: Kinds = Kinds::WINDOWED;
const PART: ResultKinds = ResultKinds::Is(Kinds::INT);
const TEXT: ResultKinds = ResultKinds::Is(STR);
const FLAG: ResultKinds = ResultKinds::Is(BOOL);
use Syntax::{Attribute, Function, Infix, Method, Prefix};

functions! {
    /// The number with the other sign.
    Neg Prefix("-"), [a(NUM)] 1 false, ResultKinds::Number;
    /// The absolute value.
    Abs Method("abs"), [a(NUM)] 1 false, ResultKinds::Number;
    /// Rounded to the nearest, halves to even; with a number of digits, a number of the same type.
    Round Method("round"), [a(NUM), c(INT)] 1 false, ResultKinds::Rounded;
    /// The next lower integer.
    Floor Method("floor"), [a(NUM)] 1 false, PART;
    /// The next higher integer.
    Ceil Method("ceil"), [a(NUM)] 1 false, PART;
    /// The square root.
    Sqrt Method("sqrt"), [a(NUM)] 1 false, ResultKinds::Is(Kinds::FLOAT);
    /// The power, as in Python.
    Pow Infix("**"), [a(NUM), a(NUM)] 2 false, ResultKinds::Power;
    /// Limited to a range; a null literal is no bound.
    Clip Method("clip"), [a(NUM), a(NUM), a(NUM)] 3 false, ResultKinds::Any;
    /// The smallest argument that is not null.
    Least Function("least"), [a(Kinds::ORDERED)] 1 true, ResultKinds::Any;
    /// The largest argument that is not null.
    Greatest Function("greatest"), [a(Kinds::ORDERED)] 1 true, ResultKinds::Any;
    /// Whether it equals one of these.
    IsIn Method("is_in"), [a(ALL), a(ALL)] 1 true, FLAG;
    /// Whether it lies between the two bounds, both included.
    Between Method("between"), [a(Kinds::ORDERED), a(Kinds::ORDERED), a(Kinds::ORDERED)] 3 false, FLAG;
    /// A part of a text or a list, like Python's `[start:stop]`; a null literal is an open end.
    Slice Method("slice"), [a(STR.or(LIST)), a(INT), a(INT)] 3 false, ResultKinds::First;
    /// An element by index or a member by name.
    Item Method("get"), [a(LIST.or(OBJ)), a(INT.or(STR))] 2 false, ResultKinds::Is(JSON);
    /// Strips these characters at both ends.
    StrStripChars Method("str.strip"), [a(STR), a(STR)] 2 false, TEXT;
    /// Strips these characters (default: white space) at the start.
    StrLstrip Method("str.lstrip"), [a(STR), a(STR)] 1 false, TEXT;
    /// Strips these characters (default: white space) at the end.
    StrRstrip Method("str.rstrip"), [a(STR), a(STR)] 1 false, TEXT;
    /// Replaces each occurrence, or the first `n`, by another text.
    StrReplace Method("str.replace"), [a(STR), a(STR), a(STR), a(INT)] 3 false, TEXT;
    /// Removes a prefix.
    StrRemoveprefix Method("str.removeprefix"), [a(STR), a(STR)] 2 false, TEXT;
    /// Removes a suffix.
    StrRemovesuffix Method("str.removesuffix"), [a(STR), a(STR)] 2 false, TEXT;
    /// Padded with zeros after the sign.
    StrZfill Method("str.zfill"), [a(STR), a(INT)] 2 false, TEXT;
    /// Padded at the end.
    StrLjust Method("str.ljust"), [a(STR), a(INT), c(STR)] 3 false, TEXT;
    /// Padded at the start.
    StrRjust Method("str.rjust"), [a(STR), a(INT), c(STR)] 3 false, TEXT;
    /// The index of the first occurrence in characters, or -1.
    StrFind Method("str.find"), [a(STR), a(STR)] 2 false, PART;
    /// The number of occurrences, without overlaps.
    StrCount Method("str.count"), [a(STR), a(STR)] 2 false, PART;
    /// Split at most `n` times; a null literal splits at white space.
    StrSplitN Method("str.split"), [a(STR), c(STR), c(INT)] 3 false, ResultKinds::Is(LIST);
    /// The integer in a base; if not strict, null for other text.
    StrToInt Method("str.to_int"), [a(STR), c(INT), c(BOOL)] 3 false, PART;
    /// Whether the pattern occurs.
    StrMatches Method("str.matches"), [a(STR), c(STR)] 2 false, FLAG;
    /// A group of the first match; null if there is none.
    StrExtract Method("str.extract"), [a(STR), c(STR), c(INT.or(STR))] 3 false, TEXT;
    /// All matches.
    StrExtractAll Method("str.extract_all"), [a(STR), c(STR), c(INT.or(STR))] 3 false, ResultKinds::Is(LIST);
    /// Replaces all matches of the pattern.
    StrReplaceRegex Method("str.replace_regex"), [a(STR), c(STR), c(STR)] 3 false, TEXT;
    /// Milliseconds since 1970 of a text in ISO 8601, in a default time zone if it has none; if not
    /// strict, null for other text.
    StrToTimestamp Method("str.to_timestamp"), [a(STR), c(STR), c(BOOL)] 3 false, PART;
    /// The arguments as text, concatenated.
    Format Function("format"), [a(ALL)] 0 true, TEXT;
    /// A number in a format such as `.2f` or `05d`.
    FormatNumber Function("format"), [a(NUM), c(STR)] 2 false, TEXT;
    /// Whether the list contains the element.
    ListContains Method("list.contains"), [a(LIST), a(ALL)] 2 false, FLAG;
    /// The sum of the elements that are not null.
    ListSum Method("list.sum"), [a(LIST)] 1 false, ResultKinds::Is(Kinds::INT.or(Kinds::FLOAT));
    /// The smallest element that is not null.
    ListMin Method("list.min"), [a(LIST)] 1 false, ResultKinds::Is(JSON);
    /// The largest element that is not null.
    ListMax Method("list.max"), [a(LIST)] 1 false, ResultKinds::Is(JSON);
    /// The mean of the elements that are not null.
    ListMean Method("list.mean"), [a(LIST)] 1 false, ResultKinds::Is(Kinds::FLOAT);
    /// The elements joined with a separator.
    ListJoin Method("list.join"), [a(LIST), a(STR)] 2 false, TEXT;
    /// Sorted, nulls first; true: descending.
    ListSort Method("list.sort"), [a(LIST), c(BOOL)] 2 false, ResultKinds::Is(LIST);
    /// Each element once, in the order of first occurrence.
    ListUnique Method("list.unique"), [a(LIST)] 1 false, ResultKinds::Is(LIST);
    /// In reverse order.
    ListReverse Method("list.reverse"), [a(LIST)] 1 false, ResultKinds::Is(LIST);
    /// The object with some members replaced or added: name, value, name, value.
    WithFields Method("with_fields"), [a(OBJ), a(ALL)] 1 true, ResultKinds::Is(OBJ);
    /// The object without these members.
    Drop Method("drop"), [a(OBJ), c(STR)] 1 true, ResultKinds::Is(OBJ);
    /// The object merged with another one; null counts as empty, two nulls give null.
    Merge Method("merge"), [a(OBJ), a(OBJ)] 2 false, ResultKinds::Is(OBJ);
    /// The names of the members.
    Keys Method("keys"), [a(OBJ)] 1 false, ResultKinds::Is(LIST);
    /// The values of the members.
    Values Method("values"), [a(OBJ)] 1 false, ResultKinds::Is(LIST);
    /// Whether the member exists (null or not).
    Has Method("has"), [a(OBJ), a(STR)] 2 false, FLAG;
    /// The start of the interval of this many milliseconds; with a time zone, intervals start at its
    /// midnight.
    DtTruncate Method("dt.truncate"), [a(INT), c(INT), c(STR)] 3 false, PART;
    /// The year.
    DtYear Method("dt.year"), [a(INT), c(STR)] 2 false, PART;
    /// The month, from 1.
    DtMonth Method("dt.month"), [a(INT), c(STR)] 2 false, PART;
    /// The day of the month, from 1.
    DtDay Method("dt.day"), [a(INT), c(STR)] 2 false, PART;
    /// The hour, from 0.
    DtHour Method("dt.hour"), [a(INT), c(STR)] 2 false, PART;
    /// The minute, from 0.
    DtMinute Method("dt.minute"), [a(INT), c(STR)] 2 false, PART;
    /// The second, from 0.
    DtSecond Method("dt.second"), [a(INT), c(STR)] 2 false, PART;
    /// The millisecond, from 0.
    DtMillisecond Method("dt.millisecond"), [a(INT), c(STR)] 2 false, PART;
    /// The day of the week, Monday 0, as `weekday()` of Python.
    DtWeekday Method("dt.weekday"), [a(INT), c(STR)] 2 false, PART;
    /// The date as `2024-01-31`.
    DtDate Method("dt.date"), [a(INT), c(STR)] 2 false, TEXT;
    /// The time in ISO 8601.
    DtIso Method("dt.iso"), [a(INT), c(STR)] 2 false, TEXT;
    /// The time in a `strftime` format.
    DtStrftime Method("dt.strftime"), [a(INT), c(STR), c(STR)] 3 false, TEXT;
    /// The key without its window.
    WindowedKey Attribute("key"), [a(WINDOWED)] 1 false, ResultKinds::Within;
    /// The start of the key's window.
    WindowStart Attribute("window.start"), [a(WINDOWED)] 1 false, PART;
    /// The end of the key's window.
    WindowEnd Attribute("window.end"), [a(WINDOWED)] 1 false, PART;
    /// A hash that depends only on the value.
    Hash Method("hash"), [a(ALL), c(STR)] 2 false, PART;
}
