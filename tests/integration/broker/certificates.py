"""Certificates for a test cluster and its clients, signed by a CA of the run, and some that clients must reject.

`Certificates(folder, users)` writes PEM files. A broker's file holds key and certificate, as its keystore of type
PEM requires; a client has `NAME.pem` and `NAME.key`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_PASSWORD = "key-secret"  # noqa: S105 (of a key that lives as long as a test)
_DAY = timedelta(days=1)
_LOCAL: tuple[x509.GeneralName, ...] = (
    x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
)  # fmt: skip
_ELSEWHERE = (x509.DNSName("elsewhere.example"),)


@dataclass(frozen=True)
class KeyPair:
    """The files of a client's certificate and of its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class _Issued:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, password: str | None = None) -> bytes:
        secret: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            secret = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class _Authority:
    """A CA that signs for servers and clients."""

    def __init__(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            False, False, False, False, False, True, True, False, False
        )  # certificates and their lists
        unsigned = (
            _unsigned(name, name, key, 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        self.issued = _Issued(key, unsigned.sign(key, hashes.SHA256()))
        self._name = name

    def sign(self, common: str, names: tuple[x509.GeneralName, ...] = (), valid: timedelta = 30 * _DAY) -> _Issued:
        """A certificate for a client, or with `names` for a server; valid from two days ago until `valid`."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.issued.key.public_key())
        unsigned = (
            _unsigned(common, self._name, key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            unsigned = unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _Issued(key, unsigned.sign(self.issued.key, hashes.SHA256()))


def _unsigned(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, valid: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


class Certificates:
    """The files in `folder`. Servers are valid for `localhost` and `127.0.0.1` unless their name says otherwise."""

    def __init__(self, folder: Path, users: tuple[str, ...]) -> None:
        self._folder = folder
        self._authority, other = _Authority("StoatFlow test CA"), _Authority("Another test CA")
        self.ca = self._write("ca.pem", self._authority.issued.certificate_pem())
        self.other_ca = self._write("other-ca.pem", other.issued.certificate_pem())
        self._renewals = 0
        self.server = self.renewed_server()
        self.server_expired = self._keystore("server-expired", self._authority.sign("broker", _LOCAL, -_DAY))
        self.server_other_host = self._keystore("server-other-host", self._authority.sign("broker", _ELSEWHERE))
        self.clients = {user: self._client(user, self._authority.sign(user)) for user in users}
        """By user: the files of a certificate whose common name the brokers use as the principal."""
        self.client_expired = self._client("client-expired", self._authority.sign(users[0], valid=-_DAY))
        self.client_other_ca = self._client("client-other-ca", other.sign(users[0]))
        encrypted = self._authority.sign(users[0])
        self.client_encrypted = KeyPair(
            self._write("client-encrypted.pem", encrypted.certificate_pem()),
            self._write("client-encrypted.key", encrypted.key_pem(KEY_PASSWORD)),
        )
        """Its key is encrypted with `KEY_PASSWORD`."""

    def renewed_server(self) -> Path:
        """Another certificate for the brokers, with a key of its own, from the same CA."""
        self._renewals += 1
        return self._keystore(f"server-{self._renewals}", self._authority.sign("broker", _LOCAL))

    def paths(self) -> dict[str, str]:
        """All files by name, for programs that get their paths as arguments."""
        pairs = {
            **{f"client_{user}": pair for user, pair in self.clients.items()},
            "client_expired": self.client_expired,
            "client_other_ca": self.client_other_ca,
            "client_encrypted": self.client_encrypted,
        }
        found = {"ca": str(self.ca), "other_ca": str(self.other_ca)}
        for name, pair in pairs.items():
            found |= {f"{name}_certificate": str(pair.certificate), f"{name}_key": str(pair.key)}
        return found

    def _keystore(self, name: str, issued: _Issued) -> Path:
        return self._write(f"{name}.pem", issued.key_pem() + issued.certificate_pem())

    def _client(self, name: str, issued: _Issued) -> KeyPair:
        certificate = self._write(f"{name}.pem", issued.certificate_pem())
        return KeyPair(certificate, self._write(f"{name}.key", issued.key_pem()))

    def _write(self, name: str, content: bytes) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path
