"""The examples run as a newcomer runs them, and print what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

WORD_COUNT_APP = [
    "Topologies:",
    "   Sub-topology: 0",
    "    Source: KSTREAM-SOURCE-0000000000 (topics: [text-input])",
    "      --> KSTREAM-FLATMAPVALUES-0000000001",
    "    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])",
    "      --> KSTREAM-FILTER-0000000002",
    "      <-- KSTREAM-SOURCE-0000000000",
    "    Processor: KSTREAM-FILTER-0000000002 (stores: [])",
    "      --> KSTREAM-KEY-SELECT-0000000003",
    "      <-- KSTREAM-FLATMAPVALUES-0000000001",
    "    Processor: KSTREAM-KEY-SELECT-0000000003 (stores: [])",
    "      --> word-count-store-repartition-filter",
    "      <-- KSTREAM-FILTER-0000000002",
    "    Processor: word-count-store-repartition-filter (stores: [])",
    "      --> word-count-store-repartition-sink",
    "      <-- KSTREAM-KEY-SELECT-0000000003",
    "    Sink: word-count-store-repartition-sink (topic: word-count-store-repartition)",
    "      <-- word-count-store-repartition-filter",
    "",
    "  Sub-topology: 1",
    "    Source: word-count-store-repartition-source (topics: [word-count-store-repartition])",
    "      --> KSTREAM-AGGREGATE-0000000004",
    "    Processor: KSTREAM-AGGREGATE-0000000004 (stores: [word-count-store])",
    "      --> KTABLE-TOSTREAM-0000000008",
    "      <-- word-count-store-repartition-source",
    "    Processor: KTABLE-TOSTREAM-0000000008 (stores: [])",
    "      --> KSTREAM-SINK-0000000009",
    "      <-- KSTREAM-AGGREGATE-0000000004",
    "    Sink: KSTREAM-SINK-0000000009 (topic: wordcount-output)",
    "      <-- KTABLE-TOSTREAM-0000000008",
    "",
    "",
    "CREATED -> STARTING",
    "STARTING -> RESTORING",
    "RESTORING -> RUNNING",
    "kafka, from the store: 1",
    "RUNNING -> STOPPING",
    "STOPPING -> STOPPED",
    "3 a",
    "1 cluster",
    "1 is",
    "1 kafka",
    "2 library",
    "1 not",
    "1 streams",
]

EXPECTED = {
    "arrow/numpy_scores.py": [
        "mill lane: 250.0 instead of 301.0",
        "park view: 420.0 instead of 501.0",
    ],
    "arrow/pandas_frames.py": [
        "ann /shop/tea 4.0 short",
        "ann /shop/cups 75.5 long",
        "cyd /shop/tea None None",
    ],
    "arrow/polars_enrich.py": [
        "roof 88.7 12 2026-07-01T12:00:00Z",
        "hall 69.8 12 2026-07-01T12:00:00Z",
    ],
    "arrow/sklearn_scoring.py": [
        "suspicious-payments: bob 950.0",
        "payments-scored: ann 20.0",
        "payments-scored: cyd 700.0",
    ],
    "arrow/sql_queries.py": [
        "people: by index by_country, 2 rows read, country = 'DK'",
        "ann 20",
        "bob 950",
        "970",
        "950",
        "['cyd']",
        "(3, 1670)",
    ],
    "arrow/store_queries.py": [
        "DK 1005 2",
        "SE 740 1",
        "ann 55",
        "cyd 700",
        "bob 950",
    ],
    "word_count.py": [
        "  6 to",
        "  2 be",
        "  2 sleep",
        "  1 die",
        "  1 dream",
        "  1 is",
        "  1 not",
        "  1 or",
        "  1 perchance",
        "  1 question",
        "  1 that",
        "  1 the",
    ],
    "serve_state.py": [
        '{"customer": "ann", "revenue": 42}',
        '[["ann", 42], ["bob", 20]]',
        '[["ann", 42]]',
    ],
    "json_filter.py": [
        'ann {"id": 1, "amount": 250, "size": "large"}',
        'ann {"id": 5, "amount": 1200, "size": "huge"}',
    ],
    "jobs/customer_view.py": [
        "2: {'id': 2, 'name': 'Bob', 'city': 'Bergen', 'points': 55}",
        "3: None",
        "Bergen: [('2', 'Bob', 55)] by index",
    ],
    "jobs/enrich_orders.py": [
        "{'customer': 'ann', 'number': 0, 'rating': 3}",
        "{'customer': 'bob', 'number': 1, 'rating': 3}",
        "{'customer': 'nobody', 'number': 2, 'rating': None}",
        "{'customer': 'ann', 'number': 3, 'rating': 3}",
    ],
    "jobs/fraud_detection.py": [
        "minute 12: often locked",
        "minute 72: often unlocked",
        "minute 75: rarely locked",
    ],
    "jobs/iot_windows.py": [
        "minute 0: 21.0 (by the time of its records)",
        "minute 1: 24.0 (because nothing comes)",
        "late: [99.0]",
    ],
    "jobs/report_trades.py": [
        "asked: [{'instrument': 'XS01', 'amount': 500}, {'instrument': 'XS02', 'amount': 70}]",
        "reported: [{'trade': 1, 'receipt': 'R-1'}]",
        "asked again: ['t2']",
        "unreported: ['t2']",
    ],
    "kafka_streams/line_split.py": [
        "all | streams | lead | to | kafka | hello | kafka",
    ],
    "kafka_streams/low_count_alerts.py": [
        "bob did only 1 in an hour",
    ],
    "kafka_streams/page_view_region.py": [
        "UNKNOWN, seven days from day 2: 1",
        "UNKNOWN, seven days from day 3: 1",
        "UNKNOWN, seven days from day 4: 1",
        "UNKNOWN, seven days from day 5: 1",
        "UNKNOWN, seven days from day 6: 1",
        "UNKNOWN, seven days from day 7: 1",
        "UNKNOWN, seven days from day 8: 1",
        "europe, seven days from day 1: 1",
        "europe, seven days from day 2: 2",
        "europe, seven days from day 3: 2",
        "europe, seven days from day 4: 2",
        "europe, seven days from day 5: 2",
        "europe, seven days from day 6: 2",
        "europe, seven days from day 7: 2",
        "europe, seven days from day 8: 1",
    ],
    "kafka_streams/pipe.py": [
        "all streams lead to kafka",
        "hello kafka streams",
    ],
    "kafka_streams/shopping.py": [
        "customer: {'cart': ['tea', 'cup'], 'wishes': ['pot'], 'bought': ['tea']}",
        "sessions: [1, 2]",
        "paid: [{'product': 'p1', 'amount': 2, 'paid': 9}]",
        "named: ['2 x tea', '2 x green tea']",
    ],
    "kafka_streams/temperature.py": [
        "[0, 5000) 25",
        "[0, 5000) 25",
        "[10000, 15000) 31",
    ],
    "kafka_streams/word_count_app.py": WORD_COUNT_APP,
    "kafka_streams/word_count_processor.py": [
        "1000 all 2",
        "1000 kafka 1",
        "1000 lead 1",
        "1000 of 1",
        "1000 streams 1",
        "1000 them 1",
        "1000 to 1",
    ],
    "tracing.py": [
        "price order: trace 4bf92f3577b34da6a3ce929d0e0e4736, parent 00f067aa0ba902b7",
        "o1 125, the trace goes on: True",
    ],
}


def run(arguments: list[str], folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STOATFLOW_")}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | {"TMPDIR": str(folder), "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_example_is_tested() -> None:
    assert sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_examples_print_the_expected_output(example: str, tmp_path: Path) -> None:
    assert run([str(EXAMPLES / example)], tmp_path).splitlines() == EXPECTED[example]


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_examples_can_be_described(example: str, tmp_path: Path) -> None:
    text = run(["-m", "stoatflow", "describe", str(EXAMPLES / example)], tmp_path)
    assert text.startswith("Topologies:")
