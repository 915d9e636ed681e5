"""Arrow for batch operators: their plan nodes, schemas as plan data, and the error that names a row.

Takes a function of batches and a schema, returns a node. Batches are built natively and passed to the function over
Arrow's C data interface without a copy. pyarrow is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from stoatflow.errors import ConfigError, TopologyError
from stoatflow.plan import nodes
from stoatflow.plan.functions import callable_only
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from stoatflow.durations import Duration
    from stoatflow.handlers import ErrorHandler

_PLAIN = {
    "null": "null",
    "bool": "bool",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "large_string": "large_string",
    "binary": "binary",
    "date32[day]": "date32",
}


class ArrowArrayLike(Protocol):
    """Columns in one piece, such as `pyarrow.RecordBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return schema and columns, for the C data interface."""


class ArrowStreamLike(Protocol):
    """Columns in pieces, such as `pyarrow.Table`, `polars.DataFrame`, `pandas.DataFrame`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of the pieces, for the C data interface."""


ArrowResult: TypeAlias = ArrowArrayLike | ArrowStreamLike
"""What a function of batches may return."""


class RowError(Exception):
    """Raised by a function of batches: only this row is at fault, and a handler decides about its record.

    Without a handler the application stops, as with any error. With a handler that drops the record, the function is
    called again for the others.

    >>> def checked(batch):
    ...     for row, total in enumerate(batch["value"].to_pylist()):
    ...         if total < 0:
    ...             raise sf.RowError(row, "less than nothing")
    ...     return batch
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("totals", value=int).map_batches(checked, on_error=sf.log_and_continue()).print()
    >>> with TopologyTestDriver(builder.build()) as driver, driver.epoch():
    ...     driver.input("totals", value=int).pipe_all([30, -1, 20])
    [map_batches]: None, 30
    [map_batches]: None, 20
    """

    def __init__(self, row: int, why: str) -> None:
        """`row` is the number of the row in the batch, from 0 (its `_row`)."""
        super().__init__(why)
        self.row = row


def batches(
    fn: Callable[[Any], ArrowResult],
    schema: object,
    max_rows: int,
    max_wait: Duration,
    by_row: str,
    *,
    line: str,
    name: str | None,
    on_error: ErrorHandler | None,
    parent: int,
) -> nodes.MapBatches:
    """Return the node; raise `TopologyError` for invalid arguments."""
    who = Caller(f"{line} map_batches")
    pa = load(who)
    instead = "write filter and map_values with expressions: they need no batches"
    _whole(max_rows, who)
    return nodes.MapBatches(
        line=line,
        name=name,
        on_error=on_error,
        parent=parent,
        function=callable_only(fn, ("batch",), "map_batches", line, instead),
        schema=columns(pa, schema, who),
        max_rows=max_rows,
        max_wait_ms=span_ms(max_wait, "map_batches(max_wait=)", least=1),
        by_row=by_row,
    )


def batches_to(
    fn: Callable[[Any], object],
    schema: object,
    max_rows: int,
    max_wait: Duration,
    *,
    line: str,
    name: str | None,
    on_error: ErrorHandler | None,
    parent: int,
) -> nodes.ForeachBatch:
    """Return the node of a function without a result; raise `TopologyError` for invalid arguments."""
    who = Caller(f"{line} foreach_batch")
    pa = load(who)
    _whole(max_rows, who)
    return nodes.ForeachBatch(
        line=line,
        name=name,
        on_error=on_error,
        parent=parent,
        function=callable_only(fn, ("batch",), "foreach_batch", line, "pass a function: an expression has no effect"),
        schema=columns(pa, schema, who),
        max_rows=max_rows,
        max_wait_ms=span_ms(max_wait, "foreach_batch(max_wait=)", least=1),
    )


def _whole(max_rows: object, who: Caller) -> None:
    if isinstance(max_rows, bool) or not isinstance(max_rows, int):
        raise who.error(f"{who.call}(max_rows=) needs a whole number, not {max_rows!r}", next_step="1024")


class Caller(NamedTuple):
    """The method that needs pyarrow or a schema, for messages."""

    call: str
    error: type[TopologyError | ConfigError] = TopologyError
    extra: str = "arrow"


def load(who: Caller) -> ModuleType:
    """Import and return pyarrow; raise an error that says what to install."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise who.error(
            f"{who.call} shows batches as pyarrow's, which is not installed",
            next_step=f"pip install 'stoatflow[{who.extra}]'",
        ) from error
    module: ModuleType = pa
    return module


def columns(pa: ModuleType, schema: object, who: Caller) -> tuple[dict[str, object], ...] | None:
    """Return a schema as plan data; raise an error if it is none, or can't be used to read values."""
    return None if schema is None else _columns(pa, as_schema(pa, schema, who), "", who)


def as_schema(pa: ModuleType, schema: object, who: Caller) -> Any:
    """Return a `pyarrow.Schema` unchanged; convert anything that can be converted to one."""
    try:
        return schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (TypeError, ValueError) as error:
        raise who.error(
            f"{who.call}(schema=) needs a pyarrow.Schema, not {type(schema).__name__}",
            next_step='write schema=pa.schema([("amount", pa.float64())])',
        ) from error


def _columns(pa: ModuleType, fields: Any, above: str, who: Caller) -> tuple[dict[str, object], ...]:
    return tuple({"name": field.name, "type": _type(pa, field.type, above + field.name, who)} for field in fields)


def _type(pa: ModuleType, kind: Any, path: str, who: Caller) -> object:
    if plain := _PLAIN.get(str(kind)):
        return plain
    if pa.types.is_timestamp(kind):
        return {"timestamp": {"unit": kind.unit, "tz": kind.tz}}
    if pa.types.is_struct(kind):
        return {"struct": list(_columns(pa, [kind.field(i) for i in range(kind.num_fields)], f"{path}.", who))}
    if pa.types.is_list(kind):
        return {"list": _type(pa, kind.value_type, f"{path}[]", who)}
    if pa.types.is_large_list(kind):
        return {"large_list": _type(pa, kind.value_type, f"{path}[]", who)}
    raise who.error(
        f"{who.call}(schema=) has the column '{path}' of type {kind}, which is not read from JSON",
        next_step="use null, bool, int8 to int64, uint8 to uint64, float32, float64, string, large_string, date32, "
        "timestamp, list, large_list or struct, and cast it afterwards",
    )
