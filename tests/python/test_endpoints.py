"""Endpoints of an application at its admin port: routes, answers, errors, deadlines, access."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import stoatflow as sf
from admin_apps import TOKEN, application, runs, slowest_of_live
from hanging import Hanging
from http_calls import Answer, ask


def send(url: str | None, method: str, path: str, body: bytes) -> Answer:
    """Send a request with a body."""
    connection = http.client.HTTPConnection(str(urlsplit(str(url)).netloc), timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
    finally:
        connection.close()


def test_a_function_answers(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=str, store="users")
    app = application(tmp_path, builder)
    threads: set[str] = set()

    @app.endpoint("GET", "/users/{name}")
    def user(request: sf.HttpRequest) -> object:
        """Return a user.

        More about it.
        """
        threads.add(threading.current_thread().name)
        found = app.store("users").get(request.parameters["name"])
        if found is None:
            raise sf.HttpError(404, f"there is no user {request.parameters['name']}", "ask for another")
        return {"name": found, "full": request.query.get("full"), "tags": request.query_values("tag")}

    @app.endpoint("GET", "/users/count")
    def count() -> str:
        return "one"

    @app.endpoint("POST", "/users")
    async def add(request: sf.HttpRequest) -> sf.HttpResponse:
        await asyncio.sleep(0)
        return sf.HttpResponse({"added": request.json()}, status=201)

    with app, sf.EmbeddedBroker(tmp_path / "broker") as broker:
        runs(app)
        broker.produce("in", "ann b", "Ann")
        app.wait_until(caught_up=True)
        answer = ask(app.admin_url, "/app/users/ann%20b", full="yes")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == {"name": "Ann", "full": "yes", "tags": []}
        assert threads == {"stoatflow-endpoints"}
        missing = ask(app.admin_url, "/app/users/bob")
        assert (missing.status, missing.json()["detail"]) == (404, "there is no user bob")
        assert missing.json()["next_step"] == "ask for another"
        counted = ask(app.admin_url, "/app/users/count")
        assert (counted.text, counted.headers["content-type"]) == ("one", "text/plain; charset=utf-8")
        added = send(app.admin_url, "POST", "/app/users", b'{"id": 7}')
        assert (added.status, added.json()) == (201, {"added": {"id": 7}})
        wrong = send(app.admin_url, "POST", "/app/users", b"{")
        assert (wrong.status, wrong.json()["type"]) == (400, "urn:stoatflow:refused")
        assert send(app.admin_url, "POST", "/app/users", b"x" * 70_000).status == 413
        refused = ask(app.admin_url, "/app/users", method="DELETE")
        assert (refused.status, refused.json()["allowed"], refused.headers["allow"]) == (405, ["POST"], "POST")
        assert "GET" in ask(app.admin_url, "/topology", method="POST").headers["allow"]
        assert ask(app.admin_url, "/app/none").status == 404
        listed = ask(app.admin_url, "/app").json()["endpoints"]
        assert [(one["method"], one["path"]) for one in listed] == [
            ("GET", "/app/users/{name}"),
            ("GET", "/app/users/count"),
            ("POST", "/app/users"),
        ]
        assert listed[0]["summary"] == "Return a user."
        described = ask(app.admin_url, "/openapi.json").json()
        assert described["paths"]["/app/users/{name}"]["get"]["summary"] == "Return a user."


@pytest.mark.parametrize(
    ("result", "status", "kind", "body"),
    [
        (None, 204, None, ""),
        ("é", 200, "text/plain; charset=utf-8", "é"),
        (b"raw", 200, "application/octet-stream", "raw"),
        ([1, None, "é"], 200, "application/json", '[1, null, "é"]'),
        (7, 200, "application/json", "7"),
        (True, 200, "application/json", "true"),
        (sf.JsonObject.parse('{"a": [1]}'), 200, "application/json", '{"a": [1]}'),
        (sf.HttpResponse("a,b", content_type="text/csv"), 200, "text/csv", "a,b"),
        (sf.HttpResponse(status=202), 202, "text/plain; charset=utf-8", ""),
    ],
    ids=str,
)
def test_forms_of_answers(tmp_path: Path, result: object, status: int, kind: str | None, body: str) -> None:
    app = application(tmp_path)
    app.endpoint("GET", "/it")(lambda: result)
    with app:
        runs(app)
        answer = ask(app.admin_url, "/app/it")
        assert (answer.status, answer.text) == (status, body)
        assert kind is None or answer.headers["content-type"] == kind
        assert answer.headers["content-security-policy"].startswith("sandbox")
        assert answer.headers["cache-control"] == "no-store"


def test_an_exception_is_an_answer_and_the_next_request_works(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = application(tmp_path)

    class WordlessError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    results: dict[str, Callable[[], Any]] = {
        "raises": lambda: {}["key"],
        "wordless": lambda: (_ for _ in ()).throw(WordlessError()),
        "exits": lambda: (_ for _ in ()).throw(SystemExit(3)),
        "not-json": object,
        "nan": lambda: float("nan"),
        "works": lambda: "still here",
    }
    for name, call in results.items():
        app.endpoint("GET", f"/{name}")(call)
    with app:
        runs(app)
        for name in results:
            answer = ask(app.admin_url, f"/app/{name}")
            if name == "works":
                assert (answer.status, answer.text) == (200, "still here")
            else:
                assert (answer.status, answer.json()["type"]) == (500, "urn:stoatflow:failed"), name
        assert "KeyError: 'key'" in ask(app.admin_url, "/app/raises").text
    assert "the endpoint GET /app/raises failed" in caplog.text
    assert "Traceback" in caplog.text


def test_a_slow_function_is_given_up_and_others_are_busy(tmp_path: Path) -> None:
    app = application(tmp_path)
    release, begun = threading.Event(), threading.Event()

    @app.endpoint("GET", "/slow", timeout="500ms")
    def slow() -> str:
        begun.set()
        release.wait(60)
        return "late"

    calls: list[int] = []

    @app.endpoint("GET", "/quick", timeout="500ms")
    def quick() -> str:
        calls.append(1)
        return "quick"

    with app, ThreadPoolExecutor(40) as pool:
        runs(app)
        slowly = pool.submit(ask, app.admin_url, "/app/slow")
        assert begun.wait(30)
        answers = list(pool.map(lambda _: ask(app.admin_url, "/app/quick"), range(30)))
        assert {answer.status for answer in answers} == {503}
        assert all(answer.headers["retry-after"] == "1" for answer in answers)
        texts = {answer.json()["detail"].split(":")[0] for answer in answers}
        assert "too many requests to the application wait" in texts, texts
        assert any("didn't begin" in text for text in texts), texts
        assert slowly.result().status == 504
        assert ask(app.admin_url, "/health/live").status == 200
        release.set()
        deadline = time.monotonic() + 30
        while (answer := ask(app.admin_url, "/app/quick")).status == 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert answer.text == "quick"
        assert len(calls) <= 3, "requests that were given up are not called later"


def test_an_async_function_is_cancelled_at_its_timeout(tmp_path: Path) -> None:
    app = application(tmp_path)
    cancelled = threading.Event()

    @app.endpoint("GET", "/slow", timeout="300ms")
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @app.endpoint("GET", "/quick")
    async def quick() -> str:
        return "quick"

    with app:
        runs(app)
        assert ask(app.admin_url, "/app/slow").status in {500, 504}
        assert cancelled.wait(30)
        assert ask(app.admin_url, "/app/quick").text == "quick"


def test_they_need_the_token(tmp_path: Path) -> None:
    app = application(tmp_path, **{"admin.token": TOKEN})
    seen: list[sf.HttpRequest] = []

    @app.endpoint("GET", "/me")
    def me(request: sf.HttpRequest) -> str:
        seen.append(request)
        return "me"

    with app:
        runs(app)
        for path in ("/app", "/app/me", "/app/none"):
            assert ask(app.admin_url, path).status == 401
        assert not seen
        headers = {"Cookie": "a=b", "X-Trace": "1"}
        assert ask(app.admin_url, "/app/me", token=TOKEN, headers=headers).text == "me"
        assert seen[0].headers["x-trace"] == "1"
        assert not {"authorization", "cookie"} & set(seen[0].headers)


def test_a_page_of_another_site_can_not_post(tmp_path: Path) -> None:
    app = application(tmp_path)
    app.endpoint("POST", "/do")(lambda: "done")
    with app:
        runs(app)
        answer = ask(app.admin_url, "/app/do", method="POST", headers={"Origin": "http://elsewhere.example"})
        assert answer.status == 403
        assert ask(app.admin_url, "/app/do", method="POST").text == "done"


def test_what_is_refused(tmp_path: Path) -> None:
    app = application(tmp_path)
    app.endpoint("GET", "/a/{x}")(lambda: None)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: app.endpoint("GET", "/a/{y}")(lambda: None), "same requests"),
        (lambda: app.endpoint("get", "/b")(lambda: None), "method"),
        (lambda: app.endpoint("GET", "b")(lambda: None), "path"),
        (lambda: app.endpoint("GET", "/b", timeout="2m")(lambda: None), "timeout"),
        (lambda: app.endpoint("GET", "/b", timeout=0), "timeout"),
        (lambda: app.endpoint("GET", "/b")(lambda one, two: None), "parameters"),
        (lambda: app.endpoint("GET", "/b")(3), "not a function"),  # type: ignore[type-var]
    ]
    for add, said in refused:
        with pytest.raises(sf.ConfigError, match=said):
            add()
    with pytest.raises(ValueError, match="status"):
        sf.HttpResponse(status=100)
    with pytest.raises(ValueError, match="content_type"):
        sf.HttpResponse(content_type="text/html\r\nX: y")
    with pytest.raises(ValueError, match="400"):
        sf.HttpError(200, "fine")


HOLDS = """
import ctypes
def fn(value):
    return value
"""
ASKED = """
@app.endpoint("GET", "/hold", timeout="1s")
def hold():
    ctypes.PyDLL(None).sleep(10)

def tell():
    app.wait_until("RUNNING")
    print("hangs", flush=True)
    print(app.admin_url, flush=True)
import threading
threading.Thread(target=tell, daemon=True).start()
app.run()
"""


def test_liveness_answers_at_once_while_an_endpoint_holds_the_interpreter(tmp_path: Path) -> None:
    """For 10 s; the endpoint's own client gets its 504 after one."""
    settings = {"admin.listen": "127.0.0.1:0"}
    with Hanging(tmp_path, HOLDS, run=ASKED, settings=settings) as child, ThreadPoolExecutor(1) as pool:
        url = child.line()
        held = pool.submit(ask, url, "/app/hold")
        assert slowest_of_live(url, 8) < 0.05
        assert held.result().status == 504
        assert ask(url, "/app/hold").status in {503, 504}
