"""Who may use the admin port: tokens, TLS, certificates, malformed requests."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stoatflow as sf
from certificates import Authority
from concurrency import until
from http_calls import ask
from stoatflow import ConfigError, EmbeddedBroker, State, StoatFlow

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as made:
        made.create_topic("in", 1)
        made.produce("in", b"a", b"secret", 5)
        yield made


def application(broker: EmbeddedBroker, folder: Path, **given: object) -> StoatFlow:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=str, store=sf.Materialized("rows", key=str, value=str))
    config = {"application.id": "guarded", "state.dir": str(folder), "lanes.count": 1, **given}
    return StoatFlow(builder.build(), sf.Settings(config, environ={}), broker=broker)


def runs(app: StoatFlow) -> None:
    until(lambda: app.state is State.ERROR or (app.state is State.RUNNING and app.lag() == 0))
    assert app.error is None


def test_a_token_guards_all_but_health(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with application(broker, tmp_path, **{"admin.token": TOKEN}) as app:
        runs(app)
        refused = ask(app.admin_url, "/stores/rows/a")
        assert (refused.status, refused.json()["type"]) == (401, "urn:stoatflow:unauthorized")
        assert "secret" not in refused.text
        assert ask(app.admin_url, "/stores/rows/a", token=TOKEN[:-1]).status == 401
        assert ask(app.admin_url, "/stores/rows/a", token=TOKEN).json()["value"] == "secret"
        assert ask(app.admin_url, "/health/ready").status == 200
        assert TOKEN not in ask(app.admin_url, "/config", token=TOKEN).text


def test_tls_and_certificates_of_clients(broker: EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    certificate, key = own.issue("server")
    given = {"admin.ssl.certificate": certificate, "admin.ssl.key": key, "admin.ssl.ca": own.ca, "admin.token": TOKEN}
    with application(broker, tmp_path / "state", **given) as app:
        runs(app)
        url = app.admin_url
        assert url is not None
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(own.ca))
        # A health check has neither token nor certificate.
        assert ask(url, "/health/live", tls=trusting).status == 200
        assert ask(url, "/stores", tls=trusting).status == 401
        assert ask(url, "/stores", tls=trusting, token=TOKEN).status == 200
        known = ssl.create_default_context(cafile=str(own.ca))
        known.load_cert_chain(*own.issue("client"))
        assert ask(url, "/stores/rows/a", tls=known).json()["value"] == "secret"
        stranger = ssl.create_default_context(cafile=str(own.ca))
        stranger.load_cert_chain(*other.issue("stranger"))
        with pytest.raises((ssl.SSLError, OSError)):
            ask(url, "/stores/rows/a", tls=stranger)
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(url, "/stores", tls=ssl.create_default_context(cafile=str(other.ca)))
        with pytest.raises((OSError, Exception), match=r".*"):
            ask(url.replace("https", "http"), "/stores", token=TOKEN)
        assert ask(url, "/stores", tls=trusting, token=TOKEN).status == 200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"admin.token": "short"}, ["16", "secrets.token_urlsafe"]),
        ({"admin.token": "0123456789abcde\n0"}, ["admin.token"]),
        ({"admin.ssl.key": "x.key"}, ["admin.ssl.key needs admin.ssl.certificate"]),
        ({"admin.ssl.ca": "ca.pem"}, ["admin.ssl.ca needs admin.ssl.certificate"]),
        ({"admin.max.connections": 1}, ["admin.max.connections"]),
    ],
)
def test_wrong_settings_are_refused(
    broker: EmbeddedBroker, tmp_path: Path, given: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        application(broker, tmp_path, **given)
    for word in words:
        assert word in str(raised.value)
    assert "0123456789abcde" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"admin.listen": "0.0.0.0:0"}, ["admin.listen", "admin.token", "admin.open=true", "127.0.0.1"]),
        ({"admin.token": "file:/there/is/none"}, ["admin.token = file:/there/is/none"]),
        ({"admin.ssl.certificate": "/no.pem", "admin.ssl.key": "/no.key"}, ["/no.pem", "admin.ssl.certificate"]),
    ],
)
def test_a_port_that_is_not_safe_is_not_opened(
    broker: EmbeddedBroker, tmp_path: Path, given: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised, application(broker, tmp_path, **given) as app:
        app.wait(60)
    for word in words:
        assert word in str(raised.value)


def test_other_machines_are_let_in_with_a_token(broker: EmbeddedBroker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    with application(broker, tmp_path / "a", **{"admin.listen": "0.0.0.0:0", "admin.token": f"file:{token}"}) as app:
        runs(app)
        assert ask(app.admin_url, "/stores", token=TOKEN, headers={"Host": "shop.example"}).status == 200
        assert ask(app.admin_url, "/stores", headers={"Host": "shop.example"}).status == 401


@pytest.fixture(scope="module")
def guarded(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoatFlow]:
    with application(broker, tmp_path_factory.mktemp("state"), **{"admin.token": TOKEN}) as app:
        runs(app)
        yield app


WORDS = st.sampled_from(["/", "//", "..", "%", "%2f", "%00", "%ff", "?", "&", "=", ";", "stores", "rows", "a", "from"])
PARTS = st.one_of(
    WORDS,
    st.sampled_from(
        ["limit=", "cursor=", "at_least=in:0:1", "timeout_ms=0", "key_format=base64", "reverse", "-", "9" * 30]
    ),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
PATHS = st.lists(PARTS, max_size=12).map(lambda parts: "/stores/" + "".join(parts))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, method=METHODS, known=st.booleans())
def test_every_request_gets_a_response(guarded: StoatFlow, path: str, method: str, known: bool) -> None:
    raw = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    raw += f"Authorization: Bearer {TOKEN}\r\n\r\n" if known else "\r\n"
    answer = sent(guarded.admin_url, raw.encode())
    status = int(answer.split(b" ", 2)[1])
    assert status in {200, 400, 401, 404, 405}, answer
    if not known:
        assert status in {400, 401}, answer
        assert b"secret" not in answer
        assert b"rows" not in answer.split(b"\r\n\r\n", 1)[-1]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(min_size=1, max_size=200))
def test_malformed_requests_do_no_harm(guarded: StoatFlow, noise: bytes) -> None:
    answer = sent(guarded.admin_url, noise + b"\r\n\r\n", ends=True)
    assert b"secret" not in answer
    assert guarded.state is State.RUNNING


def test_the_port_survives_everything_above(guarded: StoatFlow) -> None:
    assert ask(guarded.admin_url, "/stores/rows/a", token=TOKEN).json()["value"] == "secret"


def sent(url: str | None, raw: bytes, *, ends: bool = False) -> bytes:
    """Everything returned for these bytes; `ends` closes the sending side."""
    to = urlsplit(str(url))
    with socket.create_connection((str(to.hostname), int(to.port or 0)), timeout=60) as stream:
        answer = b""
        try:
            stream.sendall(raw)
            if ends:
                stream.shutdown(socket.SHUT_WR)
            while part := stream.recv(65_536):
                answer += part
        except ConnectionError:
            pass  # it has closed, with or without an answer
        return answer
