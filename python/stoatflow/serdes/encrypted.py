"""Values that are encrypted wherever they leave the process: topics, changelogs, local state, dead letters.

Takes a serde and the user's two functions of bytes. Owns no key and no algorithm. No message shows what is encrypted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from stoatflow.errors import BrokerUnavailableError, SerdeError, TopologyError
from stoatflow.serdes.base import Serde

T = TypeVar("T")
Cipher: TypeAlias = Callable[[bytes], bytes]


class EncryptedSerde(Serde[T]):
    """`Serdes.encrypted(inner, encrypt=, decrypt=)`."""

    def __init__(self, inner: Serde[T], encrypt: Cipher, decrypt: Cipher, *, deterministic: bool) -> None:
        """Created by `Serdes.encrypted`."""
        for name, function in (("encrypt", encrypt), ("decrypt", decrypt)):
            _check(name, function)
        self.inner = inner
        self.deterministic = deterministic
        self._encrypt, self._decrypt = encrypt, decrypt
        self._compared = not deterministic

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"encrypted({self.inner.name})"

    def serialize(self, value: T) -> bytes:
        """Serialize a value, and encrypt the bytes."""
        try:
            data = self.inner.serialize(value)
        except Exception as error:  # a serde of the user may raise anything
            # Its message and its cause may show the value.
            raise SerdeError(
                f"the serde '{self.name}' can't write a value of the type {type(value).__name__} "
                f"({type(error).__name__})",
                next_step=f"give a value that the serde '{self.inner.name}' can write",
            ) from None
        made = self._call("encrypt", self._encrypt, data)
        if not self._compared:
            if made != self._call("encrypt", self._encrypt, data):
                raise SerdeError(
                    f"the serde '{self.name}' is said to be deterministic, but encrypt gave two results for the same "
                    "bytes",
                    next_step="use a deterministic cipher such as AES-SIV, or leave deterministic=True out",
                )
            self._compared = True
        return made

    def deserialize(self, data: bytes) -> T:
        """Decrypt bytes, and deserialize what they hold."""
        plain = self._call("decrypt", self._decrypt, data)
        try:
            return self.inner.deserialize(plain)
        except Exception as error:  # as above
            raise SerdeError(
                f"the serde '{self.name}' decrypted {len(data)} bytes, and the serde '{self.inner.name}' can't read "
                f"the result ({type(error).__name__})",
                next_step=f"read the topic with the serde that was encrypted, instead of '{self.inner.name}'",
            ) from None

    def _call(self, name: str, function: Cipher, data: bytes) -> bytes:
        try:
            made = function(data)
        except OSError as error:
            # Nothing is wrong with the record, so no handler may drop it.
            raise BrokerUnavailableError(
                f"{name} of the serde '{self.name}' got no answer ({type(error).__name__}: {error})",
                next_step="check the key service and the network",
            ) from error
        except BrokerUnavailableError:
            raise
        except Exception as error:  # a cipher may raise anything
            raise SerdeError(
                f"the serde '{self.name}' can't {name} {len(data)} bytes ({type(error).__name__}: {error})",
                next_step="give the key that they were encrypted with, and keep old keys for old records"
                if name == "decrypt"
                else "fix encrypt=",
            ) from error
        if not isinstance(made, bytes):
            raise SerdeError(
                f"{name} of the serde '{self.name}' returned a {type(made).__name__}",
                next_step=f"return bytes from {name}",
            )
        return made


def _check(name: str, function: Cipher) -> None:
    from stoatflow.plan.functions import never_runs, user_line  # imported here: the plan uses serdes

    if not callable(function):
        raise TopologyError(
            f"{user_line()} Serdes.encrypted({name}=) needs a function of bytes, not a {type(function).__name__}",
            next_step="give a function that takes bytes and returns bytes",
        )
    if why := never_runs(function):
        raise TopologyError(
            f"{user_line()} Serdes.encrypted({name}=) got a function that {why}: serdes don't await",
            next_step="give a plain function; get keys from their service before, and keep them",
        )
