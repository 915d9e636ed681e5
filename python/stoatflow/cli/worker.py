"""`stoatflow worker app:score --requests T --responses T`: answer the requests of an `offload` with a function.

Takes a function's place, its topics, and how to call it. Answers requests until it is stopped. `stoatflow.Worker` does
the work.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import logging
import os
import runpy
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stoatflow.settings import Settings

_TYPES = {"json": "json", "str": "string", "bytes": "bytes"}


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "worker",
        help=COMMANDS["worker"],
        description="Answer the requests of an offload with a function, plain or async. One that raises is an answer, "
        "too. Ctrl-C lets calls that run end, and commits.",
    )
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="a function of (value); FILE.py:FUNCTION as well")
    parser.add_argument("--requests", required=True, metavar="TOPIC", help="where requests come from")
    parser.add_argument("--responses", required=True, metavar="TOPIC", help="where answers go")
    parser.add_argument("--bootstrap", metavar="HOST:PORT|embedded:PATH", help="the broker")
    parser.add_argument("--group", metavar="ID", help="names the position in the requests (default: TOPIC-worker)")
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls at a time (default: 100 async, 10 plain)")
    parser.add_argument("--timeout", type=span, metavar="TIME", help="of one call, such as 20s (default: none)")
    parser.add_argument("--value", choices=sorted(_TYPES), help="how requests are read (default: by annotation, json)")
    parser.add_argument("--answer", choices=sorted(_TYPES), help="how answers are written (default: likewise)")
    parser.add_argument(
        "--share", type=share, default=(1, 1), metavar="I/N", help="the I-th of N workers that share the partitions"
    )
    parser.add_argument("--config", metavar="FILE", help="settings, TOML or JSON; may be those of the application")
    parser.set_defaults(run=run)


def share(text: str) -> tuple[int, int]:
    """Parse `1/3`; raise `ArgumentTypeError` for anything else."""
    own, slash, of = text.partition("/")
    if slash and own.isdecimal() and of.isdecimal() and 1 <= int(own) <= int(of):
        return int(own), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no share; write 1/3 for the first of three workers")


def span(text: str) -> str:
    """Parse `20s`; raise `ArgumentTypeError` for anything else."""
    from stoatflow.durations import duration_ms

    try:
        duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def run(given: argparse.Namespace) -> int:
    """Answer requests until it is stopped."""
    from stoatflow.worker import Worker

    worker = Worker(
        load(given.function),
        requests=given.requests,
        responses=given.responses,
        config=_settings(given),
        group=given.group,
        value=_serde(given.value),
        answer=_serde(given.answer),
        concurrency=given.concurrency,
        timeout=given.timeout,
        share=given.share,
    )
    _speak()
    worker.run()
    return 0


def load(place: str) -> Callable[[Any], Any]:
    """Return the function at `module:function` or `file.py:function`."""
    from stoatflow.errors import ConfigError

    where, _, name = place.rpartition(":")
    if not where or not name.isidentifier():
        raise ConfigError(f"{place!r} names no function", next_step="write module:function, or file.py:function")
    if where.endswith(".py"):
        try:
            members = runpy.run_path(where, run_name="__stoatflow__")
        except OSError as error:
            raise ConfigError(f"the file {where} can't be read: {error.strerror}") from error
    else:
        sys.path.insert(0, os.getcwd())
        try:
            members = vars(importlib.import_module(where))
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"the module {where} can't be imported: {error}",
                next_step="start it where the module is, or name its file",
            ) from error
    found = members.get(name)
    if not callable(found):
        near = difflib.get_close_matches(name, [other for other, member in members.items() if callable(member)], 1)
        raise ConfigError(
            f"{where} has no function named '{name}'",
            next_step=f"did you mean '{near[0]}'?" if near else "name one that is defined there",
        )
    _takes_one(found, f"{where}:{name}")
    function: Callable[[Any], Any] = found
    return function


def _takes_one(function: Callable[..., Any], shown: str) -> None:
    """Refuse a function that can't be called with one value: each request would fail."""
    from stoatflow.errors import ConfigError

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a C function without a signature
        return
    try:
        signature.bind(object())
    except TypeError as error:
        raise ConfigError(
            f"{shown}{signature} can't be called with a value: {error}", next_step="let it take (value)"
        ) from None


def _speak() -> None:
    """Log to stderr what the worker reads, and that it stops; a logging setup of the function's module stays."""
    logging.basicConfig(format="stoatflow: %(message)s")
    log = logging.getLogger("stoatflow")
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def _settings(given: argparse.Namespace) -> Settings:
    from stoatflow.settings import Settings

    arguments = {} if given.bootstrap is None else {"bootstrap.servers": given.bootstrap}
    return Settings(arguments) if given.config is None else Settings.from_file(given.config, arguments)


def _serde(word: str | None) -> Any:
    from stoatflow.serdes import builtin_by_name

    return None if word is None else builtin_by_name(_TYPES[word])
