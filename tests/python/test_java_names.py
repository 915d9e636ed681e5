"""A method that is written as in Java gets an error with its name here, and `stoatflow explain` knows it too."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.explain.methods import find, methods
from stoatflow.testing import TopologyTestDriver

HELD = (
    "BranchedKStream", "Branched", "CogroupedKStream", "Consumed", "GlobalKTable", "Grouped", "JoinWindows", "Joined",
    "KGroupedStream", "KGroupedTable", "KStream", "KTable", "Materialized", "Produced", "Repartitioned",
    "SessionWindowedKStream", "SessionWindows", "SlidingWindows", "Stores", "StreamJoined", "StreamsBuilder",
    "Suppressed", "TableJoined", "TimeWindowedKStream", "TimeWindows", "Topology",
)  # fmt: skip
"""Classes with the same name on both sides, whose methods users call."""


def holder(name: str) -> type:
    """Return a class of the package; some have no name at its root."""
    from stoatflow import cogrouped, grouped, windowed_stream

    found = (
        next(vars(each).get(name) for each in (grouped, windowed_stream, cogrouped) if name in vars(each))
        if (not hasattr(sf, name))
        else getattr(sf, name)
    )
    assert isinstance(found, type)
    return found


def error_of(get: Any) -> str:
    with pytest.raises(AttributeError) as caught:
        get()
    return str(caught.value)


def stream() -> sf.KStream[str, str]:
    return sf.StreamsBuilder().stream("in", key=str, value=str)


def test_each_method_of_the_table_names_its_counterpart() -> None:
    tried = 0
    for method in methods():
        name, _, called = method.java.rpartition(".")
        if name not in HELD or hasattr(holder(name), called) or called == called.lower():
            continue
        message = error_of(partial(getattr, holder(name), called))
        assert message.startswith(f"type object {name!r} has no attribute {called!r}. ")
        assert method.java in message
        assert (method.python.removesuffix("=)") or method.here) in message
        tried += 1
    assert tried > 140


@pytest.mark.parametrize(
    ("get", "ending"),
    [
        (lambda: stream().mapValues, "Next: for Kafka Streams' KStream.mapValues write KStream.map_values"),
        (lambda: stream().group_by_key().windowedBy, "write KGroupedStream.windowed_by"),
        (lambda: stream().group_by_key().count(store="n").toStream, "write KTable.to_stream"),
        (lambda: stream().branch, "write KStream.split"),
        (lambda: stream().through, "write KStream.repartition"),
        (lambda: stream().transformValues, "write KStream.process_values"),
        (lambda: sf.StreamsBuilder().globalTable, "write StreamsBuilder.global_table"),
        (lambda: sf.Serdes.Long, "Kafka Streams' Serdes.Long: the type `int`, or `Serdes.int64()`"),
        (lambda: sf.Materialized("n").withCachingDisabled, "write Materialized(caching=...)"),
        (lambda: sf.Materialized.as_, "write Materialized()"),
        (lambda: sf.Consumed.with_, "write Consumed()"),
        (lambda: sf.TimeWindows.of, "write TimeWindows()"),
        (lambda: sf.Topology.AutoOffsetReset, "write OffsetReset"),
        (lambda: sf.StoatFlow.cleanUp, "Kafka Streams' KafkaStreams.cleanUp write StoatFlow.clean_up"),
        (lambda: TopologyTestDriver.createInputTopic, "write testing.TopologyTestDriver.create_input_topic"),
        (lambda: sf.KafkaStreams, "Next: for Kafka Streams' KafkaStreams write StoatFlow()"),
        (lambda: sf.StreamsConfig, 'a configuration is a dict, {"application.id": ...}, a file, or `Settings`'),
        (lambda: sf.KeyValue, "Kafka Streams' KeyValue: a plain tuple"),
        (lambda: sf.ValueMapper, "Kafka Streams' ValueMapper: a function, or an expression"),
        (lambda: sf.WindowedSerdes, "write Serdes.time_windowed"),
    ],
)  # fmt: skip
def test_names_of_java_end_with_the_next_step(get: Any, ending: str) -> None:
    assert error_of(get).endswith(ending)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (lambda: sf.StreamsBuilder().stream("in", sf.Consumed(str, str)), "write stream(topics, consumed=...)"),
        (lambda: sf.StreamsBuilder().stream("in", str, str), "write stream(topics, key=..., value=...)"),
        (lambda: sf.StreamsBuilder().stream("a", "b"), "write stream([topic, topic])"),
        (
            lambda: sf.StreamsBuilder().table("in", sf.Consumed(str, str), sf.Materialized("kept")),
            "write table(topic, consumed=..., store=...)",
        ),
        (lambda: sf.StreamsBuilder().global_table("in", str, str), "write global_table(topic, key=..., value=...)"),
        (lambda: stream().to("out", sf.Produced(key=str)), "write to(topic, produced=...)"),
        (lambda: stream().to("out", str, str), "write to(topic, key=..., value=...)"),
        (lambda: stream().group_by_key(sf.Grouped(key=str)), "write group_by_key(grouped=...)"),
        (lambda: stream().group_by_key().count("n"), "write count(store=...)"),
        (lambda: stream().group_by_key().count(sf.Materialized("n")), "write count(store=...)"),
        (
            lambda: stream().group_by_key().aggregate(int, lambda k, v, n: n + 1, sf.Materialized("n")),
            "write aggregate(initializer, aggregator, store=...)",
        ),
    ],
)  # fmt: skip
def test_arguments_in_the_order_of_java_name_the_keyword(call: Any, step: str) -> None:
    with pytest.raises(sf.TopologyError, match=r"test_java_names\.py:\d+ \w+: \w+ is given by position") as caught:
        call()
    assert caught.value.next_step == step


def test_other_names_get_the_usual_error() -> None:
    with pytest.raises(AttributeError, match=r"^'KStream' object has no attribute 'map_value'$") as caught:
        _ = stream().map_value  # type: ignore[attr-defined]
    assert (caught.value.name, type(caught.value.obj)) == ("map_value", sf.KStream), "Python guesses from these"
    assert error_of(lambda: stream().notOfKafka) == "'KStream' object has no attribute 'notOfKafka'"  # type: ignore[attr-defined]
    assert error_of(lambda: sf.Notofkafka) == "module 'stoatflow' has no attribute 'Notofkafka'"  # type: ignore[attr-defined]
    assert not hasattr(stream(), "mapValues")
    assert not hasattr(sf, "KafkaStreams")


def test_objects_are_copied_as_before() -> None:
    kept = sf.Materialized("n", caching=False)
    assert copy.copy(kept) == copy.deepcopy(kept) == kept
    window = sf.JoinWindows("5m", grace="1m")
    assert copy.copy(window) == copy.deepcopy(window) == window


def test_the_error_of_a_property_is_its_own() -> None:
    class Broken(sf.StreamsBuilder):
        @property
        def mapValues(self) -> str:  # noqa: N802
            return self.nothing  # type: ignore[attr-defined,no-any-return]

    assert "'nothing'" in error_of(lambda: Broken().mapValues)


def test_the_table_is_read_for_an_error_only() -> None:
    program = (
        "import sys, stoatflow as sf\n"
        "from stoatflow.testing import TopologyTestDriver\n"
        "for name in sf.__all__: getattr(sf, name)\n"
        "assert 'stoatflow.explain.methods' not in sys.modules\n"
        "assert not hasattr(sf.Materialized, 'asStore') and 'stoatflow.explain.methods' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_explain_finds_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "KStream.mapValues"]) == 0
    assert capsys.readouterr().out == (
        "KStream.mapValues (method of Kafka Streams)\n"
        "  here: `KStream.map_values`\n"
        "  page: docs/reference/parity.md\n"
    )  # fmt: skip
    assert main(["explain", "groupbykey", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["meaning"]) for each in found] == [
        ("KStream.groupByKey", "here: `KStream.group_by_key`")
    ]
    assert main(["explain", "KafkaStreams"]) == 0
    assert "here: `StoatFlow()`" in capsys.readouterr().out
    assert main(["explain", "commit.interval.ms"]) == 0
    assert "(setting)" in capsys.readouterr().out, "settings first"


def test_names_are_found_with_and_without_their_class() -> None:
    assert {each.java for each in find("suppress")} == {"KTable.suppress"}
    assert [each.java for each in find("new TopologyTestDriver")] == ["new TopologyTestDriver"]
    assert [each.python for each in find("TimeWindows.ofSizeAndGrace")] == ["TimeWindows.of_size_and_grace"]
    assert find("nothing") == []
