"""Properties of Kafka's Java client, which Spark uses, from those of an application.

Takes properties with the names of Java's clients or of librdkafka, as the engine does. Returns those of Java's client.
Files are read here: Spark's workers get their content, and need no files. Never prints a value that may be secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stoatflow.errors import ConfigError

_MODULE = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_MODULE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule",
}
_FETCHES_TOKENS = f"{_MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler"
_SAME = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""Other names of one property; texts of certificates have the names of Java's client."""
_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""Files, and the properties that take their text."""
_SECRETS = (
    "sasl.jaas.config",
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.truststore.password",
)
_TOKENS = "sasl.oauthbearer."


def java_client(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for Java's client; properties that it has itself are left as they are.

    Raises:
        ConfigError: a file can't be read, or Java's client can't do what is asked for.

    """
    found = {_SAME.get(name, name): value for name, value in given.items()}
    if str(found.pop("enable.ssl.certificate.verification", "true")).lower() in {"false", "0"}:
        raise ConfigError(
            "enable.ssl.certificate.verification=false: Spark's client always checks certificates",
            next_step="set ssl.ca.location to the CA that signed the broker's certificate",
        )
    for name in _SECRETS:
        if (value := found.get(name, "")).startswith("file:"):
            found[name] = _text(name, value.removeprefix("file:")).rstrip("\r\n")
    _certificates(found)
    if found.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    _login(found)
    return found


def _certificates(found: dict[str, str]) -> None:
    for name, target in _FILES.items():
        if path := found.pop(name, ""):
            found[target] = _text(name, path)
    for store in ("truststore", "keystore"):
        inline = any(f"ssl.{store}.{part}" in found for part in ("certificates", "certificate.chain", "key"))
        path = found.get(f"ssl.{store}.location", "")
        if inline or (path and _is_pem(path)):
            found.setdefault(f"ssl.{store}.type", "PEM")
    key = found.get("ssl.keystore.key", "")
    if key and "PRIVATE KEY-----" in key and "BEGIN PRIVATE" not in key and "BEGIN ENCRYPTED PRIVATE" not in key:
        raise ConfigError(
            "the key of the client's certificate is not PKCS#8, which Spark's client needs",
            next_step="convert it: openssl pkcs8 -topk8 -nocrypt -in old.pem -out new.pem",
        )


def _is_pem(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return b"-----BEGIN" in file.read(4096)
    except OSError:
        return False


def _login(found: dict[str, str]) -> None:
    """Write the login as Java's client has it: `sasl.jaas.config`."""
    mechanism = found.get("sasl.mechanism", "").upper()
    if not mechanism:
        return
    found["sasl.mechanism"] = mechanism
    user, password = found.pop("sasl.username", None), found.pop("sasl.password", None)
    if "sasl.jaas.config" in found or mechanism not in _MODULES:
        return
    if mechanism == "OAUTHBEARER":
        _token_login(found)
        return
    if user is None or password is None:
        raise ConfigError(f"{mechanism} needs a user and a password", next_step="set sasl.username and sasl.password")
    found["sasl.jaas.config"] = _jaas(mechanism, {"username": user, "password": password})


def _token_login(found: dict[str, str]) -> None:
    if "sasl.login.callback.handler.class" in found:
        return
    names = ("client.id", "client.secret", "scope", "extensions", "method")
    of = {name: found.pop(_TOKENS + name, "") for name in names}
    if not (of["client.id"] and of["client.secret"] and found.get(f"{_TOKENS}token.endpoint.url")):
        raise ConfigError(
            "Spark's client fetches tokens from an endpoint; it can't call a Python function (oauth_cb)",
            next_step="set sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and its secret; or a class "
            "of Java, as sasl.login.callback.handler.class in SparkOptions(client=) or --client-property",
        )
    options = {"clientId": of["client.id"], "clientSecret": of["client.secret"]}
    if of["scope"]:
        options["scope"] = of["scope"]
    for pair in filter(None, of["extensions"].split(",")):
        name, _, value = pair.partition("=")
        options[f"extension_{name.strip()}"] = value.strip()
    found["sasl.jaas.config"] = _jaas("OAUTHBEARER", options)
    found["sasl.login.callback.handler.class"] = _FETCHES_TOKENS


def _jaas(mechanism: str, options: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    words = [_MODULES[mechanism], "required", *(f'{name}="{quoted(value)}"' for name, value in options.items())]
    return f"{' '.join(words)};"


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} = {path}: {error}", next_step="name a file that this user can read") from error
