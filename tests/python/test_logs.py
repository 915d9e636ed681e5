"""The engine's lines in Python's `logging`, and the context of each line that a function logs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from hanging import BOUND_S, Hanging

USER = logging.getLogger("shop.prices")


class Kept(logging.Handler):
    """Keeps records as they were when they were logged."""

    def __init__(self, *filters: logging.Filter) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        for each in filters:
            self.addFilter(each)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def user() -> Iterator[Kept]:
    """The records of the functions' logger, with the context."""
    kept = Kept(sf.LogContext())
    USER.addHandler(kept)
    USER.setLevel(logging.INFO)
    yield kept
    USER.removeHandler(kept)


@pytest.fixture
def engine() -> Iterator[Kept]:
    """The records of the logger `stoatflow` at INFO."""
    kept, logger = Kept(sf.LogContext()), logging.getLogger("stoatflow")
    logger.addHandler(kept)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield kept
    sf.configure_logging("stderr")
    logger.removeHandler(kept)
    logger.level, logger.propagate = before


def run(broker: sf.EmbeddedBroker, fn: object, **settings: object) -> None:
    builder = sf.StreamsBuilder()
    prices = builder.stream("prices", key=str, value=int)
    prices.map_values(fn, name="doubled").to("doubled", key=str, value=int)
    config = {"application.id": "shop", "default.dsl.store": "in_memory", "lanes.count": 3}
    with sf.StoatFlow(builder.build(), config, broker=broker, **settings) as app:
        app.wait_until(caught_up=True)


@pytest.fixture
def broker() -> Iterator[sf.EmbeddedBroker]:
    with sf.EmbeddedBroker() as made:
        made.create_topic("prices", 2)
        made.create_topic("doubled")
        made.produce_many("prices", [(p, key, bytes(8), 7) for p, key in [(0, b"a"), (1, b"b"), (1, b"c")]])
        yield made


def test_a_log_line_of_a_function_has_its_place(broker: sf.EmbeddedBroker, user: Kept) -> None:
    def double(value: int) -> int:
        USER.info("a price")
        return 2 * value

    run(broker, double)
    lines = [record.__dict__ for record in user.records]
    assert sorted((line["topic"], line["partition"], line["offset"]) for line in lines) == [
        ("prices", 0, 0), ("prices", 1, 0), ("prices", 1, 1),
    ]  # fmt: skip
    for line in lines:
        assert line["application"] == "shop"
        assert line["node"] == "doubled"
        assert line["function"].endswith(f"test_logs.py:{double.__code__.co_firstlineno} double")
        assert line["lane"] in range(3)
        assert line["epoch"] >= 0
    assert len({line["lane"] for line in lines}) > 1


def test_outside_of_functions_there_is_no_place(broker: sf.EmbeddedBroker, user: Kept) -> None:
    USER.info("before")
    run(broker, sf.value)
    USER.info("after")
    assert [record.__dict__["application"] for record in user.records] == ["-", "-"]
    assert [record.__dict__["lane"] for record in user.records] == ["-", "-"]


def test_beside_its_functions_only_the_application_is_known(broker: sf.EmbeddedBroker, user: Kept) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("prices").to("doubled")
    with sf.StoatFlow(builder.build(), {"application.id": "shop", "default.dsl.store": "in_memory"}, broker=broker):
        USER.info("in the main thread")
    (record,) = user.records
    assert record.__dict__["application"] == "shop"
    assert record.__dict__["offset"] == "-"


def test_existing_attributes_of_a_log_record_stay(user: Kept) -> None:
    USER.info("said", extra={"offset": 12})
    assert user.records[0].__dict__["offset"] == 12


def test_log_lines_of_the_engine_reach_python(
    broker: sf.EmbeddedBroker, engine: Kept, capfd: pytest.CaptureFixture[str]
) -> None:
    before = time.time()
    sf.configure_logging()
    run(broker, sf.value)
    sf.configure_logging("stderr")
    (started,) = [record for record in engine.records if record.name == "stoatflow.start"]
    assert started.levelno == logging.INFO
    assert started.getMessage().startswith("running application=shop version=")
    assert started.__dict__["application"] == "shop"
    assert started.__dict__["fields"]["lanes"] == 3
    assert before <= started.created + 0.001 <= time.time() + 0.001
    assert "running" not in capfd.readouterr().err
    run(broker, sf.value)
    assert '"message":"running"' in capfd.readouterr().err, "there it goes without"


@pytest.mark.parametrize(("level", "comes"), [("DEBUG", True), ("info", True), (logging.ERROR, False)])
def test_the_level_may_change_while_it_runs(
    broker: sf.EmbeddedBroker, engine: Kept, level: int | str, comes: bool
) -> None:
    sf.configure_logging(level="CRITICAL")
    sf.configure_logging(level=level)
    run(broker, sf.value)
    sf.configure_logging("stderr")
    assert any(record.name == "stoatflow.start" for record in engine.records) is comes


