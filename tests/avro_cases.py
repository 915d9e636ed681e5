"""Random schemas with values, and their bytes as `fastavro` writes them."""

from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import strategies as st

LEAVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(),
    "string": st.text(),
    "fixed": st.binary(min_size=3, max_size=3),
    "enum": st.sampled_from(["A", "B", "C"]),
}


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, data: bytes) -> Any:
    """Decode the bytes, with fields in the order of the schema."""
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)


@st.composite
def schemas(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema and a strategy for its values."""
    names = iter(range(1000))

    def named(kind: str) -> Any:
        if kind == "fixed":
            return {"type": "fixed", "name": f"F{next(names)}", "size": 3}
        if kind == "enum":
            return {"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B", "C"]}
        return kind

    def case(depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        shape = draw(st.sampled_from(["leaf", "leaf", "array", "map", "maybe", "record"])) if depth < 3 else "leaf"
        if shape == "leaf":
            kind = draw(LEAVES)
            return named(kind), VALUES[kind]
        if shape == "maybe":
            kind = draw(LEAVES.filter(lambda k: k != "null"))
            return ["null", named(kind)], st.none() | VALUES[kind]
        if shape == "record":
            fields = [case(depth + 1) for _ in range(draw(st.integers(0, 5)))]
            schema = [{"name": f"f{at}", "type": of} for at, (of, _) in enumerate(fields)]
            made = st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(fields)})
            return {"type": "record", "name": f"R{next(names)}", "fields": schema}, made
        of, values = case(depth + 1)
        if shape == "array":
            return {"type": "array", "items": of}, st.lists(values, max_size=3)
        return {"type": "map", "values": of}, st.dictionaries(st.text(max_size=3), values, max_size=3)

    return case(0)


def cases() -> st.SearchStrategy[tuple[Any, Any]]:
    """Schemas, each with a matching value."""
    return schemas().flatmap(lambda drawn: st.tuples(st.just(drawn[0]), drawn[1]))
