"""Errors say what happened, where, and what to do next."""

from __future__ import annotations

import pickle
import sys
import traceback

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.errors import ERRORS_BY_KIND


def test_text() -> None:
    error = sf.ProcessingError(
        "ZeroDivisionError: division by zero.",
        kind="user",
        next_step="fix the function",
        coordinates={"topic": "in", "offset": 7, "partition": 0, "function": "app.py:3 f", "lane": None, "more": 1},
    )
    assert str(error) == (
        "ZeroDivisionError: division by zero [function app.py:3 f, topic in, partition 0, offset 7, more 1]. "
        "Next: fix the function"
    )
    assert error.coordinates == {"topic": "in", "offset": 7, "partition": 0, "function": "app.py:3 f", "more": 1}


def test_defaults_come_from_the_class() -> None:
    error = sf.StateLockedError("in use")
    assert (error.kind, error.coordinates) == ("state_locked", {})
    assert str(error) == "in use. Next: stop the other process, or give this one another state.dir"


@pytest.mark.parametrize("kind", sorted(ERRORS_BY_KIND))
def test_every_kind(kind: str) -> None:
    cls = ERRORS_BY_KIND[kind]
    assert issubclass(cls, sf.StoatFlowError)
    assert cls.__doc__
    assert getattr(sf, cls.__name__) is cls
    error = cls("m", kind=kind, next_step="n", coordinates={"epoch": 3})
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert (type(copy), str(copy), copy.kind) == (cls, "m [epoch 3]. Next: n", kind)


def test_config_and_topology_errors_are_value_errors() -> None:
    assert issubclass(sf.ConfigError, ValueError)
    assert issubclass(sf.TopologyError, ValueError)


@pytest.mark.parametrize("cls", sorted(set(ERRORS_BY_KIND.values()), key=lambda cls: cls.__name__))
def test_a_traceback_ends_with_the_command_that_explains_it(
    cls: type[sf.StoatFlowError], capsys: pytest.CaptureFixture[str]
) -> None:
    error = cls("it failed")
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301  # our own
        # Python 3.10 prints no notes.
        if sys.version_info >= (3, 11):
            lines = "".join(traceback.format_exception(one)).splitlines()
            assert lines[-1] == f"more: stoatflow explain {cls.default_kind}"
        assert str(one).endswith(f"Next: {cls.default_next_step}")
        assert main(one.more.removeprefix("more: stoatflow ").split()) == 0
        assert capsys.readouterr().out.startswith(f"{cls.__name__} (error)")
