"""What must not be in a support archive: secrets in any form, and data of records."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from stoatflow.bundle.record_data import LEFT_OUT, log_without_data, metrics_without_data, without_data
from stoatflow.bundle.secrets import Secrets, is_secret
from stoatflow.settings import _SECRET_WORDS

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJoaWRkZW4ifQ.c2lnbmVk"


@pytest.mark.parametrize(
    "text",
    [
        "sasl.password=hidden",
        "sasl.password = hid;den,hid'den",
        'SASL_PASSWORD="hid den" and more',
        "{'sasl.password': 'hid den'}",
        '{"ssl.keystore.password" : "hid \\" den", "x": 1}',
        '2026-01-01 app[3]: {"config": {"sasl.jaas.config": "required password=\'hid den\';"}}',
        'sasl.jaas.config=org.apache.Plain required username="ann" password="hid;den";',
        '\\"admin.token\\": \\"hidden\\"',
        "schema.registry.basic.auth.user.info=ann:hidden",
        "ssl.key=hidden",
        "STOATFLOW_ADMIN_SSL_KEY: hidden",
        "aws_secret_access_key = hidden",
        "x-api-key: hidden",
        "https://ann:hidden@registry:8081/subjects",
        "https://ann:hid@den@registry/",
        "https://ann:hid/den@registry/",
        "https://hidden@registry/",
        "postgresql+psycopg://ann:hidden@db/orders",
        "Authorization: Bearer hidden",
        "sent Bearer hidden-in-text on",
        "GET / authorization=Basic hidden==",
        "Cookie: session=hidden; other=hidden",
        "stoatflow query --token hidden URL",
        "<password>hidden</password>",
        "password => hidden",
        "-----BEGIN RSA PRIVATE KEY-----\nhidden\nhidden\n-----END RSA PRIVATE KEY-----",
        '{"pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----\\nhidden\\n-----END ENCRYPTED PRIVATE KEY-----"}',
        "hidden==\nhidden\n-----END PRIVATE KEY-----",
    ],
)
def test_a_secret_is_recognized_by_name_or_form(text: str) -> None:
    shown = Secrets([]).text(f"what was\n{text}\nafter")
    assert "hid" not in shown
    assert "den" not in shown
    assert "***" in shown
    assert (shown.startswith("what was\n"), shown.endswith("\nafter")) == (True, True)


def test_an_oauth_token_is_recognized_by_form() -> None:
    assert Secrets([]).text(f"got {JWT} of the server") == "got *** of the server"


@pytest.mark.parametrize(
    "text",
    [
        '{"admin.token": {"value": "off", "source": "default"}}',
        "password=None",
        "http://127.0.0.1:8080/stores/a@b",
        "topic user-tokens, partition 3, offset 17",
        'stoatflow_node_records_total{application_id="app",node="check-password"} 3',
        '  File "/srv/app.py", line 3, in check_token',
        "the keys: 4, monkey=3",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert Secrets([("HOME", "/home/ann")]).text(text) == text


def test_values_of_secret_variables_are_hidden_everywhere() -> None:
    environment = [
        ("DB_PASSWORD", "correct horse"),
        ("REGISTRY", "https://ann:p%40ss-word@registry"),
        ("BASIC_AUTH_USER_INFO", "ann:of-the-registry"),
        ("JAAS", 'Plain required username="ann" password="in-jaas";'),
        ("PWD", "/home/ann"),
        ("A_TOKEN", "off"),
    ]
    secrets = Secrets(environment, ["given-otherwise", None])
    text = "a correct horse, p%40ss-word, of-the-registry, in-jaas, given-otherwise, correct%20horse in /home/ann, off"
    assert secrets.text(text) == "a ***, ***, ***, ***, ***, *** in /home/ann, off"
    assert secrets.data({"correct horse": ["in-jaas", 5, None]}) == {"***": ["***", 5, None]}


def test_data_and_command_lines() -> None:
    secrets = Secrets([])
    data = {"sasl": {"password": "x", "tokens": ["a", "b"]}, "admin.token": {"value": "y", "source": "code"}}
    assert secrets.data(data) == {
        "sasl": {"password": "***", "tokens": ["***", "***"]}, "admin.token": {"value": "***", "source": "code"},
    }  # fmt: skip
    words = ["run", "--token", "x", "--set", "sasl.password=y", "app.py"]
    assert secrets.arguments(words) == ["run", "--token", "***", "--set", "sasl.password=***", "app.py"]


def test_names_of_secrets_are_those_of_settings() -> None:
    assert [word for word in _SECRET_WORDS if not is_secret(f"some.{word}.name")] == []
    assert not is_secret("application.id")
    assert not is_secret("ssl.truststore.location")


def test_a_long_line_takes_no_time() -> None:
    began = time.monotonic()
    Secrets([]).text("a" * 500_000 + " " + "ab." * 100_000 + " " + "--" * 100_000 + ' "' * 100_000)
    assert time.monotonic() - began < 5


ERROR = {
    "kind": "user", "node": "n", "topic": "t", "offset": 3, "exception": "ValueError",
    "message": "the function raised ValueError: ann is bad",
    "traceback": "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\n    raise X('ann')\n"
    "ValueError: ann\n  is bad\n",
}  # fmt: skip


LETTER = {
    **ERROR, "key": {"content": "ann"}, "value": {"content": "ann"}, "headers": [{"name": "ann", "value": None}],
    "headers_left_out": 2,
}  # fmt: skip


def test_dead_letters_and_findings_keep_place_and_kind() -> None:
    (shown,) = without_data("dead-letters", {"letters": [LETTER]})["letters"]
    assert shown["traceback"].splitlines()[1] == '  File "/srv/app.py", line 3, in f'
    assert (shown["exception"], shown["offset"], shown["headers_left_out"]) == ("ValueError", 3, 2)
    lag = {"code": "lag_grows", "message": "9 records wait", "next_step": "see /top"}
    assert without_data("findings", {"findings": [lag]})["findings"] == [lag]


def test_errors_keep_their_place() -> None:
    (shown,) = without_data("errors", {"errors": [ERROR]})["errors"]
    assert "ann" not in json.dumps(shown)
    assert shown["traceback"].splitlines()[1] == '  File "/srv/app.py", line 3, in f'
    assert {name: shown[name] for name in ("node", "topic", "offset")} == {"node": "n", "topic": "t", "offset": 3}
    away = {"kind": "unavailable", "message": "the broker kafka:9092 doesn't answer"}
    assert without_data("errors", {"errors": [away]})["errors"] == [away]
    assert without_data("errors", {"errors": [{"kind": "new", "message": "ann"}]})["errors"][0]["message"] == LEFT_OUT


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        ("state", {"state": "ERROR", "error": ERROR, "ready": {"reason": "failed", "detail": "raised X: ann"}}),
        ("health-live", {"live": False, "error": ERROR}),
        ("health-ready", {"ready": False, "reason": "failed", "detail": "the function raised X: ann"}),
        ("barriers", {"failed": {"epoch": 3, "error": "ann"}}),
        ("topology", {"functions": [{"oldest_call": {"key": "ann", "for_ms": 3}}], "hot_keys": {"ann": 3}}),
        ("threads", {"lanes": [{"hot_keys": [["ann", 5]]}]}),
        ("dead-letters", {"count": 1, "letters": [LETTER]}),
        ("findings", {"at_ms": 1, "findings": [{"code": "failed", "message": "it raised X: ann"}]}),
    ],
)
def test_answers_keep_no_data(part: str, answer: dict[str, Any]) -> None:
    shown = without_data(part, answer)
    assert "ann" not in json.dumps(shown)
    assert set(shown) == set(answer)


def test_text_without_record_data_is_unchanged() -> None:
    answer = {"stores": [{"name": "counts", "key": "string", "value": "int64"}], "functions": []}
    assert without_data("topology", answer) == answer
    ready = {"ready": False, "reason": "broker_away", "detail": "kafka:9092 doesn't answer"}
    assert without_data("health-ready", ready) == ready
    assert metrics_without_data('stoatflow_a{node="n",key="ann \\" b"} 3') == 'stoatflow_a{node="n",key="(left out)"} 3'


def test_a_log_keeps_no_exceptions_texts() -> None:
    left = {"message": "a record was left out", "node": "n", "reason": "deserialization_error", "error": "not ann"}
    raised = "the function raised ValueError: ann [function app.py:2 f, node n, topic t, partition 0, offset 1]: X: ann"
    log = "\n".join(
        [
            json.dumps(left),
            f"prefix {json.dumps({'level': 'ERROR', 'message': raised})}",
            f"stoatflow: {raised}",
            "Traceback (most recent call last):",
            '  File "/srv/app.py", line 3, in f',
            "    raise Unusual(value)",
            "shop.Unusual: ann",
            "KeyError: 'ann'",
            "the application's own words: fine",
            "",
        ]
    )
    shown = log_without_data(log)
    assert "ann" not in shown
    where = "[function app.py:2 f, node n, topic t, partition 0, offset 1]"
    assert shown.count(where) == 2
    assert '  File "/srv/app.py", line 3, in f\n    raise Unusual(value)\nshop.Unusual: (left out' in shown
    assert shown.endswith("the application's own words: fine\n")


def test_what_the_application_adds_may_hold_data() -> None:
    """Labels of its own metrics, what its health checks say, and lines of its code."""
    metrics = (
        "# HELP orders Orders of a user\n"
        'orders_total{application_id="app",user="ann \\"a\\" b",shop="x"} 3.0\n'
        'wait_bucket{application_id="app",le="0.5"} 1\n'
        'stoatflow_node_records_total{application_id="app",node="in"} 3\n'
    )
    kept = metrics_without_data(metrics)
    assert "ann" not in kept
    assert 'orders_total{application_id="app",user="(left out)",shop="(left out)"} 3.0\n' in kept
    assert 'wait_bucket{application_id="app",le="0.5"} 1\n' in kept
    assert 'node="in"} 3\n' in kept
    checks = [
        {"name": "db", "status": "failing", "detail": "no ann"},
        {"name": "b", "status": "passing", "detail": None},
    ]
    ready = without_data("health-ready", {"reason": "health_check", "detail": "db: no ann", "checks": checks})
    assert "ann" not in str(ready)
    assert [check["name"] for check in ready["checks"]] == ["db", "b"]
    found = without_data("findings", {"findings": [{"code": "health_check", "message": "no ann"}]})
    assert "ann" not in str(found)
    frame = {"file": "app.py", "line": 3, "function": "fn", "code": "ask('ann')"}
    threads = without_data("threads", {"python": {"threads": [{"stack": [frame]}]}, "lanes": [{"stack": None}]})
    assert "ann" not in str(threads)
    assert "app.py" in str(threads)
