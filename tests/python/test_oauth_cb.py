"""`oauth_cb` as a setting: what it may be, where it is set, and conflicting settings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import stoatflow as sf

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def fetch() -> sf.OAuthToken:
    """Never called here."""
    return sf.OAuthToken("text", time.time() + 60)


def made(config: dict[str, object], **more: object) -> sf.StoatFlow:
    """An application that is not started."""
    builder = sf.StreamsBuilder()
    builder.stream("a").to("b")
    return sf.StoatFlow(builder.build(), {"application.id": "a", "bootstrap.servers": "b:1", **config}, **more)


def refusal(config: dict[str, object], **more: object) -> str:
    """The error that prevents it."""
    with pytest.raises(sf.ConfigError) as refused:
        made(config, **more)
    return str(refused.value)


@pytest.mark.parametrize("name", ["oauth_cb", "oauth.cb"])
def test_oauth_cb_is_a_setting_with_both_spellings(name: str) -> None:
    made({**SASL, name: fetch})


def test_oauth_cb_may_be_a_keyword_argument() -> None:
    made({**SASL}, oauth_cb=fetch)


def test_oauth_cb_is_named_in_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tokens.py").write_text("def fetch():\n    return 'text', 1\n")
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "app.toml"
    config.write_text('oauth_cb = "my_tokens:fetch"\n')
    assert "TokenCalls" in str(dict(sf.Settings.from_file(config, environ={}).pairs())["oauth_cb"])
    variables = {"STOATFLOW_OAUTH_CB": "my_tokens:missing"}
    with pytest.raises(sf.ConfigError, match="can't be imported"):
        sf.Settings({}, environ=variables).pairs()


def test_invalid_callbacks_are_refused() -> None:
    assert "not int" in refusal({**SASL, "oauth_cb": 5})
    assert "'module:function'" in refusal({**SASL, "oauth_cb": "nothing"})
    assert "can't be imported" in refusal({**SASL, "oauth_cb": "no_such_module:fetch"})


def test_contradicting_settings_are_refused() -> None:
    assert "set it to SASL_SSL" in refusal({"oauth_cb": fetch})
    scram = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "oauth_cb": fetch}
    assert "set it to OAUTHBEARER" in refusal(scram)
    endpoint = {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token"}
    assert "leave out one of the two" in refusal({**SASL, **endpoint, "oauth_cb": fetch})
    assert "the native client" in refusal({"kafka.client": "librdkafka", "oauth_cb": fetch})
    assert "set oauth_cb too" in refusal({**SASL, "sasl.oauthbearer.config": "x"})
    assert "oauth_cb, a function" in refusal({**SASL})
    assert "oauth_cb, a function" in refusal({**SASL, "sasl.login.callback.handler.class": "com.example.Tokens"})


def test_a_token_is_not_shown() -> None:
    token = sf.OAuthToken("hidden", 1.0, extensions={"pool": "hidden"})
    assert "hidden" not in repr(token)
