"""Health checks of an application: readiness follows their last results, and never waits for them."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

import stoatflow as sf
from admin_apps import TOKEN, application, becomes, ready, runs, slowest_of_live
from concurrency import until
from hanging import Hanging
from http_calls import ask

FAST = "50ms"


def test_a_failing_check_makes_it_not_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    app = application(tmp_path)
    healthy = threading.Event()

    @app.health_check("database", interval=FAST, timeout="20s")
    def database() -> None:
        if not healthy.is_set():
            raise ConnectionError("the database refuses")

    with app:
        runs(app)
        answer = becomes(app, 503).json()
        until(lambda: ready(app).json().get("reason") == "health_check" and "refuses" in ready(app).text)
        answer = ready(app).json()
        assert answer["detail"] == "the health check 'database' fails: ConnectionError: the database refuses"
        assert answer["next_step"]
        (check,) = answer["checks"]
        assert (check["name"], check["status"], check["required"]) == ("database", "failing", True)
        assert ask(app.admin_url, "/health/live").status == 200
        metrics = ask(app.admin_url, "/metrics").text
        assert 'stoatflow_health_check_passing{application_id="app",check="database"} 0' in metrics
        assert 'stoatflow_not_ready{application_id="app",reason="health_check"} 1' in metrics
        healthy.set()
        answer = becomes(app, 200).json()
        assert answer["checks"][0]["status"] == "passing"
        assert answer["checks"][0]["calls"] > answer["checks"][0]["failures"] > 0
        metrics = ask(app.admin_url, "/metrics").text
        assert 'stoatflow_health_check_passing{application_id="app",check="database"} 1' in metrics
        assert 'stoatflow_health_check_age_seconds{application_id="app",check="database"' in metrics
    assert caplog.text.count("the health check database fails") == 1, "logged at the change, not at each call"
    assert "the health check database passes again" in caplog.text


def test_a_check_that_hangs_has_timed_out_and_blocks_nothing(tmp_path: Path) -> None:
    app = application(tmp_path)
    release, hangs = threading.Event(), threading.Event()

    @app.health_check("hangs", interval=FAST, timeout="100ms")
    def hung() -> None:
        if not release.is_set():
            hangs.set()
            release.wait(60)

    @app.health_check(interval=FAST, timeout="20s")
    def other() -> bool:
        return True

    with app:
        runs(app)
        assert hangs.wait(30)
        until(lambda: "timed_out" in ready(app).text)
        began = time.monotonic()
        answer = ready(app)
        assert time.monotonic() - began < 5
        assert answer.status == 503
        by_name = {check["name"]: check for check in answer.json()["checks"]}
        assert by_name["hangs"]["running_ms"] > 100
        assert "has not returned for" in by_name["hangs"]["detail"]
        until(lambda: ready(app).json()["checks"][1]["status"] == "passing")
        release.set()
        becomes(app, 200)


def test_an_async_check_is_cancelled_at_its_timeout(tmp_path: Path) -> None:
    app = application(tmp_path)
    cancelled = threading.Event()

    @app.health_check("slow", interval=FAST, timeout="50ms")
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @app.health_check("quick", interval=FAST, timeout="20s")
    async def quick() -> bool:
        await asyncio.sleep(0)
        return True

    with app:
        runs(app)
        assert cancelled.wait(30)
        until(lambda: "has not ended within 0.05 s" in ready(app).text)
        until(lambda: ready(app).json()["checks"][1]["status"] == "passing")


def test_a_check_that_is_not_required_is_only_shown(tmp_path: Path) -> None:
    app = application(tmp_path)

    @app.health_check("cache", interval=FAST, timeout="20s", required=False)
    def cache() -> bool:
        return False

    with app:
        runs(app)
        until(lambda: ready(app).json()["checks"][0]["status"] == "failing")
        answer = ready(app)
        assert answer.status == 200
        assert answer.json()["checks"][0]["detail"] == "it returned False"


def test_any_other_result_is_a_failure(tmp_path: Path) -> None:
    app = application(tmp_path)

    @app.health_check("odd", interval=FAST, timeout="20s")
    def odd() -> str:
        return "fine"

    with app:
        runs(app)
        until(lambda: "return True or None" in ready(app).text)


def test_details_need_the_token(tmp_path: Path) -> None:
    app = application(tmp_path, **{"admin.token": TOKEN})

    @app.health_check("database", interval=FAST, timeout="20s")
    def database() -> None:
        raise ConnectionError("secret host")

    with app:
        runs(app)
        until(lambda: "secret host" in ask(app.admin_url, "/health/ready", token=TOKEN).text)
        public = ready(app)
        assert public.status == 503
        assert public.json() == {"ready": False, "reason": "health_check", "state": "RUNNING"}


def test_a_check_may_be_added_while_it_runs_and_ends_with_it(tmp_path: Path) -> None:
    app = application(tmp_path)
    calls: list[str] = []
    with app:
        runs(app)
        assert ready(app).json() == {"ready": True, "state": "RUNNING"}

        @app.health_check("late", interval=FAST, timeout="20s")
        def late() -> None:
            calls.append(threading.current_thread().name)

        until(lambda: len(calls) > 2)
        assert ready(app).json()["checks"][0]["name"] == "late"
    until(lambda: not any(thread.name == "stoatflow-check-late" for thread in threading.enumerate()))
    assert set(calls) == {"stoatflow-check-late"}


def test_what_is_refused(tmp_path: Path) -> None:
    app = application(tmp_path)
    app.health_check("known")(lambda: None)
    refused = [
        (lambda: app.health_check("known")(lambda: None), "already"),
        (lambda: app.health_check("a b")(lambda: None), "no name"),
        (lambda: app.health_check("zero", timeout=0), "timeout"),
        (lambda: app.health_check("zero", interval="0s"), "interval"),
        (lambda: app.health_check("app")(lambda app: None), "parameters"),
        (lambda: app.health_check("no")(None), "not a function"),  # type: ignore[type-var]
    ]
    for add, said in refused:
        with pytest.raises(sf.ConfigError, match=said):
            add()


HOLDS = """
import ctypes
def fn(value):
    app.admin_url and print(app.admin_url, flush=True)
    ctypes.PyDLL(None).sleep(10)
    return value
"""
CHECKED = """
@app.health_check("database", interval="100ms", timeout="1s")
def database():
    return True

def start():
    app.wait_until("RUNNING")
    time.sleep(1)
    print("hangs", flush=True)
    broker.produce_many("in", [(None, b"a", b"second", 1)])
import threading
threading.Thread(target=start, daemon=True).start()
app.run()
"""


def test_liveness_answers_at_once_while_a_function_holds_the_interpreter(tmp_path: Path) -> None:
    """For 10 s; the check can't be called meanwhile, and readiness says so."""
    settings = {"admin.listen": "127.0.0.1:0"}
    functions = HOLDS.replace("def fn(value):", "def fn(value):\n    if value != 'second': return value")
    with Hanging(tmp_path, functions, run=CHECKED, settings=settings) as child:
        url = child.line()
        assert slowest_of_live(url, 8) < 0.05
        said = {check["status"] for check in ask(url, "/health/ready").json()["checks"]}
        assert said & {"timed_out", "overdue"}, said
