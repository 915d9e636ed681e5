"""`stoatflow top [APP_URL]`: show continuously what keeps a running application busy.

Polls `/top` of the admin port every few seconds. On a terminal the picture is redrawn until Ctrl-C; elsewhere, or with
`--once`, it is printed once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from stoatflow.cli.admin_port import USUAL_PORT, RefusedError, add_access, admin_port, usual_address
from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from stoatflow.cli.admin_port import AdminPort

# The terminal's alternate screen, which preserves the lines above; the cursor is hidden, as nothing is typed.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_WORDS = ("in", "node")
_HOME, _CLEAR_BELOW, _CLEAR_LINE = "\x1b[H", "\x1b[J", "\x1b[K"


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "top",
        help=COMMANDS["top"],
        description="Show the busiest lanes, the slowest functions, the keys with the most records, the largest "
        "stores, partitions that are behind and records that are left out, the largest first.",
    )
    parser.add_argument(
        "url",
        metavar="APP_URL",
        nargs="?",
        help=f"the admin port (default: that of STOATFLOW_ADMIN_LISTEN, else http://127.0.0.1:{USUAL_PORT})",
    )
    parser.add_argument("--interval", metavar="S", type=float, default=2.0, help="between two looks (default: 2)")
    parser.add_argument("--seconds", metavar="S", type=int, default=10, help="rates are of so long (default: 10)")
    parser.add_argument("--rows", metavar="N", type=int, default=5, help="of each list (default: 5)")
    parser.add_argument("--once", action="store_true", help="print it once")
    add_access(parser)
    add_json(parser, "the answer of the port as a JSON object, once")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Poll, show."""
    if given.interval <= 0 or given.seconds < 1 or given.rows < 1:
        raise ConfigError("--interval, --seconds and --rows are more than 0", next_step="leave them out")
    port = admin_port(given.url or usual_address(os.environ), given)
    try:
        if given.json:
            print_json(given, _look(port, given))
        elif given.once or not sys.stdout.isatty():
            print("\n".join(picture(_look(port, given))))
        else:
            _watch(port, given)
    except RefusedError as refused:
        print(f"stoatflow: {refused}", file=sys.stderr)
        return 1
    return 0


def _look(port: AdminPort, given: argparse.Namespace) -> dict[str, Any]:
    return port.get("/top", {"seconds": str(given.seconds), "limit": str(given.rows)})


def _watch(port: AdminPort, given: argparse.Namespace) -> None:
    """Redraw until Ctrl-C. A failed first request is an error; later ones may mean a restart."""
    lines = list(picture(_look(port, given)))
    try:
        sys.stdout.write(_ENTER)
        while True:
            _draw(lines)
            time.sleep(given.interval)
            try:
                lines = list(picture(_look(port, given)))
            except RefusedError as refused:
                lines = [f"{refused}", "", *lines]
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _draw(lines: list[str]) -> None:
    width, height = shutil.get_terminal_size()
    shown = [line[:width] + _CLEAR_LINE for line in lines[: height - 1]]
    sys.stdout.write(_HOME + "\n".join(shown) + "\n" + _CLEAR_BELOW)
    sys.stdout.flush()


def picture(top: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the picture."""
    yield (
        f"{top['application_id']}  {top['state']}  {_rate(top['records_per_second'])} records/s in, "
        f"{_rate(top['committed_per_second'])} committed, over {top['seconds']:.0f} s"
    )
    yield from _table(
        ("lane", "busy", "records/s", "queued", "in"),
        (
            (each["lane"], _share(each["busy"]), _rate(each["records_per_second"]), each["queued_items"],
             each["function"] or "")
            for each in top["lanes"]
        ),
    )  # fmt: skip
    yield from _table(
        ("function", "busy", "waits", "calls/s", "ms/call", "node"),
        (
            (each["function"], _share(each["busy"]), _share(each["waiting"]), _rate(each["calls_per_second"]),
             f"{each['mean_ms']:.3f}", each["node"])
            for each in top["functions"]
        ),
    )  # fmt: skip
    yield from _table(
        ("key", "share", "lane", "node"),
        ((_one_line(each["key"]), _share(each["share"]), each["lane"], each["node"]) for each in top["keys"]),
    )
    yield from _table(
        ("store", "keys", "disk", "memory"),
        (
            (each["store"], each["keys"], _size(each["disk_bytes"]), _size(each["memory_bytes"]))
            for each in top["stores"]
        ),
    )
    yield from _table(
        ("behind", "lag", "per s"),
        (
            (f"{each['topic']}-{each['partition']}", each["lag"], f"{each['lag_per_second']:+.1f}")
            for each in top["partitions"]
        ),
    )
    yield from _table(
        ("left out", "per s", "total", "node"),
        ((each["reason"], _rate(each["per_second"]), each["total"], each["node"]) for each in top["drops"]),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """Return a table after an empty line, or nothing without rows. Numbers are right-aligned, except in column 1."""
    texts = [tuple(map(str, row)) for row in rows]
    if not texts:
        return
    widths = [max(len(row[at]) for row in (head, *texts)) for at in range(len(head))]
    yield ""
    for row in (head, *texts):
        first, *rest = (
            cell.ljust(width) if name in {head[0], *_WORDS} else cell.rjust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        )
        yield "  ".join([first, *rest]).rstrip()


def _one_line(key: str) -> str:
    return key if key.isprintable() else repr(key)


def _share(part: float) -> str:
    return f"{part * 100:.0f} %"


def _rate(number: float) -> str:
    return f"{number:.1f}" if number < 100 else f"{number:.0f}"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
