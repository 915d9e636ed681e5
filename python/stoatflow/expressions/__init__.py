"""Native expressions: functions of a record that run in Rust, without the interpreter.

Takes operators and methods on `sf.key`, `sf.value` and `sf.timestamp`, returns an immutable tree and its JSON (the
shapes of `plan/src/expression.rs`). Never evaluates anything: the engine does, so every operator has one meaning.
`expression` holds the tree and its operators, `text`, `lists` and `times` the methods by type, `windowed` the parts of
windowed keys, `building` the functions that start an expression, `show` its text, `place` the line where it was
written.
"""

from stoatflow.expressions.building import (
    Then,
    When,
    array,
    coalesce,
    concat,
    duration,
    format,  # noqa: A004  # sf.format is what an f-string can't be
    greatest,
    key,
    least,
    left,
    lit,
    new,
    obj,
    old,
    right,
    timestamp,
    value,
    when,
)
from stoatflow.expressions.expression import Expression, Literal, wrap

__all__ = [
    "Expression",
    "Literal",
    "Then",
    "When",
    "array",
    "coalesce",
    "concat",
    "duration",
    "format",
    "greatest",
    "key",
    "least",
    "left",
    "lit",
    "new",
    "obj",
    "old",
    "right",
    "timestamp",
    "value",
    "when",
    "wrap",
]
