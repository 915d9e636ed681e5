"""`/debug/threads` shows where Python is, `/debug/barriers` what each lane did at the end of each epoch."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import stoatflow as sf
from admin_apps import application, runs
from concurrency import until
from hanging import Hanging
from http_calls import ask


def test_a_lane_shows_the_line_that_its_function_runs(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    release, inside = threading.Event(), threading.Event()

    def waits_for_a_service(value: str) -> str:
        inside.set()
        release.wait(60)  # the line that is shown
        return value

    builder.stream("in", key=str, value=str).map_values(waits_for_a_service).to("out", key=str, value=str)
    app = application(tmp_path, builder)
    with app, sf.EmbeddedBroker(tmp_path / "broker") as broker:
        runs(app)
        broker.produce("in", "a", "first")
        assert inside.wait(30)
        shown = ask(app.admin_url, "/debug/threads").json()
        (lane,) = [lane for lane in shown["lanes"] if lane["call"]]
        (frame,) = [frame for frame in lane["stack"] if frame["function"] == "waits_for_a_service"]
        assert frame["code"] == "release.wait(60)  # the line that is shown"
        assert frame["file"] == __file__
        assert lane["stack"][-1]["function"] in {"wait", "acquire"}, "the innermost call is the last one"
        python = shown["python"]
        assert python["available"] is True
        by_name = {thread["name"]: thread for thread in python["threads"]}
        assert by_name["MainThread"]["lane"] is None
        assert by_name["MainThread"]["stack"][-1]["function"]
        assert [thread["lane"] for thread in python["threads"] if thread["lane"] is not None] == [lane["lane"]] or len(
            [thread for thread in python["threads"] if thread["lane"] == lane["lane"]]
        ) == 1
        release.set()
        app.wait_until(caught_up=True)


HOLDS = """
import ctypes
def fn(value):
    print("hangs", flush=True)
    print(app.admin_url, flush=True)
    ctypes.PyDLL(None).sleep(10)
    return value
"""


def test_while_a_function_holds_the_interpreter_there_are_no_stacks(tmp_path: Path) -> None:
    with Hanging(tmp_path, HOLDS, settings={"admin.listen": "127.0.0.1:0"}) as child:
        url = child.line()
        for _ in range(5):
            began = time.monotonic()
            shown = ask(url, "/debug/threads").json()
            assert time.monotonic() - began < 2
            assert shown["python"]["available"] is False
            assert "lets no thread in" in shown["python"]["reason"]
            (busy,) = [lane for lane in shown["lanes"] if lane["call"]]
            assert busy["call"]["function"].endswith("fn")
            assert busy["stack"] is None
        names = [thread["name"] for thread in shown["threads"]]
        assert names.count("stoatflow-stacks"[:15]) == 1, "one thread waits, however often it is asked"
        assert ask(url, "/health/live").status == 200
        until(lambda: ask(url, "/debug/threads").json()["python"]["available"] is True)


def test_barriers_show_each_lane_of_each_epoch(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()

    def slow(value: str) -> str:
        time.sleep(0.2)
        return value

    stream = builder.stream("in", key=str, value=str).map_values(slow)
    stream.group_by(lambda key, value: value, key=str).count(store="counts").to_stream().to("out", key=str, value=int)
    app = application(tmp_path, builder, **{"commit.interval.ms": 50})
    with app, sf.EmbeddedBroker(tmp_path / "broker") as broker:
        runs(app)
        broker.produce("in", "a", "first")
        app.wait_until(caught_up=True)
        shown = ask(app.admin_url, "/debug/barriers").json()
        with_records = [epoch for epoch in shown["recent"] if epoch["records"]]
        assert with_records
        for epoch in with_records:
            assert [lane["lane"] for lane in epoch["lanes"]] == [0, 1]
            for lane in epoch["lanes"]:
                times = [lane["reached_us"], lane["passed_us"], lane["aligned_us"], lane["sealed_us"]]
                assert times == sorted(times)
                assert lane["sealed_us"] <= epoch["align_us"]
            steps = [step["step"] for step in epoch["steps"]]
            assert {"flush", "offsets", "commit", "apply"} <= set(steps)
            timed = sum(step["us"] for step in epoch["steps"])
            assert timed == epoch["commit_us"] + epoch["apply_us"]
        # One lane ran the slow function: it reached the barrier late, and the other waited for it.
        reached = [max(lane["reached_us"] for lane in epoch["lanes"]) for epoch in with_records]
        waited = [max(lane["aligned_us"] - lane["passed_us"] for lane in epoch["lanes"]) for epoch in with_records]
        assert max(reached) > 20_000, (reached, waited)
