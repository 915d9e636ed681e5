//! The functions of native expressions: their names, what they take, what they give.
//!
//! One row each. The check at build time reads it, error messages are written from it, and the evaluation
//! matches over the same names, so a function without a row does not compile. Never evaluates.

use super::kinds::Kinds;
use serde::{Deserialize, Serialize};

/// What a function takes in one place.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Of which kinds it may be (null always may).
    pub kinds: Kinds,
    /// Must it be a constant? What is prepared once is not evaluated for each record.
    pub constant: bool,
}

/// Of which kinds the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Of these.
    Is(Kinds),
    /// Of the first argument's.
    First,
    /// Of any of the arguments'.
    Any,
    /// A number like the first argument; true and false are whole numbers.
    Number,
    /// A number like the arguments.
    Power,
    /// A whole number, with a second argument a number like the first.
    Rounded,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `x.str.zfill(3)`.
    Method(&'static str),
    /// `sf.least(x, y)`.
    Function(&'static str),
    /// `-x`.
    Prefix(&'static str),
    /// `x ** y`.
    Infix(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// How it is written.
    pub written: Written,
    /// What it takes, in order.
    pub params: &'static [Param],
    /// So many of them must be there.
    pub needed: usize,
    /// Any number of further ones, all like the last of `params`?
    pub more: bool,
    /// What it gives.
    pub gives: Gives,
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $written:expr, [$($param:expr),*] $needed:literal $more:expr, $gives:expr;)*) => {
        /// Which function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Scalar { $($(#[$doc])* $name,)* }

        impl Scalar {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its row.
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
const PART: Gives = Gives::Is(Kinds::INT);
const TEXT: Gives = Gives::Is(STR);
const FLAG: Gives = Gives::Is(BOOL);
use Written::{Function, Infix, Method, Prefix};

functions! {
    /// The number with the other sign.
    Neg Prefix("-"), [a(NUM)] 1 false, Gives::Number;
    /// Without the sign.
    Abs Method("abs"), [a(NUM)] 1 false, Gives::Number;
    /// To the nearest, halves to the even one; with digits behind the point, a number of the same type.
    Round Method("round"), [a(NUM), c(INT)] 1 false, Gives::Rounded;
    /// The whole number below.
    Floor Method("floor"), [a(NUM)] 1 false, PART;
    /// The whole number above.
    Ceil Method("ceil"), [a(NUM)] 1 false, PART;
    /// The square root.
    Sqrt Method("sqrt"), [a(NUM)] 1 false, Gives::Is(Kinds::FLOAT);
    /// The power, as in Python.
    Pow Infix("**"), [a(NUM), a(NUM)] 2 false, Gives::Power;
    /// Not below, not above; a null literal is no bound.
    Clip Method("clip"), [a(NUM), a(NUM), a(NUM)] 3 false, Gives::Any;
    /// The smallest that is not null.
    Least Function("least"), [a(Kinds::ORDERED)] 1 true, Gives::Any;
    /// The largest that is not null.
    Greatest Function("greatest"), [a(Kinds::ORDERED)] 1 true, Gives::Any;
    /// Does it equal one of these?
    IsIn Method("is_in"), [a(ALL), a(ALL)] 1 true, FLAG;
    /// Is it from the first to the second, both included?
    Between Method("between"), [a(Kinds::ORDERED), a(Kinds::ORDERED), a(Kinds::ORDERED)] 3 false, FLAG;
    /// A part of a text or a list, as `[start:stop]` of Python; a null literal is an open end.
    Slice Method("slice"), [a(STR.or(LIST)), a(INT), a(INT)] 3 false, Gives::First;
    /// An element by index or a member by name.
    Item Method("get"), [a(LIST.or(OBJ)), a(INT.or(STR))] 2 false, Gives::Is(JSON);
    /// Without these characters at both ends.
    StrStripChars Method("str.strip"), [a(STR), a(STR)] 2 false, TEXT;
    /// Without these characters (white space) at the start.
    StrLstrip Method("str.lstrip"), [a(STR), a(STR)] 1 false, TEXT;
    /// Without these characters (white space) at the end.
    StrRstrip Method("str.rstrip"), [a(STR), a(STR)] 1 false, TEXT;
    /// Another text in place of each occurrence, or of the first so many.
    StrReplace Method("str.replace"), [a(STR), a(STR), a(STR), a(INT)] 3 false, TEXT;
    /// Without this beginning.
    StrRemoveprefix Method("str.removeprefix"), [a(STR), a(STR)] 2 false, TEXT;
    /// Without this end.
    StrRemovesuffix Method("str.removesuffix"), [a(STR), a(STR)] 2 false, TEXT;
    /// Filled with zeros behind the sign.
    StrZfill Method("str.zfill"), [a(STR), a(INT)] 2 false, TEXT;
    /// Filled at the end.
    StrLjust Method("str.ljust"), [a(STR), a(INT), c(STR)] 3 false, TEXT;
    /// Filled at the start.
    StrRjust Method("str.rjust"), [a(STR), a(INT), c(STR)] 3 false, TEXT;
    /// At which character this begins first, or -1.
    StrFind Method("str.find"), [a(STR), a(STR)] 2 false, PART;
    /// How often this occurs, without overlaps.
    StrCount Method("str.count"), [a(STR), a(STR)] 2 false, PART;
    /// At most so many cuts; a null literal cuts at white space.
    StrSplitN Method("str.split"), [a(STR), c(STR), c(INT)] 3 false, Gives::Is(LIST);
    /// A whole number in a base; not strict: null for what is none.
    StrToInt Method("str.to_int"), [a(STR), c(INT), c(BOOL)] 3 false, PART;
    /// Does the pattern occur?
    StrMatches Method("str.matches"), [a(STR), c(STR)] 2 false, FLAG;
    /// A group of the first place where the pattern occurs; null if it doesn't.
    StrExtract Method("str.extract"), [a(STR), c(STR), c(INT.or(STR))] 3 false, TEXT;
    /// Everything that the pattern finds.
    StrExtractAll Method("str.extract_all"), [a(STR), c(STR), c(INT.or(STR))] 3 false, Gives::Is(LIST);
    /// Another text in place of what the pattern finds.
    StrReplaceRegex Method("str.replace_regex"), [a(STR), c(STR), c(STR)] 3 false, TEXT;
    /// Milliseconds since 1970 of a text in ISO 8601, in a time zone if it names none; not strict: null for
    /// what is none.
    StrToTimestamp Method("str.to_timestamp"), [a(STR), c(STR), c(BOOL)] 3 false, PART;
    /// Texts and everything else as text, one behind the other.
    Format Function("format"), [a(ALL)] 0 true, TEXT;
    /// A number in a form: `.2f`, `05d`.
    FormatNumber Function("format"), [a(NUM), c(STR)] 2 false, TEXT;
    /// Is it an element?
    ListContains Method("list.contains"), [a(LIST), a(ALL)] 2 false, FLAG;
    /// The sum of the elements that are not null.
    ListSum Method("list.sum"), [a(LIST)] 1 false, Gives::Is(Kinds::INT.or(Kinds::FLOAT));
    /// The smallest element that is not null.
    ListMin Method("list.min"), [a(LIST)] 1 false, Gives::Is(JSON);
    /// The largest element that is not null.
    ListMax Method("list.max"), [a(LIST)] 1 false, Gives::Is(JSON);
    /// The mean of the elements that are not null.
    ListMean Method("list.mean"), [a(LIST)] 1 false, Gives::Is(Kinds::FLOAT);
    /// Texts put together with this in between.
    ListJoin Method("list.join"), [a(LIST), a(STR)] 2 false, TEXT;
    /// In order, nulls first; true: downwards.
    ListSort Method("list.sort"), [a(LIST), c(BOOL)] 2 false, Gives::Is(LIST);
    /// Each element once, in the order of its first place.
    ListUnique Method("list.unique"), [a(LIST)] 1 false, Gives::Is(LIST);
    /// From the last to the first.
    ListReverse Method("list.reverse"), [a(LIST)] 1 false, Gives::Is(LIST);
    /// The object with other values for these members: name, value, name, value.
    WithFields Method("with_fields"), [a(OBJ), a(ALL)] 1 true, Gives::Is(OBJ);
    /// The object without these members.
    Drop Method("drop"), [a(OBJ), c(STR)] 1 true, Gives::Is(OBJ);
    /// The object with all members of another one; null is one without members, of two nulls it is null.
    Merge Method("merge"), [a(OBJ), a(OBJ)] 2 false, Gives::Is(OBJ);
    /// The names of the members.
    Keys Method("keys"), [a(OBJ)] 1 false, Gives::Is(LIST);
    /// The values of the members.
    Values Method("values"), [a(OBJ)] 1 false, Gives::Is(LIST);
    /// Is there such a member (null or not)?
    Has Method("has"), [a(OBJ), a(STR)] 2 false, FLAG;
    /// The start of the span of so many milliseconds; spans of a time zone begin at its midnight.
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
    /// The day as `2024-01-31`.
    DtDate Method("dt.date"), [a(INT), c(STR)] 2 false, TEXT;
    /// The time in ISO 8601.
    DtIso Method("dt.iso"), [a(INT), c(STR)] 2 false, TEXT;
    /// The time in a form of `strftime`.
    DtStrftime Method("dt.strftime"), [a(INT), c(STR), c(STR)] 3 false, TEXT;
    /// A number that depends on nothing but the value.
    Hash Method("hash"), [a(ALL), c(STR)] 2 false, PART;
}
