"""Runs the originals again, in environments with their libraries: their outputs are as recorded."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from ports import originals
from ports.cases import Case, by_key, every, without_times
from ports.environments import interpreter
from stoatflow.cli import main


@pytest.mark.parametrize("case", every("bytewax"), ids=lambda case: case.program)
def test_bytewax_matches_its_recording(case: Case) -> None:
    same(case, originals.run(case, None))


@pytest.mark.parametrize("case", [*every("faust"), *every("quix")], ids=lambda case: f"{case.library}-{case.program}")
def test_faust_and_quix_match_their_recordings(case: Case, kafka: Any) -> None:
    same(case, originals.run(case, kafka))


def same(case: Case, run: tuple[str, Any]) -> None:
    version, outputs = run
    assert case.recorded["version"] == version
    assert by_key(case.recorded["outputs"]) == by_key(outputs), (
        f"{case.library} gives something else than outputs.json says. If it is right, write it down: "
        f"python tests/ports/record.py {case.library}/{case.program}"
    )


def test_a_changed_record_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("bytewax", "branch")
    run = originals.run(case, None)
    changed = {"version": run[0], "outputs": {"even": [[None, 3]]}}
    monkeypatch.setattr(Case, "recorded", property(lambda self: changed))
    with pytest.raises(AssertionError, match=r"record\.py bytewax/branch"):
        same(case, run)


APP = """
import runpy

topology = runpy.run_path({port!r})["topology"]()
"""


@pytest.mark.parametrize("case", [Case("quix", "purchase_filter"), Case("faust", "sink")], ids=lambda c: c.library)
def test_a_port_without_stores_goes_on_where_the_original_stopped(case: Case, kafka: Any, tmp_path: Path) -> None:
    app, config = tmp_path / "app.py", {"state.dir": str(tmp_path), "bootstrap.servers": kafka.address}
    app.write_text(APP.format(port=str(case.folder / "ported.py")), "utf-8")
    with originals.topics(case, kafka) as group:
        originals.write(case, kafka)
        originals.process(case, kafka, group)
        before = originals.written(case, kafka, group, timestamps=False)
        assert by_key(before) == by_key(without_times(case.recorded["outputs"]))
        originals.write(case, kafka)
        name = f"port-of-{group}"
        where = ["--application-id", name, "--bootstrap", kafka.address, "--state-dir", str(tmp_path)]
        command = ["import-offsets", str(app), "--from-group", group, *where, "--yes"]
        deadline = time.monotonic() + 120
        # A worker that did not leave its group is removed only after its session timeout.
        while (code := main(command)) == 4 and time.monotonic() < deadline:
            time.sleep(1)
        assert code == 0
        settings = sf.Settings(config | {"application.id": name}, environ={})
        with sf.StoatFlow(case.ported["topology"](), settings) as running:
            running.wait_until(caught_up=True, timeout="60s")
        after = originals.written(case, kafka, group, timestamps=False)
        # Each row is there twice: written once by the original and once by the port.
        assert by_key(after) == by_key({topic: rows + rows for topic, rows in before.items()})


def test_faust_has_no_joins_of_tables() -> None:
    # As the guide says.
    program = "import faust; faust.App('one', broker='kafka://none').Table('table').join()"
    ended = subprocess.run([str(interpreter("faust")), "-c", program], capture_output=True, text=True, check=False)
    assert "NotImplementedError" in ended.stderr
