"""Properties of Kafka's Java client from those of an application; tests/integration/test_spark_secured.py connects."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.spark.client_properties import java_client

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----\n"


def test_a_user_and_a_password_become_a_login(tmp_path: Path) -> None:
    ca, secret = tmp_path / "ca.pem", tmp_path / "password"
    ca.write_text(CERTIFICATE)
    secret.write_text('it\'s "secret"\\\n')
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "ann",
        "sasl.password": f"file:{secret}",
        "ssl.ca.location": str(ca),
    }
    found = java_client(given)
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="it\'s \\"secret\\"\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
    }
    assert java_client(found) == found, "a second time changes nothing"


def test_what_java_has_stays(tmp_path: Path) -> None:
    store = tmp_path / "trusted.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "mine required;",
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": "changeit",
        "request.timeout.ms": "5000",
    }
    assert java_client(given) == given
    store.write_text(CERTIFICATE)
    assert java_client(given) == given | {"ssl.truststore.type": "PEM"}


def test_a_client_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "ann.pem", tmp_path / "ann.key"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    given = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert java_client(given) == {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.endpoint.identification.algorithm": "",
    }
    key.write_text(KEY.replace("PRIVATE", "RSA PRIVATE"))
    with pytest.raises(sf.ConfigError, match=r"not PKCS#8.*Next: convert it: openssl pkcs8"):
        java_client(given)


def test_tokens_come_from_an_endpoint() -> None:
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.credentials.client.id": "ann",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=one, pool=two",
    }
    module = "org.apache.kafka.common.security.oauthbearer"
    assert java_client(given) == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.jaas.config": f'{module}.OAuthBearerLoginModule required clientId="ann" clientSecret="secret" '
        'scope="kafka" extension_logicalCluster="one" extension_pool="two";',
        "sasl.login.callback.handler.class": f"{module}.OAuthBearerLoginCallbackHandler",
    }
    own = {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.example.Mine"}
    assert java_client(own) == own


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.username": "ann"}, "PLAIN needs a user and a password"),
        ({"ssl.ca.location": "/there/is/none.pem"}, "ssl.ca.location = /there/is/none.pem"),
        ({"sasl.password": "file:/there/is/none"}, "sasl.password = /there/is/none"),
        ({"enable.ssl.certificate.verification": "false"}, "always checks certificates"),
        ({"sasl.mechanism": "OAUTHBEARER"}, r"can't call a Python function \(oauth_cb\)"),
    ],
)
def test_what_java_cannot_do_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(sf.ConfigError, match=message):
        java_client(given)
