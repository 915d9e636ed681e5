"""A broker that advertises an address that can't be reached: exit code, sentence, and within the wait for a broker."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from broker.kafka_broker import KafkaBroker
from counting import make
from processes import run_with
from topics import KafkaTopics

import stoatflow as sf

BUDGET_MS = 8000
# Beyond the budget: what a busy machine takes to start and to end.
GRACE_S = 60.0


def test_an_unreachable_advertised_address_is_named(name: str, tmp_path: Path) -> None:
    with socket.socket() as held:
        # Bound and not listening: connections are refused.
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with KafkaBroker(proxied=port) as broker:
            KafkaTopics(broker.bootstrap).create(f"{name}-in", 1)
            address = f"127.0.0.1:{broker.behind_proxy}"
            app = make(address, name, tmp_path / "own", broker_wait_timeout_ms=BUDGET_MS)
            began = time.monotonic()
            app.start()
            try:
                app.wait(BUDGET_MS / 1000 + GRACE_S)
            except sf.StoatFlowError as raised:
                error = raised
            else:
                raise AssertionError("it should have failed")
            finally:
                app.close()
            assert time.monotonic() - began < BUDGET_MS / 1000 + GRACE_S
            client = {"bootstrap.servers": address, "broker.wait.timeout.ms": BUDGET_MS}
            code, errors = run_with(tmp_path, name, client)
    assert isinstance(error, sf.BrokerUnavailableError), repr(error)
    for text in (str(error), errors):
        assert f"advertises the address 127.0.0.1:{port}" in text, text
        assert "advertised.listeners" in text, text
    assert code == 1, errors
    assert "Traceback" not in errors, errors
