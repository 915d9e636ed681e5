"""`stoatflow doctor`: what it says of a file, and when it says nothing. `tests/semantics` proves what it proposes."""

# ruff: noqa: B023  # some of it is wrong on purpose

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.doctor import source
from stoatflow.doctor.examination import examine
from stoatflow.doctor.finding import Finding

JSON = sf.Serdes.json()
APP = """
import stoatflow as sf

LIMIT = 100
builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=dict)
(
    orders.filter(lambda key, order: order["amount"] > LIMIT, name="large")
    .map_values(lambda order: order["user"].title())
    .to("users", value=str)
)
topology = builder.build()
other = topology
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "app_for_the_doctor.py"
    path.write_text(APP)
    return path


def test_a_file(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", app.name]) == 0
    assert capsys.readouterr().out == (
        "app_for_the_doctor.py:8: filter 'large': a function, where an expression needs no interpreter\n"
        '    lambda key, order: order["amount"] > LIMIT\n'
        "    Next: write sf.value['amount'] > LIMIT\n"
        "      - null or missing: where the function raises, the expression goes on with null\n"
        "      - LIMIT: read when the topology is built, not at each call\n"
        "\n"
        "1 finding. What they mean: docs/guide/doctor.md\n"
    )


def test_as_data(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", app.name, "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding == {
        "kind": "expression",
        "line": "app_for_the_doctor.py:8",
        "node": "large",
        "op": "filter",
        "function": 'lambda key, order: order["amount"] > LIMIT',
        "message": "a function, where an expression needs no interpreter",
        "next_step": "write sf.value['amount'] > LIMIT",
        "expression": "sf.value['amount'] > LIMIT",
        "differences": [
            "null or missing: where the function raises, the expression goes on with null",
            "LIMIT: read when the topology is built, not at each call",
        ],
    }


def test_strict_exits_with_1_on_findings(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", app.name, "--strict"]) == 1
    app.write_text(APP.replace('name="large")', 'name="large")  # doctor: ok'))
    assert main(["doctor", app.name, "--strict"]) == 0
    assert capsys.readouterr().out.endswith("\nNothing to say.\n")


@pytest.mark.parametrize(
    "target",
    [
        ["app_for_the_doctor"],
        ["app_for_the_doctor:other"],
        ["app_for_the_doctor.py:other"],
        ["app_for_the_doctor.py", "--variable", "other"],
    ],
)
def test_how_a_topology_is_named(app: Path, target: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("doctor", "describe"):
        # A module is imported once in a process.
        ended = subprocess.run(
            [sys.executable, "-m", "stoatflow", command, *target], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert "large" in ended.stdout


def test_a_package_is_a_module_too(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = app.parent / "package_for_the_doctor"
    package.mkdir()
    (package / "__init__.py").write_text(APP)
    assert main(["describe", "package_for_the_doctor"]) == 0
    assert "large" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["nowhere", "app_for_the_doctor:wrong", "nowhere.py"])
def test_missing_files_and_names(app: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", target]) == 2
    assert "Next:" in capsys.readouterr().err


def test_a_module_that_fails_shows_its_own_error(app: Path) -> None:
    app.with_stem("broken_for_the_doctor").write_text("import no_such_module_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        main(["doctor", "broken_for_the_doctor"])


def test_a_file_that_changed_since_gets_no_proposal(app: Path) -> None:
    space: dict[str, Any] = {}
    exec(compile(APP, str(app), "exec"), space)  # noqa: S102  # as if it was imported
    assert len(examine(space["topology"])) == 1
    app.write_text(APP.replace('order["amount"]', 'order["price"]'))
    assert examine(space["topology"]) == []


def found(build: Callable[[Any], object], value: Any = dict) -> list[Finding]:
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=value))
    return examine(builder.build())


def proposals(build: Callable[[Any], object], value: Any = dict) -> list[str]:
    return [finding.expression for finding in found(build, value) if finding.kind == "expression"]


def mistakes(build: Callable[[Any], object], value: Any = dict) -> list[str]:
    return [finding.kind for finding in found(build, value) if finding.kind != "expression"]


def test_several_functions_on_one_line_are_distinguished() -> None:
    both = proposals(lambda s: s.filter(lambda k, v: v["a"] > 1).filter(lambda k, v: v["b"] > 1).to("out", value=JSON))
    assert both == ["sf.value['a'] > 1", "sf.value['b'] > 1"]


def test_without_columns_functions_are_distinguished_by_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.10 knows lines only.
    monkeypatch.setattr(source, "_is_at", lambda node, code: False)
    test_several_functions_on_one_line_are_distinguished()


def test_a_set_may_have_another_order_in_compiled_code() -> None:
    def either(value: Any) -> bool:
        return value["a"] in {9, 1}

    code = either.__code__
    (given,) = (each for each in code.co_consts if isinstance(each, frozenset))
    turned = frozenset(reversed(list(given)))  # these two want the same place
    assert repr(turned) != repr(given)
    constants = tuple(turned if each is given else each for each in code.co_consts)
    loaded = types.FunctionType(code.replace(co_consts=constants), globals())
    assert len(proposals(lambda s: s.map_values(loaded).to("out", value=JSON))) == 1


def test_closures_and_defaults_are_resolved() -> None:
    name, limit = "a", 5
    given: Any = object()
    assert proposals(lambda s: s.filter(lambda k, v: v[name] > limit).to("o", value=JSON)) == ["sf.value[name] > limit"]
    assert proposals(lambda s: s.filter(lambda k, v, most=limit: v["a"] > most).to("o", value=JSON)) == [
        "sf.value['a'] > 5"
    ]
    assert proposals(lambda s: s.filter(lambda k, v: v[given] > 1).to("o", value=JSON)) == []
    assert proposals(lambda s: s.filter(lambda k, v: v[not_there] > 1).to("o", value=JSON)) == []  # type: ignore[name-defined]  # noqa: F821


def test_a_shadowed_builtin_is_not_the_builtin() -> None:
    def len(value: Any) -> int:  # noqa: A001
        return 1

    assert proposals(lambda s: s.map_values(lambda v: len(v)).to("o", value=JSON)) == []  # noqa: PLW0108


@pytest.mark.parametrize("value", [bytes, "custom"])
def test_values_that_expressions_do_not_read(value: Any) -> None:
    class Mine(sf.Serde[Any]):
        def serialize(self, value: Any) -> bytes:
            return bytes(value)

        def deserialize(self, data: bytes) -> Any:
            return data

    serde = Mine() if value == "custom" else value
    assert proposals(lambda s: s.filter(lambda k, v: v[0] > 1).to("o", value=serde), serde) == []


def test_a_windowed_key_is_not_read() -> None:
    def build(stream: Any) -> None:
        windows = stream.group_by_key().windowed_by(sf.TimeWindows("1s", grace="0s"))
        counts = windows.count(store="c").to_stream()
        counts.select_key(lambda key, n: key).to("o", key=sf.Serdes.time_windowed(str, "1s"), value=int)
        counts.filter(lambda key, n: n > 3).to("o", key=sf.Serdes.time_windowed(str, "1s"), value=int)

    assert proposals(build) == ["sf.value > 3"]


def test_the_parts_of_windowed_keys_are_read() -> None:
    def build(stream: Any) -> None:
        windows = stream.group_by_key().windowed_by(sf.SessionWindows("1s", grace="0s"))
        counts = windows.count(store="c").to_stream()
        counts.select_key(lambda key, n: key.key.upper()).to("o", key=str, value=int)
        counts.filter(lambda key, n: key.window.end - key.window.start > 5).select_key(sf.key.key).to("o")
        counts.map(lambda w, n: (w.key, {"at": w.window.start})).to("o", key=str, value=JSON)
        # Nothing to write for these.
        counts.select_key(lambda key, n: str(key.window.start_time)).to("o", key=str, value=int)
        counts.select_key(lambda key, n: key.window[0]).to("o", key=int, value=int)

    assert proposals(build) == [
        "sf.key.key.str.upper()",
        "(sf.key.window.end - sf.key.window.start) > 5",
        "(sf.key.key, sf.obj(at=sf.key.window.start))",
    ]


@pytest.mark.parametrize("inner", [bytes, dict])
def test_the_key_within_a_window_is_read_if_its_type_is_known(inner: Any) -> None:
    def build(stream: Any) -> None:
        grouped = stream.group_by(sf.value, key=inner, value=dict) if inner is dict else stream.group_by_key()
        counts = grouped.windowed_by(sf.TimeWindows("1s", grace="0s")).count(store="c").to_stream()
        counts.filter(lambda w, n: w.key is not None).to("o")
        counts.filter(lambda w, n: w.window.start == 0).to("o")

    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=bytes, value=dict))
    assert [finding.expression for finding in examine(builder.build())] == ["sf.key.window.start == 0"]


def test_attributes_of_other_values_are_not_read() -> None:
    assert proposals(lambda s: s.filter(lambda k, v: v.key == 1).select_key(lambda k, v: k.key).to("o", key=str)) == []


def test_a_value_made_by_a_function_is_reported() -> None:
    (finding,) = found(lambda s: s.map_values(lambda v: v.items()).filter(lambda k, v: v[0] == 1).to("o", value=JSON))
    assert "the value is made by a Python function: the expression sees its JSON" in finding.differences


def test_expressions_that_the_engine_refuses_are_not_proposed() -> None:
    def behind_a_number(fn: Callable[[Any], Any]) -> list[str]:
        return proposals(lambda s: s.map_values(sf.value.len()).map_values(fn).to("o", value=JSON), str)

    assert behind_a_number(lambda n: n + 1) == ["sf.value + 1"]
    assert behind_a_number(lambda n: n + "!") == []


def test_no_proposal_where_no_expression_is_allowed() -> None:
    async def fetch(value: Any) -> Any:
        return value["a"]

    class Mine:
        def __call__(self, value: Any) -> Any:
            return value["a"]

    assert proposals(lambda s: s.peek(lambda k, v: v["a"]).foreach(lambda k, v: v["a"])) == []
    assert proposals(lambda s: s.map_values(fetch, name="fetch").to("o", value=JSON)) == []
    assert proposals(lambda s: s.map_values(Mine()).to("o", value=JSON)) == []


# Mistakes ------------------------------------------------------------------------------------------


def test_blocking_calls() -> None:
    async def fetch(value: Any) -> Any:
        time.sleep(1)  # noqa: ASYNC251
        return value

    def ask(value: Any) -> Any:
        with urllib.request.urlopen(value) as answer:  # noqa: S310
            return answer.read()

    async def right(value: Any) -> Any:
        await asyncio.sleep(1)
        return await asyncio.to_thread(time.sleep, 1)

    (blocked,) = found(lambda s: s.map_values(fetch, name="f").to("o", value=JSON))
    assert blocked.kind == "blocking call"
    assert "time.sleep(...) blocks the event loop" in blocked.message
    (held,) = found(lambda s: s.map_values(ask).to("o", value=JSON), str)
    assert "the lane waits in urllib.request.urlopen(...)" in held.message
    assert "async def" in held.next_step
    assert found(lambda s: s.map_values(right, name="f").to("o", value=JSON)) == []


SEEN: set[str] = set()
TOTAL = 0


def test_state_outside_of_stores_is_found() -> None:
    latest: dict[str, Any] = {}
    names = {"a": "Ann"}

    def is_new(key: str, value: Any) -> bool:
        if key in SEEN:
            return False
        SEEN.add(key)
        return True

    def remember(value: Any) -> Any:
        before = latest.get("x")
        latest["x"] = value["x"]
        return before

    def count(value: Any) -> Any:
        global TOTAL  # noqa: PLW0603
        TOTAL += 1
        return TOTAL

    def own(value: Any) -> Any:
        found = []
        found.append(names.get(value["a"]))
        return found

    (finding,) = found(lambda s: s.filter(is_new).to("o", value=JSON))
    assert (finding.kind, "'SEEN'" in finding.message, "deduplicate" in finding.next_step) == ("own state", True, True)
    assert mistakes(lambda s: s.map_values(remember).to("o", value=JSON)) == ["own state"]
    assert mistakes(lambda s: s.map_values(count).to("o", value=JSON)) == ["own state"]
    assert mistakes(lambda s: s.map_values(own).to("o", value=JSON)) == []
    # What these do is meant to be seen elsewhere.
    assert mistakes(lambda s: s.foreach(lambda k, v: latest.update(v))) == []


def test_views_that_are_changed() -> None:
    def change(value: Any) -> Any:
        value["seen"] = True
        return value

    def copy(value: Any) -> Any:
        value = dict(value)
        value["seen"] = True
        return value

    assert mistakes(lambda s: s.map_values(change).to("o", value=JSON)) == ["changed view"]
    assert mistakes(lambda s: s.map_values(copy).to("o", value=JSON)) == []
    plain = sf.Serdes.json(decode="dict")
    assert mistakes(lambda s: s.map_values(change).to("o", value=JSON), plain) == []
    with_list = found(lambda s: s.peek(lambda k, v: v.pop("a")).to("o", value=JSON))
    assert [finding.kind for finding in with_list] == ["changed view"]


def test_late_binding_of_loop_variables_is_found() -> None:
    def late(stream: Any) -> None:
        for wanted in ("a", "b"):
            stream.filter(lambda k, v: v["a"].title() == wanted).to("o", value=JSON)

    def bound(stream: Any) -> None:
        for wanted in ("a", "b"):
            stream.filter(lambda k, v, wanted=wanted: v["a"].title() == wanted).to("o", value=JSON)

    def once(stream: Any) -> None:
        for wanted in ("a",):
            stream.filter(lambda k, v: v["a"].title() == wanted).to("o", value=JSON)

    def made(stream: Any) -> None:
        def is_it(wanted: str) -> Callable[[Any, Any], bool]:
            return lambda k, v: bool(v["a"].title() == wanted)

        for wanted in ("a", "b"):
            stream.filter(is_it(wanted)).to("o", value=JSON)

    (finding,) = found(late)
    assert finding.kind == "late binding"
    assert "all 2 functions of this line see its last value, 'b'" in finding.message
    assert "lambda ..., wanted=wanted: ..." in finding.next_step
    assert found(bound) == found(once) == found(made) == []


def test_a_forgotten_to() -> None:
    def forgotten(stream: Any) -> None:
        stream.filter(sf.value > 3).map_values(sf.value + 1)
        stream.group_by_key().count(store="c").to_stream()

    def used(stream: Any) -> None:
        stream.peek(print)
        stream.map_values(sf.value + 1).foreach(print)
        stream.filter(sf.value > 3).to("o", value=JSON)
        stream.group_by_key().count(store="c")
        stream.to_table(store="t")

    first, second = found(forgotten)
    assert {first.kind, second.kind} == {"unused result"}
    assert (first.op, second.op) == ("map_values", "to_stream")
    assert "test_doctor.py:" in first.line
    assert str(second).endswith("nothing reads its results\n    Next: end it with .to(topic), or remove it")
    assert found(used) == []


def test_stores_without_names() -> None:
    def build(stream: Any) -> None:
        stream.group_by_key().count().to_stream().to("o", value=int)
        stream.group_by_key().reduce(max, name="most").to_stream().to("o", value=JSON)

    first, second = found(build)
    assert {first.kind, second.kind} == {"store names"}
    assert (first.op, second.op) == ("count", "reduce")
    assert "test_doctor.py:" in first.line
    assert first.next_step == 'add store="in-count"'
    assert "changes when the topology does" in str(first)
