"""Write the pages of docs/reference from the engine's own tables: `reference.py`, or `reference.py --check`.

Takes the tables of the native module, of the twins on Spark, of `stoatflow explain`, and the headings of the decisions.
Writes settings.md, streams-config.md, errors.md, metrics.md, spark.md, adr/README.md, and measured.json for the
package; with `--check` exit code 1 if they are stale. Defines no setting or error itself.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import measured

from stoatflow import errors
from stoatflow._runtime.bridge import error_kinds, settings_schema, streams_config_markdown
from stoatflow.explain.catalog import TYPES
from stoatflow.explain.causes import CAUSES
from stoatflow.spark import unsupported
from stoatflow.spark.twin import faithful
from stoatflow.spark.twin import settings as meaning

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = DOCS / "reference"
MEASURED = ROOT / "python" / "stoatflow" / "explain" / "measured.json"
TESTS = ROOT / "tests"
NOTE = "<!-- Written by `make docs` (scripts/reference.py) from the engine's own tables. Edits here are lost. -->"


def settings_page() -> str:
    """Return the page of all settings."""
    rows = [
        f"| `{name}` | {TYPES.get(kind, kind)} | {_default(default)} | {_cell(text)} |"
        for name, kind, default, text in settings_schema()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            NOTE,
            "",
            "Names are those of Kafka Streams where it has the setting. How to give them, and in which order they win:",
            "[configuration](../guide/configuration.md).",
            "",
            "| name | type | default | what it does |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def streams_config_page() -> str:
    """Return the page of Kafka Streams' names."""
    return f"""# Every name of Kafka Streams' StreamsConfig

{NOTE}

A configuration of Kafka Streams starts as it is. Names that mean something here are taken over or mapped; the others
are accepted, and one line of the log for each says why it doesn't matter. With `config.strict=true` (or `strict=True`)
they are refused. Names that nobody knows are always refused. How to move an application:
[moving from Kafka Streams](../guide/moving-from-kafka-streams.md).

{streams_config_markdown()}"""


def errors_page() -> str:
    """Return the page of all errors."""
    rows = [
        f"| [{_class(kind)}](#{_anchor(kind)}) | `{kind}` | {_meaning(kind)} | {_exit_code(kind)} |"
        for kind, _, _ in error_kinds()
    ]
    sections = [line for kind, action, _ in error_kinds() for line in _error_section(kind, action)]
    return "\n".join(
        [
            "# Errors",
            "",
            NOTE,
            "",
            "Every error is a `StoatFlowError`, one class per action that its reader has to take. It carries",
            "`message`, `kind`, `next_step` and `coordinates` (what is known of function, node, store, topic,",
            "partition, offset, lane, epoch). The exception of a function of yours is the `__cause__` of a",
            "`ProcessingError`. `exit_code` is what the command line ends with: 2 for wrong settings, arguments or",
            "topologies, 3 for `StalledError`, 4 for `FencedError` (both: a script too that doesn't catch it), and 1",
            "for every other error. [Deploying](../guide/deploying.md) tells what a supervisor does with them.",
            "",
            "Two classes are no `StoatFlowError`. `RowError` (of a row and a reason) is yours to raise, in a function",
            "of [`map_batches`](../guide/arrow.md). `WorkerError` is what a worker answered instead of a result:",
            "`on_error` of an [`offload`](../guide/offload.md) gets it.",
            "",
            "On the command line, and at the end of a traceback (Python 3.11 and newer), an error ends with a line",
            "such as `more: stoatflow explain fenced`: `error.more`. `stoatflow explain` says without a network what",
            "stands here, by the class or the kind.",
            "",
            "| class | kind | what happened | exit code |",
            "|---|---|---|---|",
            *rows,
            "",
            *sections,
        ]
    )


def _error_section(kind: str, action: str) -> list[str]:
    causes = CAUSES[kind]
    return [
        f"## {_class(kind)}",
        "",
        _meaning(kind),
        "",
        "Usual causes:",
        "",
        *(line for cause in causes.usual for line in _wrapped(f"- {cause}", "  ")),
        "",
        *_wrapped(f"What to do, unless the message knows better: {action}."),
        "",
        "How to see it:",
        "",
        *(line for place in causes.see for line in _wrapped(f"- {place}", "  ")),
        f"- [{_title(causes.page)}](../{causes.page})",
        "",
    ]


def _wrapped(text: str, further: str = "") -> list[str]:
    return textwrap.wrap(text, 110, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)


