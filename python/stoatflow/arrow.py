"""What `map_batches` needs of Arrow: its node, the schema as plan data, and the error that names a row.

Takes a function of batches and a schema, gives a node. Never sees a record: batches are made natively, and cross
to the function over Arrow's C data interface without a copy. pyarrow is loaded when it is used, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from stoatflow.errors import TopologyError
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
    """Columns in one piece: `pyarrow.RecordBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Give schema and columns, for the C data interface."""


class ArrowStreamLike(Protocol):
    """Columns in pieces: `pyarrow.Table`, `polars.DataFrame`, `pandas.DataFrame`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give a stream of them, for the C data interface."""


ArrowResult: TypeAlias = ArrowArrayLike | ArrowStreamLike
"""What a function of batches may return."""


class RowError(Exception):
    """Raised by a function of batches: this row alone is at fault, and its record is what a handler decides about.

    Without a handler the application stops, as with any error. With one that leaves the record out, the function is
    called again for the others.
    """

    def __init__(self, row: int, why: str) -> None:
        """`row` is the number that the row has in the batch, from 0 (its `_row`)."""
        super().__init__(why)
        self.row = row


def batches(
    fn: Callable[[Any], ArrowResult],
    *,
    line: str,
    name: str | None,
    on_error: ErrorHandler | None,
    parent: int,
    schema: object,
    max_rows: int,
    max_wait: Duration,
    by_row: str,
) -> nodes.MapBatches:
    """Give the node, or raise `TopologyError` for what can't be one."""
    pa = _pyarrow(line)
    instead = "write filter and map_values with expressions: they need no batches"
    if isinstance(max_rows, bool) or not isinstance(max_rows, int):
        raise TopologyError(f"{line} map_batches(max_rows=) needs a whole number, not {max_rows!r}", next_step="1024")
    return nodes.MapBatches(
        line=line,
        name=name,
        on_error=on_error,
        parent=parent,
        function=callable_only(fn, ("batch",), "map_batches", line, instead),
        schema=None if schema is None else _columns(pa, _schema(pa, schema, line), "", line),
        max_rows=max_rows,
        max_wait_ms=span_ms(max_wait, "map_batches(max_wait=)", least=1),
        by_row=by_row,
    )


def _pyarrow(line: str) -> ModuleType:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise TopologyError(
            f"{line} map_batches shows batches to its function as pyarrow's, which is not installed",
            next_step="pip install 'stoatflow[arrow]'",
        ) from error
    module: ModuleType = pa
    return module


def _schema(pa: ModuleType, schema: object, line: str) -> Any:
    try:
        return schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (TypeError, ValueError) as error:
        raise TopologyError(
            f"{line} map_batches(schema=) needs a pyarrow.Schema, not {type(schema).__name__}",
            next_step='write schema=pa.schema([("amount", pa.float64())])',
        ) from error


def _columns(pa: ModuleType, fields: Any, above: str, line: str) -> tuple[dict[str, object], ...]:
    return tuple({"name": field.name, "type": _type(pa, field.type, above + field.name, line)} for field in fields)


def _type(pa: ModuleType, kind: Any, path: str, line: str) -> object:
    if plain := _PLAIN.get(str(kind)):
        return plain
    if pa.types.is_timestamp(kind):
        return {"timestamp": {"unit": kind.unit, "tz": kind.tz}}
    if pa.types.is_struct(kind):
        return {"struct": list(_columns(pa, [kind.field(i) for i in range(kind.num_fields)], f"{path}.", line))}
    if pa.types.is_list(kind):
        return {"list": _type(pa, kind.value_type, f"{path}[]", line)}
    if pa.types.is_large_list(kind):
        return {"large_list": _type(pa, kind.value_type, f"{path}[]", line)}
    raise TopologyError(
        f"{line} map_batches(schema=) has the column '{path}' of type {kind}, which is not read from JSON",
        next_step="use null, bool, int8 to int64, uint8 to uint64, float32, float64, string, large_string, date32, "
        "timestamp, list, large_list or struct, and cast it inside the function",
    )
