"""The Python halves of the serdes write the same bytes as Kafka's own serializers."""

from __future__ import annotations

from typing import Any

import pytest

import stoatflow as sf
from stoatflow.serdes import resolve


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (sf.Serdes.bytes(), b"\x00\xff", b"\x00\xff"),
        (sf.Serdes.string(), "é", "é".encode()),
        (sf.Serdes.int32(), -2, b"\xff\xff\xff\xfe"),
        (sf.Serdes.int64(), 2**63 - 1, b"\x7f" + b"\xff" * 7),
        (sf.Serdes.double(), 1.5, b"\x3f\xf8" + b"\x00" * 6),
        (sf.Serdes.json(), {"b": [1, None], "a": "é"}, '{"b":[1,null],"a":"é"}'.encode()),
    ],
)
def test_bytes(serde: sf.Serde[Any], value: object, data: bytes) -> None:
    assert serde.serialize(value) == data
    assert serde.deserialize(data) == value


@pytest.mark.parametrize(
    ("given", "name"),
    [(str, "string"), (int, "int64"), (float, "double"), (bytes, "bytes"), (dict, "json"), (list, "json"),
     (dict[str, int], "json"), (sf.Serdes.int32(), "int32")],
)  # fmt: skip
def test_types_are_accepted_as_serdes(given: Any, name: str) -> None:
    assert resolve(given).name == name


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (sf.Serdes.string(), b"x"),
        (sf.Serdes.int64(), 2**63),
        (sf.Serdes.int32(), 2**31),
        (sf.Serdes.int64(), True),
        (sf.Serdes.double(), "1"),
        (sf.Serdes.json(), {1, 2}),
        (sf.Serdes.json(), float("nan")),
    ],
)
def test_wrong_values_are_refused(serde: sf.Serde[Any], value: object) -> None:
    with pytest.raises(sf.SerdeError, match=f"the serde '{serde.name}' can't write"):
        serde.serialize(value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [(sf.Serdes.string(), b"\xff"), (sf.Serdes.int64(), b"123"), (sf.Serdes.json(), b"{")],
)
def test_wrong_bytes_are_refused(serde: sf.Serde[Any], data: bytes) -> None:
    with pytest.raises(sf.SerdeError, match=f"the serde '{serde.name}' can't read"):
        serde.deserialize(data)


def test_a_class_is_no_serde() -> None:
    class Mine(sf.Serde[str]):
        def serialize(self, value: str) -> bytes:
            return value.encode()

        def deserialize(self, data: bytes) -> str:
            return data.decode()

    with pytest.raises(sf.TopologyError, match=r"write Mine\(\)"):
        resolve(Mine)
