"""Certificates of servers and clients on loopback, for an hour."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LOOPBACK = ipaddress.ip_address("127.0.0.1")


class Authority:
    """Signs certificates of servers and clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"test CA {folder.name}")])
        self._write("ca.pem", self._signed(self._name, self._key.public_key(), is_ca=True))
        self.ca = folder / "ca.pem"

    def issue(self, name: str) -> tuple[Path, Path]:
        """Write a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._write(f"{name}.pem", self._signed(subject, key.public_key(), is_ca=False))
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / f"{name}.key").write_bytes(text)
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(_LOOPBACK)])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, certificate: x509.Certificate) -> None:
        (self.folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
