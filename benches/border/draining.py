"""CPU cost per record of a topology over existing records, in one lane, from RUNNING to the last commit.

Takes a function that adds operators to a stream. Returns a run that can be timed, and the engine's metrics of its
functions. Owns an embedded broker in a temporary folder, for all runs of a job. Writing the input is not timed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import stoatflow as sf

Job = Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]]


def order(number: int) -> bytes:
    """JSON of about 300 bytes, twelve members, some nested."""
    return json.dumps(
        {
            "id": number, "status": "paid", "amount": 100.5 + number % 5000, "currency": "EUR", "paid": True,
            "user": {"name": f"user-{number % 1000}", "country": "NL", "since": "2021-03-04"},
            "items": [{"sku": f"sku-{number % 97}", "count": 1 + number % 3}, {"sku": "sku-gift", "count": 1}],
            "note": "please leave it with the neighbours", "channel": "web", "coupon": None,
            "first": False, "weight": 1.25,
        },
        separators=(",", ":"),
    ).encode()  # fmt: skip


class Form(NamedTuple):
    """The format of records: their serdes, and each record as bytes."""

    serde: sf.Serde[Any]
    record: Callable[[int], bytes]


ORDERS = Form(sf.Serdes.json(), order)

_TEXTS = [f"text_{at}" for at in range(17)]
# 20 fields, with the amount in the middle.
_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "id", "type": "long"},
        *({"name": name, "type": "string"} for name in _TEXTS[:9]),
        {"name": "amount", "type": "double"},
        *({"name": name, "type": ["null", "string"]} for name in _TEXTS[9:]),
        {"name": "user", "type": {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}},
    ],
}


# The same as a message, with the fields in the same order.
_MESSAGE = f"""
syntax = "proto3";
message Line {{
  int64 id = 1;
  {" ".join(f"string {name} = {at};" for at, name in enumerate(_TEXTS[:9], 2))}
  double amount = 11;
  {" ".join(f"optional string {name} = {at};" for at, name in enumerate(_TEXTS[9:], 12))}
  User user = 20;
  message User {{ string name = 1; }}
}}
"""
Decode = Literal["lazy", "dict"]


def avro(decode: Decode) -> Form:
    """Records of 20 fields, about 600 bytes; `decode` is what functions get."""
    return lines(sf.Serdes.avro(_LINE, decode=decode))


def protobuf(decode: Decode) -> Form:
    """The same records in Protobuf."""
    return lines(sf.Serdes.protobuf(_MESSAGE, "Line", decode=decode))


def lines(serde: sf.Serde[Any]) -> Form:
    """Records of 20 fields with this serde."""
    texts = {name: f"this is the text of {name}, of 32" for name in _TEXTS}

    def line(number: int) -> bytes:
        return serde.serialize({"id": number, "amount": 1.5, "user": {"name": "ann"}, **texts})

    return Form(serde, line)


class Draining:
    """A job whose input is written once; each run is an application of its own that reads the whole input."""

    def __init__(self, job: Job, records: int, broker: sf.EmbeddedBroker, form: Form) -> None:
        """Write the input."""
        self.records, self._serde = records, form.serde
        self._job, self._broker, self._runs = job, broker, 0
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        keys = [b"key-%d" % n for n in range(1000)]
        broker.produce_many("in", ((0, keys[n % 1000], form.record(n), n + 1) for n in range(records)))
        self.calls: list[dict[str, Any]] = []

    def __call__(self) -> None:
        """Run once, including start and end, which are the same for all jobs."""
        builder = sf.StreamsBuilder()
        self._job(builder.stream("in", key=bytes, value=self._serde)).to("out", key=bytes, value=self._serde)
        self._runs += 1
        with tempfile.TemporaryDirectory(prefix="stoatflow-border-") as folder:
            config = {"application.id": f"border-{self._runs}", "state.dir": folder, "lanes.count": 1}
            with sf.StoatFlow(builder.build(), config, broker=self._broker) as app:
                while app.state != sf.State.RUNNING or app.lag() > 0:
                    if app.wait("5ms"):
                        raise RuntimeError("the application stopped by itself: see its log above")
                self.calls = app.metrics().get("functions") or []

    def written(self) -> int:
        """Number of results of all runs."""
        return sum(1 for _ in self._broker.read("out"))


@contextmanager
def draining(job: Job, records: int, form: Form = ORDERS) -> Iterator[Draining]:
    """The job with its input."""
    with sf.EmbeddedBroker() as broker:
        yield Draining(job, records, broker, form)


def cpu() -> float:
    """CPU seconds of all threads of this process."""
    return time.process_time()
