"""Native expressions: functions of a record that run in Rust, without the interpreter.

Takes operators and methods on `sf.key`, `sf.value` and `sf.timestamp`, gives an immutable tree and its JSON (the shapes
of `plan/src/expression.rs`). Never evaluates anything: the engine does, and so there is one meaning of every operator.
`expression` holds the tree and its operators, `text`, `lists` and `times` the methods by type, `building` the functions
that begin one, `show` the text of one, `place` the line at which it was written.
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
