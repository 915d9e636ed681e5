"""`stoatflow prove app.py --java app.jar --topology com.acme.App::topology`: compare a port with its original.

Takes both topologies, and recorded or generated inputs. Prints a report (text or JSON); exit code 0 equal, 1 different,
2 could not be run. Starts Java, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.prove.engine_side import EngineSide
    from stoatflow.prove.inputs import Input
    from stoatflow.settings import Settings


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "prove",
        help=COMMANDS["prove"],
        description="Run a Java topology in Kafka Streams' TopologyTestDriver and its port in Python with the same "
        "inputs, compare topics and stores, and show the first difference with the fewest inputs that lead to it. Exit "
        "code: 0 equal, 1 different, 2 could not be run.",
    )
    parser.add_argument("file", metavar="APP.py[:topology]", help="a Python file or a module with the port")
    java = parser.add_argument_group("the original")
    java.add_argument(
        "--java",
        action="append",
        default=[],
        metavar="PATH",
        help="the application's jar, a folder of classes or jars, or a class path (may be given again)",
    )
    java.add_argument(
        "--topology",
        required=True,
        metavar="CLASS::METHOD",
        help="the static method that makes the topology, such as com.acme.App::topology; main is called too, and stops "
        "at its KafkaStreams",
    )
    java.add_argument("--kafka-streams", metavar="VERSION", help="fetch Kafka Streams and test utilities with Maven")
    parser.add_argument("--config", metavar="FILE", help="the configuration of both, such as Java's .properties")
    parser.add_argument("--settings", metavar="FILE", help="other settings for the port")
    given = parser.add_argument_group("inputs")
    given.add_argument("--inputs", type=Path, metavar="FILE", help="recorded ones (stoatflow record), JSON lines")
    given.add_argument("--generate", type=int, metavar="N", help="make so many, from the serdes of the port's sources")
    given.add_argument("--seed", type=int, default=1, metavar="S", help="with --generate: others (default: 1)")
    for part in ("keys", "values"):
        given.add_argument(
            f"--{part}",
            action="append",
            default=[],
            metavar="TOPIC=SHAPE",
            help=f"with --generate: what {part} look like, as JSON: "
            + ("""'users=["ann", "bob"]'""" if part == "keys" else """'orders={"user": ["ann"], "amount": "int"}'"""),
        )
    given.add_argument("--like", type=Path, metavar="FILE", help="with --generate: take keys and values from there")
    given.add_argument("--nulls", action="store_true", help="with --generate: keys and values that are null")
    compared = parser.add_argument_group("what is compared, and told")
    compared.add_argument("--same-json", action="store_true", help="values that are the same JSON are the same")
    compared.add_argument(
        "--store", action="append", default=[], metavar="JAVA=PYTHON", help="two stores that have different names"
    )
    compared.add_argument(
        "--runs", type=int, default=400, metavar="N", help="at most so many to shorten (default: 400)"
    )
    compared.add_argument("--keep", type=Path, metavar="FILE", help="write the inputs that show the difference")
    add_json(compared)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Compare, report."""
    from stoatflow.cli.error_output import print_error
    from stoatflow.cli.loading import UserFileError
    from stoatflow.errors import StoatFlowError

    try:
        return _prove(given)
    except StoatFlowError as error:
        print_error(error)
    except UserFileError as error:
        print(error.text, end="", file=sys.stderr)
    return 2


def _prove(given: argparse.Namespace) -> int:
    from stoatflow.cli.run import find
    from stoatflow.errors import ConfigError
    from stoatflow.prove import proving
    from stoatflow.prove.engine_side import EngineSide
    from stoatflow.prove.jvm import KafkaStreams
    from stoatflow.prove.report import Report
    from stoatflow.settings import Settings

    config = Settings(environ={}) if given.config is None else Settings.from_file(given.config, environ={})
    settings = config if given.settings is None else Settings.from_file(given.settings, environ={})
    settings = proving.engine_settings(settings)
    try:
        settings.check()
    except ConfigError as error:
        if given.config is None or given.settings is not None:
            raise
        raise ConfigError(
            f"{given.config} as the port's settings: {error.message}",
            next_step="give the port a file of its own with --settings FILE: names of yours are for Java only",
        ) from error
    python = EngineSide(_topology(find(given.file), settings), given.file, settings)
    inputs, source = _inputs(given, python)
    with KafkaStreams(given.java, given.kafka_streams, given.topology, proving.java_config(config)) as java:
        both = proving.Sides(java, python, given.same_json, dict(_pair("store", one) for one in given.store))
        proof = proving.prove(both, inputs, most_runs=given.runs, tell=_print_progress)
    if proof.shortened is not None and given.keep is not None:
        _keep(given.keep, proof.shortened.inputs)
    report = Report(proof, python, source, given.keep)
    if given.json:
        print_json(given, json.loads(report.json()))
    else:
        print(report.text())
    return 0 if proof.difference is None else 1


def _keep(file: Path, inputs: list[Input]) -> None:
    from stoatflow.errors import ConfigError
    from stoatflow.prove.inputs import write

    try:
        write(file, inputs)
    except OSError as error:
        raise ConfigError(f"{file} can't be written: {error}", next_step="name another file with --keep") from error


def _topology(found: Any, settings: Settings) -> Any:
    from stoatflow.app import StoatFlow
    from stoatflow.builder import StreamsBuilder

    if isinstance(found, StoatFlow):
        return found.topology
    return found.build(settings) if isinstance(found, StreamsBuilder) else found


def _inputs(given: argparse.Namespace, python: EngineSide) -> tuple[list[Input], str]:
    from stoatflow.errors import ConfigError
    from stoatflow.prove import inputs as files
    from stoatflow.prove.generate import Generator, Shapes

    if (given.inputs is None) == (given.generate is None):
        raise ConfigError(
            "there must be inputs: recorded ones or made ones",
            next_step="give --inputs FILE (stoatflow record makes one), or --generate 1000",
        )
    if given.inputs is not None:
        return files.read(given.inputs, python.source_serdes), str(given.inputs)
    if given.generate < 1:
        raise ConfigError(f"--generate {given.generate} makes nothing", next_step="write a number from 1 on")
    like = [] if given.like is None else files.read(given.like, python.source_serdes)
    shapes = Shapes(
        {topic: _shape("keys", text) for topic, text in (_pair("keys", one) for one in given.keys)},
        {topic: _shape("values", text) for topic, text in (_pair("values", one) for one in given.values)},
        [one for one in like if isinstance(one, files.InputRecord)],
    )
    made = Generator(python.plan, shapes, given.seed, nulls=given.nulls).inputs(given.generate)
    return made, f"made, seed {given.seed}"


def _pair(option: str, text: str) -> tuple[str, str]:
    from stoatflow.errors import ConfigError

    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"--{option} {text}: a name and a value are needed", next_step=f"write --{option} NAME=VALUE")
    return name, value


def _shape(option: str, text: str) -> Any:
    from stoatflow.errors import ConfigError

    try:
        return json.loads(text)
    except ValueError:
        if text in ("str", "int", "float", "bool", "null"):
            return text
        raise ConfigError(
            f"--{option}: {text} is no JSON", next_step=f"""write it in quotes, as in --{option} 'orders=["a", "b"]'"""
        ) from None


def _print_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"stoatflow: {text}", file=sys.stderr)
