"""`stoatflow run app.py`: run what a file defines, with settings from a file, variables and flags.

Takes a file or module with a `StoatFlow`, a `Topology` or a `StreamsBuilder` in a variable; returns the exit code of
the run. `--check` builds and starts nothing; `--reload` is in `reloading`, `--engine spark` in `run_spark`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.app import StoatFlow
    from stoatflow.builder import StreamsBuilder
    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_USUAL = ("app", "topology", "builder")
_FILES = ("settings.toml", "settings.json", "streams.properties", "application.properties")
"""Files of settings, as most are called."""
_FLAGS = {"application_id": "application.id", "bootstrap": "bootstrap.servers", "state_dir": "state.dir"}


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help=COMMANDS["run"],
        description="Run an application until it is stopped (Ctrl-C, SIGTERM) or fails. Flags win over variables "
        "(STOATFLOW_...), variables over the settings file.",
    )
    parser.add_argument(
        "app",
        metavar="APP.py[:name]",
        help="a Python file or a module that defines a StoatFlow, a Topology or a StreamsBuilder; without a name: the "
        "one called app, topology or builder, or the only one",
    )
    parser.add_argument("--config", metavar="FILE", help="settings: TOML, JSON or Java properties")
    parser.add_argument("--application-id", metavar="ID", help="application.id")
    parser.add_argument("--state-dir", metavar="DIR", help="state.dir")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any setting (may be given again)"
    )
    parser.add_argument("--strict", action="store_true", help="refuse settings that have no effect (config.strict)")
    parser.add_argument("--check", action="store_true", help="build the topology, check the settings, start nothing")
    parser.add_argument(
        "--reload", action="store_true", help="for development: start again when a file of the application changes"
    )
    parser.add_argument(
        "--engine", choices=["spark"], help="what shares out the work: Spark, and the engine runs in its tasks"
    )
    parser.add_argument("--batch", action="store_true", help="with --engine: to the end of the input, then stop")
    add_json(parser, "with --check or --batch: a JSON object")
    from stoatflow.cli import run_spark

    run_spark.add_options(parser.add_argument_group("the broker, and what counts with --engine spark"))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load, then check or run."""
    from stoatflow.app import StoatFlow
    from stoatflow.errors import ConfigError

    if given.json and not (given.check or given.batch):
        raise ConfigError(
            "--json is for --check and --batch: an application that runs on prints nothing but its log, on stderr",
            next_step="leave --json out; while it runs, stoatflow top --json and the admin port tell what it does",
        )
    if given.reload:
        if given.check or given.batch or given.engine is not None:
            raise ConfigError("--reload is for an application that runs on", next_step="leave --reload out")
        from stoatflow.cli import reloading

        return reloading.run(given)
    if given.batch or given.engine is not None:
        if given.engine is None:
            raise ConfigError("--batch is of another engine", next_step="write --engine spark --batch")
        from stoatflow.cli import run_spark

        return run_spark.run(given)
    found = find(given.app)
    if isinstance(found, StoatFlow):
        _no_flags(given)
        if given.check:
            _print_summary(given, str(found.settings.get("application.id")), found.topology)
            return 0
        found.run()
        return 0
    settings = _settings(given.config, _flags(given))
    topology = _built(found, settings)
    _check(settings, given)
    if given.check:
        topology.plan.check_names()
        _print_summary(given, str(settings.get("application.id")), topology)
        return 0
    StoatFlow(topology, settings).run()
    return 0


def found_with_settings(given: argparse.Namespace) -> tuple[Topology, Settings]:
    """Return a topology and settings for an engine other than the one in this process."""
    from stoatflow.app import StoatFlow
    from stoatflow.errors import ConfigError

    found = find(given.app)
    if not isinstance(found, StoatFlow):
        settings = _settings(given.config, _flags(given))
        return _built(found, settings), settings
    _no_flags(given)
    if found._on_spark is not None:
        raise ConfigError(f"{given.app} is a StoatFlow on Spark already", next_step="leave --engine and its flags out")
    return found.topology, found.settings


