"""Writes the archive: completely or not at all, and readable for its owner only."""

from __future__ import annotations

import json
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stoatflow.bundle.part import Part

_MODE = 0o600


def write(path: Path, folder: str, parts: Sequence[Part], manifest: dict[str, Any]) -> int:
    """Write parts and `MANIFEST.json` into a folder of a new archive; return its size. Raises `OSError`."""
    # In the same folder, so that it can be renamed; its mode is 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in parts:
                _add(archive, f"{folder}/{part.name}", part.content())
            _add(archive, f"{folder}/MANIFEST.json", json.dumps(manifest, ensure_ascii=False, indent=2).encode())
        size = os.stat(name).st_size
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return size


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, time.gmtime()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _MODE << 16
    archive.writestr(entry, content)