def test_warnings_come_with_their_lane(broker: sf.EmbeddedBroker, engine: Kept) -> None:
    def refuse(_value: int) -> int:
        raise ValueError("no price")

    sf.configure_logging()
    run(broker, refuse, on_processing_error=sf.log_and_continue())
    sf.configure_logging("stderr")
    skipped = [record for record in engine.records if "no price" in record.getMessage()]
    assert skipped
    assert {record.levelno for record in skipped} <= {logging.WARNING, logging.INFO}
    assert all(isinstance(record.__dict__["lane"], int) for record in skipped)


def test_a_failing_log_handler_loses_no_other_line(broker: sf.EmbeddedBroker, engine: Kept) -> None:
    class Fails(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.getMessage())

    fails = Fails()
    logging.getLogger("stoatflow.start").addFilter(fails)
    sf.configure_logging(level="DEBUG")
    run(broker, sf.value)
    sf.configure_logging("stderr")
    logging.getLogger("stoatflow.start").removeFilter(fails)
    assert engine.records
    assert all(record.name != "stoatflow.start" for record in engine.records)


@pytest.mark.parametrize("wrong", ["loud", 1.5])
def test_an_invalid_level_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"is no level of logging\. Next: write DEBUG"):
        sf.configure_logging(level=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'stdout'\. Next: write 'python' or 'stderr'"):
        sf.configure_logging("stdout")  # type: ignore[arg-type]


LINES = """
import sys
import stoatflow as sf

builder = sf.StreamsBuilder()
prices = builder.stream("prices", key=str, value=sf.Serdes.json(), on_error=sf.log_and_continue())
left_out = sf.log_and_continue()
taxed = prices.map_values({function}, name="price", on_error=left_out)
taxed.map_values(1 / (sf.value - 2), name="tax", on_error=left_out).to("doubled", value=sf.Serdes.json())
with sf.EmbeddedBroker() as broker:
    broker.create_topic("prices", 2)
    broker.create_topic("doubled")
    config = {{"application.id": "shop", "default.dsl.store": "in_memory", "lanes.count": 2, "commit.interval.ms": 20}}
    with sf.StoatFlow(builder.build(), config, broker=broker) as app:
        for price in (b'"x"', b"2", b"1"):
            for partition in (0, 1):
                broker.produce("prices", b"k", b'{{"price": ' + price + b"}}", partition)
            app.wait_until(caught_up=True)
"""


@pytest.mark.parametrize("function", ["lambda order: order['price'] + 1", "sf.value['price'] + 1"])
def test_lines_on_standard_error_name_application_lane_and_epoch(function: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LINES.format(function=function)], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert {line["application"] for line in lines} == {"shop"}
    price, tax = [line for line in lines if line["message"] == "a record was left out"]
    assert (price["node"], tax["node"]) == ("price", "tax")
    assert {price["lane"], tax["lane"]} <= {0, 1}
    assert 0 <= price["epoch"] < tax["epoch"], "the epoch advances"


def test_lines_on_a_terminal_are_text(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    program = tmp_path / "ends.py"
    program.write_text(ENDS.replace("sf.configure_logging()\n", ""))
    ran = subprocess.run([sys.executable, program], stderr=terminal, stdout=subprocess.PIPE, check=True)
    os.close(terminal)
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(main, 65_536):
            text += part
    os.close(main)
    assert ran.stdout == b""
    (line,) = [line for line in text.decode().splitlines() if "running" in line]
    assert re.search(r"\x1b\[1;4mhttp://127\.0\.0\.1:\d+/\x1b\[0m", line), line
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    assert re.match(r"\S+Z  INFO stoatflow::start: running ", plain), plain
    assert " application=shop " in plain


ENDS = """
import logging, sys
import stoatflow as sf

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s %(message)s")
sf.configure_logging()
builder = sf.StreamsBuilder()
builder.stream("prices").to("doubled")
broker = sf.EmbeddedBroker()
broker.create_topic("prices")
broker.create_topic("doubled")
app = sf.StoatFlow(builder.build(), {"application.id": "shop", "default.dsl.store": "in_memory"}, broker=broker)
app.start()
while str(app.state) != "RUNNING":
    app.wait(0.001)
"""


def test_the_end_of_the_process_loses_no_line() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "stoatflow.start running application=shop" in ended.stdout
    assert not ended.stderr


def test_lines_that_python_cannot_log_go_to_standard_error(tmp_path: Path) -> None:
    """A function that holds the interpreter also blocks the thread that forwards log lines."""
    functions = """
import logging
logging.basicConfig(level=logging.INFO)
sf.configure_logging()
def fn(value):
    print("hangs", flush=True)
    return sum(range(10**12))
"""
    with Hanging(tmp_path, functions, settings={"stall.timeout.ms": "5s"}) as child:
        assert child.ends(6 + 2 * BOUND_S + 2) == 3, child.errors
        assert re.search(r"nothing was committed for \d+ s although records wait", child.errors), child.errors
