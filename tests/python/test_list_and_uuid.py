"""Lists and UUIDs: the bytes of Kafka's own serializers, recorded in tests/conformance/serializers.json."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stoatflow as sf
from stoatflow.serdes import resolve
from stoatflow.testing import Record, TopologyTestDriver

RECORDED = json.loads((Path(__file__).parents[1] / "conformance" / "serializers.json").read_text("utf-8"))
ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
INNER: dict[str, sf.Serde[Any]] = {
    name: getattr(sf.Serdes, name)() for name in ("uuid", "string", "int32", "int64", "double", "bytes")
}


def serde(spec: Any) -> sf.Serde[Any]:
    return INNER[spec] if isinstance(spec, str) else sf.Serdes.list(serde(spec["list"]), nulls=True)


def value(spec: Any, given: Any) -> Any:
    """What the file has as JSON."""
    if given is None:
        return None
    if not isinstance(spec, str):
        return [value(spec["list"], each) for each in given]
    return {"uuid": UUID, "bytes": bytes.fromhex, "double": float}.get(spec, lambda same: same)(given)


@pytest.mark.parametrize("one", RECORDED["written"], ids=lambda one: json.dumps([one["serde"], one["value"]])[:60])
def test_the_bytes_are_those_of_kafka(one: dict[str, Any]) -> None:
    made = value(one["serde"], one["value"])
    assert serde(one["serde"]).serialize(made).hex() == one["hex"]
    assert serde(one["serde"]).deserialize(bytes.fromhex(one["hex"])) == made


@pytest.mark.parametrize("one", RECORDED["read"], ids=lambda one: json.dumps([one["serde"], one["hex"]])[:60])
def test_what_kafka_reads_is_read_or_refused(one: dict[str, Any]) -> None:
    """As Kafka 4.4 does, which refuses more than 4.1; a case that is `stricter` is refused here alone."""
    data = bytes.fromhex(one["hex"])
    answer = one["answers"]["4.4.0"]
    if "value" in answer and "stricter" not in one:
        assert serde(one["serde"]).deserialize(data) == value(one["serde"], answer["value"])
        return
    with pytest.raises(sf.SerdeError, match=r"can't read .*Next: read the topic with the serde it was written with"):
        serde(one["serde"]).deserialize(data)


@pytest.mark.parametrize("inner", INNER)
@given(data=st.data())
def test_what_is_written_is_read(inner: str, data: st.DataObject) -> None:
    values: dict[str, st.SearchStrategy[Any]] = {
        "uuid": st.uuids(), "string": st.text(st.characters(exclude_categories=["Cs"])), "bytes": st.binary(),
        "int32": st.integers(-(2**31), 2**31 - 1), "int64": st.integers(-(2**63), 2**63 - 1),
        "double": st.floats(allow_nan=False),
    }  # fmt: skip
    made = data.draw(st.lists(values[inner] | st.none(), max_size=8))
    lists = sf.Serdes.list(INNER[inner], nulls=True)
    assert lists.deserialize(lists.serialize(made)) == made
    nested = sf.Serdes.list(lists)
    assert nested.deserialize(nested.serialize([made, []])) == [made, []]


def test_a_list_that_ends_too_early_says_so() -> None:
    for data in ("01000000010000000261", "01000000020000000161", "0100", ""):
        with pytest.raises(sf.SerdeError, match="it ends too early"):
            sf.Serdes.list(str).deserialize(bytes.fromhex(data))
    with pytest.raises(sf.SerdeError, match="1 bytes are left behind its last entry"):
        sf.Serdes.list(str).deserialize(bytes.fromhex("0100000001000000016162"))


def test_a_null_entry_is_an_error_that_names_the_argument() -> None:
    for inner in (str, int):
        with pytest.raises(
            sf.SerdeError, match=r"can't write .*: entry 1 is null. Next: write Serdes.list\(..., nulls"
        ):
            sf.Serdes.list(inner).serialize(["a" if inner is str else 1, None])  # type: ignore[list-item]
        data = sf.Serdes.list(inner, nulls=True).serialize([None])
        with pytest.raises(sf.SerdeError, match=r"can't read .*: entry 0 is null. Next: write Serdes.list"):
            sf.Serdes.list(inner).deserialize(data)


@pytest.mark.parametrize("wrong", ["text", b"data", 7, {1}])
def test_only_lists_are_written(wrong: Any) -> None:
    with pytest.raises(sf.SerdeError, match=r"'list\(string\)' can't write .*Next: give a list"):
        sf.Serdes.list(str).serialize(wrong)


def test_the_type_stands_for_the_serde_which_is_one_object() -> None:
    assert resolve(UUID) is sf.Serdes.uuid()
    assert pickle.loads(pickle.dumps(sf.Serdes.uuid())) is sf.Serdes.uuid()  # noqa: S301  # our own
    again = pickle.loads(pickle.dumps(sf.Serdes.list(UUID)))  # noqa: S301  # our own
    assert again.deserialize(sf.Serdes.list(UUID).serialize([ID])) == [ID]
    assert again.name == "list(uuid)"


@pytest.mark.parametrize("wrong", [str(ID), ID.bytes, None])
def test_only_uuids_are_written(wrong: Any) -> None:
    with pytest.raises(sf.SerdeError, match=r"the serde 'uuid' can't write .*Next: give a uuid.UUID"):
        sf.Serdes.uuid().serialize(wrong)


def test_both_in_the_engine_as_keys_values_and_rows() -> None:
    numbers = sf.Serdes.list(int)
    builder = sf.StreamsBuilder()
    (
        builder.stream("in", key=UUID, value=numbers)
        .group_by_key()
        .aggregate(list, lambda _, new, kept: [*kept, *new], store=sf.Materialized("kept", UUID, numbers))
        .to_stream()
        .to("out", key=UUID, value=numbers)
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", UUID, numbers)
        source.pipe(ID, [1, 2], timestamp=1)
        source.pipe(ID, [3], timestamp=2)
        assert driver.output("out", UUID, numbers).read_all() == [Record(ID, [1, 2], 1), Record(ID, [1, 2, 3], 2)]
        driver.crash()
        driver.restart()
        assert driver.store("kept").get(ID) == [1, 2, 3]


def test_a_view_of_a_json_array_is_written_as_a_list() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_values(lambda order: order["tags"]).to(
        "out", key=str, value=sf.Serdes.list(str)
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("a", {"tags": ["new", "paid"]})
        assert driver.output("out", str, sf.Serdes.list(str)).read_value() == ["new", "paid"]
