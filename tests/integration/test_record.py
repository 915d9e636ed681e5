"""`stoatflow record` on real Kafka: committed records, with their headers, between transaction markers."""

from __future__ import annotations

from pathlib import Path

import pytest
from topics import KafkaTopics

from stoatflow._runtime import bridge
from stoatflow.cli import main
from stoatflow.prove import inputs
from stoatflow.prove.inputs import InputRecord

BEGIN = 1_769_860_800_000


def test_records_of_two_partitions(
    kafka: KafkaTopics, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create(name, 2)
    client = bridge.TopicsClient([("application.id", "test"), ("bootstrap.servers", kafka.address)])
    writer = client.writer(f"{name}-by-hand")
    for number in range(40):
        writer.begin()
        headers = [("trace", b"%d" % number), ("empty", None)]
        writer.send([(name, number % 2, b"k%d" % number, b"\xff%d" % number, BEGIN + number, headers)])
        # Every fourth one is aborted.
        if number % 4 == 3:
            writer.flush()
            writer.abort()
        else:
            assert writer.commit()
    out = tmp_path / "out.jsonl"
    command = ["record", "--bootstrap", kafka.address, "--topic", name, "--out", str(out)]

    def recorded(*more: str) -> list[int]:
        assert main([*command, *more]) == 0
        found = inputs.read(out, lambda topic: None)
        numbers = [one.timestamp - BEGIN for one in found if isinstance(one, InputRecord)]
        assert found == [
            InputRecord(name, b"k%d" % n, b"\xff%d" % n, BEGIN + n, (("trace", b"%d" % n), ("empty", None)))
            for n in numbers
        ]
        return numbers

    committed = [number for number in range(40) if number % 4 != 3]
    assert recorded() == committed
    assert f"{len(committed)} record(s) of '{name}'" in capsys.readouterr().out
    assert recorded("--records", "7") == committed[:7]
    # Markers and aborted records have offsets too, so it looks further back for seven records.
    assert recorded("--records", "7", "--last") == committed[-7:]