def _title(page: str) -> str:
    """Return the heading of a page, or of a section."""
    file, _, anchor = page.partition("#")
    headings = re.findall(r"^#+ (.*)$", (DOCS / file).read_text("utf-8"), flags=re.MULTILINE)
    if not anchor:
        return str(headings[0])
    return str(next(each for each in headings if re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") == anchor))


def metrics_page() -> str:
    """Return the page of metrics and drop reasons."""
    return "\n".join(
        [
            "# Drops and metrics",
            "",
            NOTE,
            "",
            "`/metrics` of the [admin port](admin.md#metrics) gives all of this; that page says which to watch first,",
            "and [monitoring](../guide/monitoring.md) has alerts and a dashboard. `stoatflow explain NAME` says the",
            "same without a network.",
            "",
            "## Why records are dropped",
            "",
            "Nothing is dropped silently: `stoatflow_dropped_records_total` counts by node and by one of these",
            "reasons.",
            "",
            "| reason | |",
            "|---|---|",
            *(f"| `{name}` | {_cell(text)} |" for name, text in measured.drops()),
            "",
            "## Metrics",
            "",
            "Each carries the label `application_id`, but for those of the process.",
            "",
            "| name | type | |",
            "|---|---|---|",
            *(f"| `{name}` | {kind} | {_cell(text)} |" for name, kind, text in measured.metrics()),
            "",
            *_kafka_clients(),
            *_kafka_streams(),
        ]
    )


def _kafka_clients() -> list[str]:
    """Return what the metrics of the Kafka clients count."""
    return [
        "## Kafka clients",
        "",
        "`stoatflow_client_*` count the requests of the native client, which is the default. The label `client` is",
        "`consumer`, `producer` or `admin`; `api` is the name of a request in Kafka's protocol (`Produce`, `Fetch`).",
        "With `kafka.client=librdkafka`, and on embedded topics, these metrics have no samples.",
        "",
        "- A duration ends when the client reads the answer. A `Fetch` includes the wait for records at the broker,",
        "  and its answer may wait in the socket until the application wants more: it says little about the broker.",
        "- Requests without an answer are those of a lost connection or a timeout. A request in flight when the",
        "  client itself closed the connection counts neither as answered nor as unanswered.",
        "- Errors are codes in answers, by Kafka's name. Most of them are retried: after a new leader,",
        "  `NOT_LEADER_OR_FOLLOWER` comes and goes. One answer may have many, one for each partition.",
        "- Retries of `Produce` are record batches; of other APIs, requests.",
        "",
    ]


def _kafka_streams() -> list[str]:
    """Return the metrics of Kafka Streams: those that exist here, and the others with the reason."""
    return [
        "## Names of Kafka Streams",
        "",
        "`/metrics?names=kafka-streams` gives what means the same in Kafka Streams 4.1, and nothing else, under the",
        "names that the JMX exporter of Prometheus makes of its metrics, for",
        "[dashboards that are there](../guide/monitoring.md#dashboards-of-kafka-streams). `client_id` is",
        "`application.id`; `thread_id` is a lane, or the thread that commits; there are no tasks, so nothing has a",
        "`task_id`. Rates and latencies are of the last minute, latencies of the last 64 commits at most.",
        "",
        "| name | type | here | what it is |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | {kind} | {_ours(ours)} | {_cell(text)} |"
            for name, kind, ours, text in measured.kafka_streams()
        ),
        "",
        "Not given, because nothing here means the same:",
        "",
        "| name | why |",
        "|---|---|",
        *(f"| {_shortened(names)} | {_cell(reason)} |" for reason, names in measured.no_counterpart()),
        "",
        "Of the clients within (`kafka.consumer`, `kafka.producer`, `kafka.admin.client`) there are those above only:",
        "the others are about Java's clients.",
        "",
    ]


def _ours(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _shortened(names: list[str]) -> str:
    """Return the names with one reason; each kind of Kafka Streams' metrics is named once."""
    groups: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition("_metrics_")
        groups.setdefault(f"{kind}_metrics_", []).append(rest)
    return "; ".join(f"`{kind}`: " + ", ".join(f"`{rest}`" for rest in rests) for kind, rests in groups.items())


def decisions_page() -> str:
    """Return the list of decisions."""
    rows = []
    for page in sorted((DOCS / "adr").glob("[0-9]*.md")):
        text = page.read_text("utf-8")
        number, _, title = text.splitlines()[0].removeprefix("# ").partition(": ")
        date = re.search(r"\d{4}-\d\d-\d\d", text.partition("\n## ")[0])
        if number != "0000":  # the template
            rows.append(f"| [{number}]({page.name}) | {_cell(title)} | {'' if date is None else date[0]} |")
    return "\n".join(
        [
            "# Decisions",
            "",
            NOTE.replace("the engine's own tables", "the pages themselves"),
            "",
            "What was not obvious, with the reasons, and what spoke against.",
            "",
            "| | decision | date |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def measured_table() -> str:
    """Return the tables from the engine's source that the package contains."""
    table = {"drops": measured.drops(), "metrics": measured.metrics()}
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def spark_page() -> str:
    """Return the page of operators that the twins on Spark support, support with a difference, or refuse."""
    return "\n".join(
        [
            "# What runs on Spark, and what is refused",
            "",
            NOTE,
            "",
            "[The batch twin](../guide/outgrow-one-machine.md) and",
            "[the streaming twin](../guide/outgrow-one-machine.md#the-streaming-twin) run the same engine in Spark's",
            "tasks. What can't be the same there is refused by name, before the first record.",
            "",
            *_same(
                "batch", "twin_differs.txt", "records by key in their order with timestamps and headers, and stores"
            ),
            *_same("streaming", "stream_differs.txt", "three records in a trigger, with restarts between triggers"),
            "## Operators",
            "",
            "| operator | batch | streaming |",
            "|---|---|---|",
            *(_verdicts(f"`{name}`", name) for name in faithful.OPERATORS),
            "",
            "## Functions, stores and other parts",
            "",
            "| what | batch | streaming |",
            "|---|---|---|",
            *(_verdicts(name, name) for name in faithful.OTHERS),
            "",
            "## Settings",
            "",
            'Of an application, `StoatFlow(..., engine="spark")`, or of the command. What has no effect is accepted,',
            "and a line of the log says why; with `config.strict=true` it is refused. `security.`, `ssl.` and `sasl.`",
            "settings go to Kafka's client in Spark ([how](../guide/outgrow-one-machine.md#secured-clusters)).",
            "",
            "| setting | on Spark |",
            "|---|---|",
            *(f"| `{name}` | {_verdict(verdict)} |" for name, verdict in meaning.SETTINGS.items()),
            "",
            "## Methods of the application",
            "",
            "Its life is the same: `start`, `run`, `wait`, `wait_until`, `close`, `with`, `state`, listeners of states",
            "and hooks, with `stoatflow.spark.SparkOptions` for what only Spark knows. Refused by name:",
            "",
            "| of `StoatFlow` | why, and what instead |",
            "|---|---|",
            *(f"| `{name}` | {_cell(text)} |" for name, text in (unsupported.ARGUMENTS | unsupported.METHODS).items()),
            "",
        ]
    )


def _same(twin: str, file: str, how: str) -> list[str]:
    """Return how many vectors have the same results, and why others don't."""
    listed = (TESTS / "spark" / file).read_text("utf-8").splitlines()
    differs = [line for line in listed if line and not line.startswith("#")]
    count = len(list((TESTS / "conformance" / "vectors").glob("*.json")))
    same = count - len(differs)
    why = Counter(line.partition(": ")[2] for line in differs)
    share = f"{same} of the {count} recorded vectors of Kafka Streams ({same / count:.0%})"
    return [
        f"**{share} come out the same on the {twin} twin**:",
        f"{how}. The others:",
        "",
        *(f"- {reason}: {number}" for reason, number in why.items()),
        "",
    ]


def _verdicts(shown: str, name: str) -> str:
    batch = faithful.OPERATORS.get(name) or faithful.OTHERS[name]
    streaming = faithful.STREAMING.get(name, batch)
    second = "as the batch" if streaming == batch and batch.what != faithful.SAME else _verdict(streaming)
    return f"| {shown} | {_verdict(batch)} | {second} |"


def _verdict(verdict: faithful.Verdict) -> str:
    return _cell(verdict.what if verdict.what == faithful.SAME else f"**{verdict.what}**: {verdict.text}")


def pages() -> dict[Path, str]:
    """Return every page with what it must hold."""
    return {
        PAGES / "settings.md": settings_page(),
        PAGES / "streams-config.md": streams_config_page(),
        PAGES / "errors.md": errors_page(),
        PAGES / "metrics.md": metrics_page(),
        DOCS / "adr" / "README.md": decisions_page(),
        MEASURED: measured_table(),
        PAGES / "spark.md": spark_page(),
    }


def stale() -> list[str]:
    """Return the names of pages that don't hold what they must."""
    return [
        str(page.relative_to(ROOT))
        for page, text in pages().items()
        if not page.is_file() or page.read_text("utf-8") != text
    ]


def _default(default: str | None) -> str:
    return "**needed**" if default is None else f"`{default}`"


def _class(kind: str) -> str:
    return f"`{errors.ERRORS_BY_KIND[kind].__name__}`"


def _anchor(kind: str) -> str:
    return errors.ERRORS_BY_KIND[kind].__name__.lower()


def _exit_code(kind: str) -> int:
    return errors.ERRORS_BY_KIND[kind].exit_code


def _meaning(kind: str) -> str:
    return _cell((errors.ERRORS_BY_KIND[kind].__doc__ or "").strip().splitlines()[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for name in found:
            print(f"{name} is stale; run: make docs", file=sys.stderr)
        return 1 if found else 0
    for page, text in pages().items():
        page.write_text(text, "utf-8")
        print(f"written: {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
