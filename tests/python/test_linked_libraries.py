"""The module is linked with libraries that every Linux has, and with no TLS library of the system."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess

EVERYWHERE = re.compile(r"(ld-linux-[-\w]+|libc|libdl|libgcc_s|libm|libpthread|librt|libstdc\+\+|libz)\.so\.\d+")
"""The libraries of manylinux (PEP 599) that it may need."""


def linked_libraries() -> list[str]:
    """The shared libraries that the loader needs for the module."""
    readelf = shutil.which("readelf")
    assert readelf, "readelf is part of the binutils, as the linker is"
    found = subprocess.run(
        [readelf, "--dynamic", "--wide", str(importlib.import_module("stoatflow._native").__file__)],
        capture_output=True, text=True, check=True, env={"LC_ALL": "C"},
    )  # fmt: skip
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(\S+)\]", found.stdout)


def test_no_library_is_needed_that_a_system_may_lack() -> None:
    found = linked_libraries()
    assert any(name.startswith("libc.") for name in found), found
    assert [name for name in found if not EVERYWHERE.fullmatch(name)] == []


def test_openssl_is_not_among_those_that_are_allowed() -> None:
    assert not any(EVERYWHERE.fullmatch(name) for name in ("libssl.so.3", "libcrypto.so.3", "libsasl2.so.2"))
