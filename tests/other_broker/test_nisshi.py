"""StoatFlow on Nisshi, a broker with Kafka's protocol and none of its code.

Nisshi refuses transactional ids on purpose, and an application needs them with either guarantee. So everything that
opens a producer must end soon, with a sentence that says what to do. Of the contract, that leaves one case.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.nisshi_broker import STORAGES, NisshiBroker
from counting import consume, make
from topics import KafkaTopics

from stoatflow import AuthorizationError

ROOT = Path(__file__).resolve().parents[2]
SUITE = [
    ROOT / "scripts" / "cargo.sh", "--config", "scripts/tests.toml", "test", "--release", "--locked", "--workspace",
    "--exclude", "stoatflow-python", "--exclude", "stoatflow-benches", "--test", "kafka",
]  # fmt: skip
REFUSED = "refuses this user (TransactionalIdAuthorizationFailed"
NO_TRANSACTIONS = "A broker without transactions, such as Nisshi, refuses them too"
CASES = 33
HELD = {"topics_are_made_once"}
"""Cases of the contract that open no producer."""
SOON_S = 30.0
SUITE_S = 600.0


@pytest.fixture(scope="module", params=STORAGES)
def nisshi(request: pytest.FixtureRequest) -> Iterator[NisshiBroker]:
    with NisshiBroker(request.param) as broker:
        yield broker


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_an_application_says_that_it_needs_transactions(nisshi: NisshiBroker, tmp_path: Path, guarantee: str) -> None:
    topics, name = KafkaTopics(nisshi.bootstrap), guarantee.replace("_", "-")
    for topic in (f"{name}-in", f"{name}-out"):
        topics.create(topic, 2)
    topics.write(f"{name}-in", ["a b", "a"])
    began = time.monotonic()
    with pytest.raises(AuthorizationError) as refused:
        consume(make(nisshi.bootstrap, name, tmp_path, processing_guarantee=guarantee))
    assert time.monotonic() - began < SOON_S
    assert REFUSED in refused.value.message
    assert topics.read(f"{name}-out") == []


def outcomes(output: str) -> dict[str, str]:
    """What the test program printed about each case that failed, and an empty text for the others."""
    passed = dict.fromkeys(re.findall(r"^test (\S+) \.\.\. ok$", output, re.MULTILINE), "")
    parts = re.split(r"^---- (\S+) stdout ----$", output.partition("\nfailures:\n")[2], flags=re.MULTILINE)[1:]
    return passed | dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("client", ["contract_on_kafka", "contract_through_librdkafka"])
def test_the_contract_ends_with_what_to_do(nisshi: NisshiBroker, client: str) -> None:
    variables = os.environ | {"STOATFLOW_TEST_BOOTSTRAP": nisshi.bootstrap, "RUST_BACKTRACE": "0"}
    command = [*SUITE, f"{client}::"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=SUITE_S)
    said = {name.removeprefix(f"{client}::"): text for name, text in outcomes(done.stdout).items()}
    assert len(said) == CASES, done.stdout + done.stderr
    assert {name for name, text in said.items() if not text} == HELD
    others = {name: text for name, text in said.items() if name not in HELD}
    wrong = {name: text for name, text in others.items() if REFUSED not in text or NO_TRANSACTIONS not in text}
    assert not wrong
