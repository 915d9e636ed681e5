"""Loads a user's file or module, and returns what it defines.

Takes `APP.py[:name]` or `package.module[:name]`, returns the objects; an exception of the file is raised as a
`UserFileError` whose traceback begins in the user's file.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from importlib.machinery import SourceFileLoader
from types import CodeType, TracebackType
from typing import Any

from stoatflow.errors import ConfigError, StoatFlowError

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class _Script(SourceFileLoader):
    """Compiles a file each time, as `python FILE` does.

    Cached bytecode is recognized by second and size, so two edits within a second could be taken for one.
    """

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the signature of the loader
        return self.source_to_code(self.get_data(self.path), self.path)


class UserFileError(Exception):
    """The file raised; `text` is the traceback, starting in the file."""

    def __init__(self, text: str) -> None:
        """Take the text of the traceback."""
        super().__init__(text)
        self.text = text


def split(app: str) -> tuple[str, str | None]:
    """Split `APP.py:name` into file and name."""
    file, _, name = app.rpartition(":")
    return (file, name) if file and name.isidentifier() else (app, None)


def names_of(file: str) -> dict[str, Any]:
    """Run a file, or import a module, and return what it defines. `__name__` is never `__main__`."""
    if _MODULE.fullmatch(file) and not file.endswith(".py") and not os.path.isfile(file):
        return _imported(file)
    return _run(file)


def _run(file: str) -> dict[str, Any]:
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise ConfigError(
            f"the file {file} can't be read: {error.strerror}", next_step="name a Python file, or a module"
        ) from error
    folder, base = os.path.split(os.path.abspath(file))
    # As `python FILE` does, and for as long as the file's code runs: functions import modules when they are
    # called.
    sys.path.insert(0, folder)
    name = os.path.splitext(base)[0]
    if name in sys.modules or not name.isidentifier():
        name = "__stoatflow__"
    spec = importlib.util.spec_from_file_location(name, file, loader=_Script(name, file))
    if not file.endswith(".py") or spec is None or spec.loader is None:
        raise ConfigError(f"{file} is no Python file", next_step="name a file that ends with .py, or a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except StoatFlowError:
        raise
    except Exception as error:
        raise UserFileError(_from(error, os.path.abspath(file), file)) from None
    return vars(module)


def _imported(module: str) -> dict[str, Any]:
    sys.path.insert(0, os.getcwd())
    try:
        return vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        # An import that fails within the module itself is shown with its traceback.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"there is no module {module}", next_step="name a file, or a module that can be imported from here"
        ) from None


def _from(error: Exception, *files: str) -> str:
    """Return the traceback without the frames before the user's file."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename not in files:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
