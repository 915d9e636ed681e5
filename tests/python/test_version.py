"""The versions in the wheel, and the client that an application uses."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.cli import main

ROOT = Path(__file__).resolve().parents[2]


def locked(crate: str) -> str:
    """The version of a crate, from the lock file."""
    lines = (ROOT / "Cargo.lock").read_text("utf-8").splitlines()
    return lines[lines.index(f'name = "{crate}"') + 1].split('"')[1]


@pytest.mark.parametrize("order", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_verbose_has_all_versions(order: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(order) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"stoatflow {sf.__version__}\n")
    rows = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in printed.splitlines()[1:]}
    assert rows["engine"] == sf.__version__
    assert rows["RocksDB"] == locked("librocksdb-sys").rpartition("+")[2]
    assert rows["TLS"] == f"rustls {locked('rustls')} with ring {locked('ring')}"
    assert rows["native client"] == f"kafka-protocol {locked('kafka-protocol')}"
    assert locked("rdkafka-sys").rpartition("+")[2] == rows["librdkafka"]
    assert {"lz4", "ssl", "sasl_scram"} <= set(rows["librdkafka features"].split(","))
    assert "CPython 3.10" in rows["Python ABI"]
    assert rows["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")


def test_the_version_alone_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "stoatflow", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"stoatflow {sf.__version__}\n"


def test_info_of_an_embedded_application() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("a").to("b")
    with sf.EmbeddedBroker() as broker:
        for topic in ("a", "b"):
            broker.create_topic(topic, 1)
        with sf.StoatFlow(builder.build(), {"application.id": "shown"}, broker=broker) as app:
            while app.admin_url is None:
                assert not app.wait(0.05)
            with urllib.request.urlopen(f"{app.admin_url}info", timeout=60) as answer:  # noqa: S310  # loopback
                info = json.load(answer)
    assert info["application_id"] == "shown"
    assert info["client"]["name"] == "none"
    assert info["built_with"]["engine"] == info["version"] == sf.__version__
    assert info["uptime_ms"] >= 0
    assert info["host"]
    assert info["pid"] > 0
    assert info["python"].startswith(f"{sys.version_info.major}.")


PROGRAM = """
import sys
import stoatflow as sf
builder = sf.StreamsBuilder()
builder.stream("a").to("b")
config = {"application.id": "a", "bootstrap.servers": "b:1"} | dict(pair.split("=") for pair in sys.argv[1:])
sf.StoatFlow(builder.build(), config)
"""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([], "is native: it knows all properties that are set"),
        (["kafka.client=native"], "is native: kafka.client = native"),
        (["kafka.client=librdkafka"], "is librdkafka: kafka.client = librdkafka"),
        (["debug=security"], "is librdkafka: only it knows debug"),
    ],
)
def test_the_client_and_the_reason_are_in_the_log(settings: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *settings],
        env={"RUST_LOG": "info"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"the client of this application {message}" in done.stderr
