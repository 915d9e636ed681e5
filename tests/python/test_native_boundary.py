"""Both halves of the package agree: kinds of nodes and errors, settings, expressions, the stub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow._runtime import bridge
from stoatflow.errors import ERRORS_BY_KIND
from stoatflow.plan import NODE_CLASSES


def test_node_kinds() -> None:
    assert sorted(cls.op for cls in NODE_CLASSES) == sorted(bridge.node_kinds())


def test_error_kinds() -> None:
    ours = [(kind, cls.default_next_step, cls.__name__) for kind, cls in ERRORS_BY_KIND.items()]
    assert sorted(ours) == sorted(bridge.error_kinds())


def test_settings_can_all_be_given_as_keywords() -> None:
    names = [name for name, *_ in bridge.settings_schema()]
    assert len(names) == len(set(names)) > 0
    for name in names:
        assert sf.Settings({}, environ={}, **{name.replace(".", "_"): "x"}).get(name) == "x"
        variable = "STOATFLOW_" + name.replace(".", "_").upper()
        assert sf.Settings(environ={variable: "x"}).get(name) == "x"


def test_every_expression_can_be_compiled() -> None:
    v = sf.value
    number, text = v["n"], v["t"]
    conditions = [
        number == 1, number != 1, number < 1, number <= 1, number > 1, number >= 1, number.is_null(),
        (number > 1) & (number < 3), (number > 1) | text.is_null(), ~text.is_null(),
        text.str.contains("a"), text.str.startswith("a"), text.str.endswith("a"), sf.key == "k", sf.timestamp > 5,
    ]  # fmt: skip
    values = [
        number + 1, number - 1, number * 2, number / 2, number // 2, number % 2, v["list"][0], v.len(),
        text.str.lower(), text.str.upper(), text.str.strip(), text.str.split(), text.str.split(","),
        text.cast("int"), sf.coalesce(text, "x"), sf.when(number > 1).then(1).otherwise(None),
        sf.obj(a=number, b=None, c=1.5, d=True), sf.lit("constant"),
    ]  # fmt: skip
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    for condition in conditions:
        stream = stream.filter(condition)
    for value in values:
        stream.map_values(value).to("out", key=str, value=dict)
    assert builder.build().describe().startswith("Topologies:")


def test_errors_without_a_line_name_none() -> None:
    with pytest.raises(sf.TopologyError, match="reads nothing: begin it with") as refused:
        sf.StreamsBuilder().build()
    assert refused.value.next_step == "change the topology as the message says, and build it again"


def test_an_invalid_topology_names_the_line() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("a")
    builder.table("a")
    with pytest.raises(sf.TopologyError, match=r"test_native_boundary\.py:\d+") as caught:
        builder.build()
    assert caught.value.kind == "topology"
    assert caught.value.next_step


def test_an_empty_topology_is_refused() -> None:
    with pytest.raises(sf.TopologyError):
        sf.StreamsBuilder().build()


def test_a_missing_native_module_says_what_to_do() -> None:
    code = "import sys; sys.modules['stoatflow._native'] = None; import stoatflow; stoatflow.StreamsBuilder"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Next: install a wheel" in ended.stderr


def test_the_stub_is_the_native_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "stoatflow._native", "--ignore-disjoint-bases"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
