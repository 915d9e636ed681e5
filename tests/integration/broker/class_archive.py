"""An archive of loaded and verified classes (class data sharing), with which a JVM starts faster.

The first broker that stops cleanly writes the archive of its classes into the cache, beside its jars. A JVM ignores
an archive that doesn't fit its jars, so nothing depends on it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ClassArchive"]


class ClassArchive:
    """The archive for a command `java ... -cp FOLDER/*`; another command has none."""

    def __init__(self, java: Sequence[str]) -> None:
        self._file: Path | None = None
        self._new: Path | None = None
        class_path = java[list(java).index("-cp") + 1] if "-cp" in java else ""
        if class_path.endswith("/*"):
            jars = Path(class_path).parent
            # An archive of another Java build could not be used.
            build = os.stat(java[0])
            self._file = jars.parent / f"classes-{build.st_size:x}-{build.st_mtime_ns:x}.jsa"

    def use(self) -> list[str]:
        """Options for a JVM that uses the archive, if it exists."""
        return [f"-XX:SharedArchiveFile={self._file}"] if self._file is not None and self._file.is_file() else []

    def use_or_make(self, owner: Path) -> list[str]:
        """Options for a JVM that uses the archive, or writes it when it ends; `owner` is a file of this JVM alone."""
        if self._file is None or self._file.is_file():
            return self.use()
        self._new = owner.with_suffix(".jsa")
        return [f"-XX:ArchiveClassesAtExit={self._new}"]

    def keep(self) -> None:
        """Called after the JVM has stopped cleanly: the archive that it wrote is used from now on."""
        if self._file is not None and self._new is not None and self._new.is_file():
            partial = self._file.with_suffix(f".{os.getpid()}")
            # The folder of the broker may be on another disk.
            shutil.copyfile(self._new, partial)
            os.replace(partial, self._file)
            self._new.unlink()
