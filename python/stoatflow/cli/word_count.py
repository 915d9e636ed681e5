"""`stoatflow word-count`: the word count as an application of its own, which the demo runs.

Takes a broker and two topics. Writes counts to the output topic, and with `--follow` one line of JSON per interval to
standard output (the demo reads them). It ends when the input is consumed, or with Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS

if TYPE_CHECKING:
    from typing import Any

    from stoatflow import StoatFlow, Topology

INTERVAL_S = 0.1


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("word-count", help=COMMANDS["word-count"])
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT|embedded:PATH")
    parser.add_argument("--input", default="lines", metavar="TOPIC")
    parser.add_argument("--output", default="counts", metavar="TOPIC")
    parser.add_argument("--application-id", default="word-count")
    parser.add_argument("--state-dir", required=True)
    parser.add_argument("--lanes", type=int, help="default: four per core")
    parser.add_argument(
        "--flavour", choices=["native", "lambda"], default="native", help="expressions or Python lambdas"
    )
    parser.add_argument("--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2")
    parser.add_argument("--every-update", action="store_true", help="emit every update, not one per key and commit")
    parser.add_argument("--follow", action="store_true", help="print progress as JSON lines")
    parser.set_defaults(run=run)


def topology(source: str, sink: str, flavour: str) -> Topology:
    """Split lines to words, and count the words."""
    import stoatflow as sf

    builder = sf.StreamsBuilder()
    lines = builder.stream(source, key=bytes, value=str)
    if flavour == "native":
        words = lines.flat_map_values(sf.value.str.lower().str.split())
        grouped = words.group_by(sf.value, key=str, value=str)
    else:
        words = lines.flat_map_values(lambda line: line.lower().split())
        grouped = words.group_by(lambda _, word: word, key=str, value=str)
    grouped.count(store="counts").to_stream().to(sink, key=str, value=int)
    return builder.build()


def run(given: argparse.Namespace) -> int:
    """Count until the input is consumed."""
    import stoatflow as sf

    config: dict[str, Any] = {
        "application.id": given.application_id,
        "bootstrap.servers": given.bootstrap,
        "processing.guarantee": given.guarantee,
        "state.dir": given.state_dir,
    }
    if given.every_update:
        config["statestore.cache.max.bytes"] = 0
    if given.lanes is not None:
        config["lanes.count"] = given.lanes
    app = sf.StoatFlow(topology(given.input, given.output, given.flavour), config)
    app.start()
    try:
        _until_consumed(app, given.follow)
    finally:
        app.close()
    if app.error is not None:
        raise app.error
    _print_lag(app, given.follow, 0)
    return 0


def _until_consumed(app: StoatFlow, follow: bool) -> None:
    """Wait until the lag is zero. While the broker is unavailable the lag is unknown, and the engine retries."""
    from stoatflow.errors import BrokerUnavailableError

    while not app.wait(INTERVAL_S):
        lag: int | None = None
        if str(app.state) == "RUNNING":
            with contextlib.suppress(BrokerUnavailableError):
                lag = app.lag()
        _print_lag(app, follow, lag)
        if lag == 0:
            return


def _print_lag(app: StoatFlow, follow: bool, lag: int | None) -> None:
    if not follow:
        return
    metrics = app.metrics()
    shown = ("state", "records_committed", "records_out", "commits", "commit_p50_us", "commit_p99_us")
    line = {name: metrics[name] for name in shown} | {"lag": lag, "url": app.admin_url, "time": time.time()}
    print(json.dumps(line), flush=True)
    if sys.stdout.closed:
        raise BrokenPipeError
