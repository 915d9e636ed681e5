"""The listeners of a secured test cluster, and the users that may connect through them.

Each listener is one way to connect that a client must support, or one that it must reject. The name of a listener
is the argument of `KafkaCluster.bootstrap`.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.certificates import Certificates

# For brokers and controllers among themselves, and for the harness.
CONTROLLER, INTERNAL = "CONTROLLER", "INTERNAL"

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}

ALLOWED, DENIED, ADMIN, BROKER = "alice", "bob", "admin", "broker"
PASSWORDS = {user: f"{user}-secret" for user in (ALLOWED, DENIED, ADMIN, BROKER)}
"""`alice` may do everything, `bob` nothing until it is granted, `admin` and `broker` are super users."""
ANONYMOUS = "ANONYMOUS"
"""The user of clients without authentication, through PLAINTEXT and SSL; may do everything."""


@dataclass(frozen=True)
class Listener:
    """What a listener requires of a client."""

    name: str
    protocol: str
    mechanisms: tuple[str, ...] = ()
    certificate: str = ""
    """The certificate it presents: `server`, `server_expired` or `server_other_host`; empty without TLS."""
    client_certificate: bool = False
    """Whether the client must present a certificate."""

    def settings(self) -> dict[str, str]:
        """Kafka's settings of the listener, without the files of its certificate."""
        prefix = f"listener.name.{self.name.lower()}"
        found: dict[str, str] = {}
        if self.mechanisms:
            found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for mechanism in self.mechanisms:
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = broker_login(mechanism)
        if self.certificate:
            found[f"{prefix}.ssl.client.auth"] = "required" if self.client_certificate else "none"
        return found


LISTENERS = (
    Listener("PLAINTEXT", "PLAINTEXT"),
    Listener("SSL", "SSL", certificate="server"),
    Listener("MTLS", "SSL", certificate="server", client_certificate=True),
    Listener("SASL_SSL_PLAIN", "SASL_SSL", ("PLAIN",), "server"),
    Listener("SASL_SSL_SCRAM", "SASL_SSL", ("SCRAM-SHA-256", "SCRAM-SHA-512"), "server"),
    Listener("SASL_SSL_OAUTHBEARER", "SASL_SSL", ("OAUTHBEARER",), "server"),
    Listener("SASL_PLAINTEXT_SCRAM", "SASL_PLAINTEXT", ("SCRAM-SHA-256", "SCRAM-SHA-512")),
    # Clients must reject these two.
    Listener("SSL_EXPIRED", "SSL", certificate="server_expired"),
    Listener("SSL_OTHER_HOST", "SSL", certificate="server_other_host"),
)
_BETWEEN = (
    Listener(CONTROLLER, "SASL_PLAINTEXT", ("PLAIN",)),
    Listener(INTERNAL, "SASL_PLAINTEXT", ("PLAIN",)),
)
ALL_LISTENERS = (*_BETWEEN, *LISTENERS)


def broker_login(mechanism: str) -> str:
    """The `sasl.jaas.config` of a broker: with PLAIN it lists the users, and the broker's own login."""
    words = [_MODULES[mechanism], "required"]
    if mechanism == "PLAIN":
        words += [f'username="{BROKER}"', f'password="{PASSWORDS[BROKER]}"']
        words += [f'user_{user}="{password}"' for user, password in PASSWORDS.items()]
    return " ".join(words) + ";"


def client_login(mechanism: str, user: str, password: str) -> str:
    """The `sasl.jaas.config` of a Java client."""
    names = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
    return f'{_MODULES[mechanism]} required {names[0]}="{user}" {names[1]}="{password}";'


def scram_options() -> list[str]:
    """The options of `kafka-storage format` that create the users."""
    return [
        option
        for user, password in PASSWORDS.items()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for option in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
    ]


def client_properties(
    listener: Listener, certificates: Certificates, token_endpoint: str, user: str, mechanism: str | None
) -> dict[str, str]:
    """The properties of a client that may connect, without its address: with the names of librdkafka and StoatFlow."""
    found = {"security.protocol": listener.protocol}
    if listener.certificate:
        found["ssl.ca.location"] = str(certificates.ca)
    if listener.client_certificate:
        pair = certificates.clients[user]
        found |= {"ssl.certificate.location": str(pair.certificate), "ssl.key.location": str(pair.key)}
    if listener.mechanisms:
        found["sasl.mechanism"] = mechanism or listener.mechanisms[-1]
        if found["sasl.mechanism"] == "OAUTHBEARER":
            found |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": token_endpoint,
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": PASSWORDS[user],
            }
        else:
            found |= {"sasl.username": user, "sasl.password": PASSWORDS[user]}
    return found
