"""The symptoms of each usual failure, and that docs/guide/failure-modes.md describes them.

STOATFLOW_TEST_WRITE_PAGES=1 rewrites the page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.fault_proxy import FaultProxy
from broker.kafka_broker import KafkaBroker
from failure_modes.modes import MODES, Environment, Mode
from failure_modes.page import HEAD, PAGE, rendered, section

pytestmark = pytest.mark.xdist_group("failure_modes")


@pytest.fixture(scope="module")
def behind_proxy() -> Iterator[tuple[FaultProxy, KafkaBroker]]:
    with FaultProxy(seed=7) as proxy, KafkaBroker(proxied=proxy.port) as broker:
        proxy.connect(broker.behind_proxy)
        yield proxy, broker


@pytest.fixture(scope="module")
def written() -> Iterator[dict[str, str]]:
    sections: dict[str, str] = {}
    yield sections
    if os.environ.get("STOATFLOW_TEST_WRITE_PAGES"):
        PAGE.write_text("\n".join([HEAD, *(sections.get(mode.key) or rendered(mode) for mode in MODES)]), "utf-8")


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.long] * mode.long, id=mode.key) for mode in MODES]
)
def test_a_failure(
    behind_proxy: tuple[FaultProxy, KafkaBroker], written: dict[str, str], name: str, tmp_path: Path, mode: Mode
) -> None:
    found = section(mode, mode.cause(Environment(*behind_proxy, name, tmp_path)))
    written[mode.key] = found
    if not os.environ.get("STOATFLOW_TEST_WRITE_PAGES"):
        assert found == rendered(mode)


def test_the_page_has_these_failures() -> None:
    assert [line[3:] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("## ")] == [
        mode.title for mode in MODES
    ]