def _no_flags(given: argparse.Namespace) -> None:
    from stoatflow.errors import ConfigError

    if given.config or _flags(given):
        raise ConfigError(
            f"{given.app} is a StoatFlow, which has its settings already",
            next_step="leave the flags out, or name the topology instead",
        )


def find(app: str) -> StoatFlow | Topology | StreamsBuilder:
    """Return the object that `APP.py[:name]` names; raise `ConfigError` if that is ambiguous."""
    from stoatflow.app import StoatFlow
    from stoatflow.builder import StreamsBuilder
    from stoatflow.cli.loading import names_of, split
    from stoatflow.errors import ConfigError
    from stoatflow.topology import Topology

    kinds = (StoatFlow, Topology, StreamsBuilder)
    file, name = split(app)
    defined = {name: value for name, value in names_of(file).items() if isinstance(value, kinds)}
    if name is not None and name in defined:
        return defined[name]
    listed = ", ".join(f"{name} (a {type(value).__name__})" for name, value in defined.items())
    if name is not None or not defined:
        what = f"{file} defines no StoatFlow, Topology or StreamsBuilder" + (f" named '{name}'" if name else "")
        raise ConfigError(
            what + (f"; it defines {listed}" if listed else ""),
            next_step="name one of them: FILE:NAME" if listed else "put one into a variable of the module",
        )
    for usual in _USUAL:
        if usual in defined:
            return defined[usual]
    if len({id(value) for value in defined.values()}) == 1:
        return next(iter(defined.values()))
    raise ConfigError(f"{file} defines {listed}", next_step="say which: FILE:NAME")


def _built(found: Topology | StreamsBuilder, settings: Settings) -> Topology:
    from stoatflow.builder import StreamsBuilder

    return found.build(settings) if isinstance(found, StreamsBuilder) else found.for_settings(settings)


def found_flags(pairs: list[str]) -> dict[str, object]:
    """Return the settings of `--set NAME=VALUE`; raise `ConfigError` for another form."""
    from stoatflow.errors import ConfigError

    flags: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {pair}: a name and a value are needed", next_step="write --set NAME=VALUE")
        flags[name.strip()] = value.strip()
    return flags


def _flags(given: argparse.Namespace) -> dict[str, object]:
    flags = found_flags(given.set)
    flags |= {name: getattr(given, flag) for flag, name in _FLAGS.items() if getattr(given, flag) is not None}
    if given.strict:
        flags["config.strict"] = True
    return flags


def _settings(file: str | None, flags: dict[str, object]) -> Settings:
    from stoatflow.settings import Settings

    return Settings(flags) if file is None else Settings.from_file(file, flags)


def _check(settings: Settings, given: argparse.Namespace) -> None:
    """Check the settings; if there is no file of settings, and one is needed, say how to give it."""
    from stoatflow.errors import ConfigError

    try:
        settings.check()
    except ConfigError as error:
        if given.config is not None or "is not set" not in error.message:
            raise
        beside = [Path(given.app).parent / name for name in _FILES]
        found = next((file for file in beside if file.is_file()), None)
        how = (
            f"add --config {found}"
            if found
            else "give --application-id ID and --bootstrap HOST:PORT (embedded:PATH needs no broker), or --config FILE"
        )
        raise ConfigError(error.message, next_step=how) from None


def _print_summary(given: argparse.Namespace, application: str, topology: Topology) -> None:
    """Print what was built."""
    plan = json.loads(topology.plan.physical_json)
    reads = sorted({name for source in plan["sources"] for name in (*source["topics"], source.get("pattern")) if name})
    writes = sorted({sink["topic"] for sink in plan["sinks"] if sink.get("topic")})
    stores = sorted(store["name"] for store in plan["stores"])
    found = {"reads": reads, "writes": writes, "stores": stores}
    if given.json:
        print_json(given, {"application": application, "valid": True, **found})
        return
    print(f"{application}: the topology and the settings are valid")
    for what, names in found.items():
        print(f"{what}: {', '.join(names) or 'none'}")
