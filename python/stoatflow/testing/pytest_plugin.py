"""pytest plugin of an installed StoatFlow: fixtures, and readable comparisons of records.

Provides `topology_driver`, `embedded_broker`, `kafka_broker` and `output_snapshot`. Imports the engine only when a test
uses a fixture, so that other test suites aren't slowed down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stoatflow.embedded import EmbeddedBroker
    from stoatflow.testing.driver import TopologyTestDriver
    from stoatflow.testing.kafka import KafkaBroker
    from stoatflow.testing.snapshots import Snapshots

BOOTSTRAP = "STOATFLOW_TEST_BOOTSTRAP"
_FIELDS = ("key", "value", "timestamp", "headers")
_SHOWN = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixtures."""
    group = parser.getgroup("stoatflow")
    group.addoption(
        "--stoatflow-bootstrap",
        metavar="HOST:PORT",
        help=f"the broker of the fixture kafka_broker (or the variable {BOOTSTRAP}); without it, one is started",
    )
    group.addoption(
        "--stoatflow-kafka", metavar="VERSION", help="the version of the broker that kafka_broker starts, with Java"
    )
    group.addoption(
        "--stoatflow-update", action="store_true", help="write the files of output_snapshot instead of comparing"
    )


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Create drivers, like `TopologyTestDriver(...)`; they are closed at the end of the test."""
    from stoatflow.testing.driver import TopologyTestDriver

    with ExitStack() as drivers:

        def make(*arguments: Any, **options: Any) -> TopologyTestDriver:
            return drivers.enter_context(TopologyTestDriver(*arguments, **options))

        yield make


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A broker with topics in a temporary directory, for `StoatFlow(..., broker=embedded_broker)`."""
    from stoatflow.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A real Kafka broker: the one of `--stoatflow-bootstrap`, or one that is started with Java for all tests.

    Its topics stay until the end of all tests: give each test names of its own.
    """
    from stoatflow.testing.kafka import KafkaBroker
    from stoatflow.testing.local_kafka import DEFAULT_VERSION, LocalKafka

    given = request.config.getoption("--stoatflow-bootstrap") or os.environ.get(BOOTSTRAP)
    with ExitStack() as stack:
        if not given:
            version = request.config.getoption("--stoatflow-kafka") or DEFAULT_VERSION
            given = stack.enter_context(LocalKafka(version)).bootstrap
        yield stack.enter_context(KafkaBroker(given))


@pytest.fixture
def output_snapshot(request: pytest.FixtureRequest) -> Snapshots:
    """Compare results with a file beside the test: `output_snapshot(out.read_all())`."""
    from stoatflow.testing.snapshots import Snapshots

    return Snapshots(Path(request.path), request.node.name, update=request.config.getoption("--stoatflow-update"))


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Describe, record by record, what differs between two lists of records."""
    if op != "==" or not (_are_records(left) and _are_records(right)):
        return None
    left_records, right_records = list(left), list(right)  # type: ignore[call-overload]  # they are lists
    lines = [f"{len(left_records)} records == {len(right_records)} records"]
    for at in range(max(len(left_records), len(right_records))):
        if at >= len(right_records):
            lines.append(f"record {at}: not expected: {_shown(left_records[at])}")
        elif at >= len(left_records):
            lines.append(f"record {at}: missing: {_shown(right_records[at])}")
        elif left_records[at] != right_records[at]:
            lines.append(f"record {at}: {_difference(left_records[at], right_records[at])}")
    rest = len(lines) - 1 - _SHOWN
    return lines if rest <= 0 else [*lines[: _SHOWN + 1], f"and {rest} more"]


def _are_records(these: object) -> bool:
    if not isinstance(these, Sequence) or isinstance(these, str | bytes):
        return False
    return all(all(hasattr(one, name) for name in _FIELDS) for one in these) and not isinstance(these, range)


def _difference(got: Any, wanted: Any) -> str:
    parts = [
        f"{name} is {getattr(got, name)!r}, not {getattr(wanted, name)!r}"
        for name in _FIELDS
        if getattr(got, name) != getattr(wanted, name)
    ]
    same_key = getattr(got, "key", None) == getattr(wanted, "key", None)
    about = f" (key {got.key!r})" if same_key and parts else ""
    return "; ".join(parts) + about


def _shown(record: Any) -> str:
    headers = f", headers {record.headers!r}" if record.headers else ""
    return f"key {record.key!r}, value {record.value!r}, timestamp {record.timestamp}{headers}"
