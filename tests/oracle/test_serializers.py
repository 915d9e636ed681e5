"""Kafka's own serializers of lists and UUIDs: what was recorded of them is what they write and read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from conformance.kafka_streams import VERSION, asked

FILE = Path(__file__).parents[1] / "conformance" / "serializers.json"


def test_the_recorded_bytes_are_those_of_kafka() -> None:
    """With `STOATFLOW_TEST_RESULTS=write` the answers of the version that runs are recorded anew."""
    kept: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text("utf-8"))
    questions = [{name: one[name] for name in ("serde", "value")} for one in kept["written"]]
    questions += [{name: one[name] for name in ("serde", "hex")} for one in kept["read"]]
    answers = asked("Serializers", json.dumps(questions))
    count = len(kept["written"])
    found = {
        "written": [one | {"hex": answer} for one, answer in zip(kept["written"], answers[:count], strict=True)],
        "read": [
            one | {"answers": one.get("answers", {}) | {VERSION: answer}}
            for one, answer in zip(kept["read"], answers[count:], strict=True)
        ],
    }
    if os.environ.get("STOATFLOW_TEST_RESULTS") == "write":
        lines = {part: ",\n  ".join(json.dumps(one) for one in ones) for part, ones in found.items()}
        text = f'{{\n "written": [\n  {lines["written"]}\n ],\n "read": [\n  {lines["read"]}\n ]\n}}\n'
        FILE.write_text(text, "utf-8")
        return
    # Another version than the recorded ones must do as the newest of them.
    known = [one.get("answers", {}) for one in kept["read"]]
    wanted = [answers[VERSION if VERSION in answers else max(answers)] for answers in known]
    assert [one["hex"] for one in found["written"]] == [one["hex"] for one in kept["written"]]
    assert answers[count:] == wanted
