"""Forms of parked records, requests and answers: functions, serdes, keys; and one `offload` after another."""

from __future__ import annotations

import json

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def test_functions_and_expressions_make_requests_and_results() -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    scored = orders.offload(
        "asked",
        "answered",
        request=sf.value["features"],
        joiner=sf.obj(id=sf.left["id"], score=sf.right["score"]),
        response_value=dict,
        name="score",
    )
    scored.to("scored")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("orders", str, dict).pipe("o1", {"id": 1, "features": [1, 2]}, headers={"trace": "t1"})
        request = driver.output("asked", str, list).read()
        assert (request.value, request.headers[0]) == ([1, 2], ("trace", b"t1"))
        driver.input("answered", str, dict).pipe("o1", {"score": 0.5}, headers=request.headers)
        result = driver.output("scored", str, dict).read()
        assert (result.value, result.headers) == ({"id": 1, "score": 0.5}, (("trace", b"t1"),))


def test_python_functions_with_the_key() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).offload(
        "asked",
        "answered",
        request=lambda value: value * 2,
        request_value=str,
        joiner=lambda key, value, answer: f"{key}:{value}:{answer}",
        with_key=True,
        response_value=int,
        store="lot",
    ).to("out", value=str)
    with TopologyTestDriver(builder.build(), {"ensure.explicit.naming": False}) as driver:
        driver.input("in", str, str).pipe("k", "v")
        request = driver.output("asked", str, str).read()
        assert request.value == "vv"
        driver.input("answered", str, int).pipe("k", 42, headers=request.headers)
        assert driver.output("out", str, str).read_value() == "k:v:42"


class Point:
    """An object without a JSON form."""

    def __init__(self, x: int) -> None:
        """A point at x."""
        self.x = x


class Points(sf.Serde[Point]):
    """Its serde."""

    def serialize(self, value: Point) -> bytes:
        """Write."""
        return json.dumps(value.x).encode()

    def deserialize(self, data: bytes) -> Point:
        """Read."""
        return Point(json.loads(data))


def test_objects_are_parked_by_the_serde_of_the_stream() -> None:
    builder = sf.StreamsBuilder()
    points = Points()
    builder.stream("in", key=str, value=points).offload(
        "asked", "answered", joiner=lambda point, answer: point.x + answer, response_value=int, name="score"
    ).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, points).pipe("k", Point(40))
        request = driver.output("asked", str, points).read()
        driver.crash()
        driver.restart()
        driver.input("answered", str, int).pipe("k", 2, headers=request.headers)
        assert driver.output("out", str, int).read_value() == 42


def test_a_re_keyed_stream_and_one_offload_behind_another() -> None:
    builder = sf.StreamsBuilder()
    first = builder.stream("in", key=str, value=str).select_key(sf.value, name="by-value")
    first = first.offload("q1", "r1", key=str, response_value=str, name="one")
    first.offload("q2", "r2", joiner=lambda one, two: one + two, response_value=str, name="two").to("out", value=str)
    with TopologyTestDriver(builder.build(), lanes=4) as driver:
        for value in ("x", "y", "z"):
            driver.input("in", str, str).pipe("same", value)
        for request in driver.output("q1", str, str):
            driver.input("r1", str, str).pipe(request.key, f"{request.value}1", headers=request.headers)
        for request in driver.output("q2", str, str):
            # Its own correlation id, not that of the previous offload.
            assert dict(request.headers)["stoatflow-correlation"].startswith(b"two/")  # type: ignore[union-attr]
            driver.input("r2", str, str).pipe(request.key, f"-{request.value}2", headers=request.headers)
        assert sorted(driver.output("out", str, str).read_key_values_to_list()) == [
            ("x", "x1-x12"),
            ("y", "y1-y12"),
            ("z", "z1-z12"),
        ]


class Lower(sf.Serde[str]):
    """A serde that may read keys from other bytes than it writes."""

    def serialize(self, value: str) -> bytes:
        """Write."""
        return value.lower().encode()

    def deserialize(self, data: bytes) -> str:
        """Read."""
        return data.decode().lower()


def test_keys_in_another_encoding_find_their_lane() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=Lower(), value=str)
    stream.offload("asked", "answered", response_value=str, timeout=None, name="score").to("out")
    keys = [bytes([number]) for number in b"ABCDEFGHIJKLMNOP"]
    with TopologyTestDriver(builder.build(), lanes=4) as driver:
        for key in keys:
            driver.input("in", bytes, str).pipe(key, "x")
        requests = driver.output("asked").read_all()
        for request in requests[:8]:
            driver.input("answered").pipe(request.key, b"ok", headers=request.headers)
        driver.crash()
        driver.restart(lanes=3)
        for request in requests[8:]:
            driver.input("answered").pipe(request.key, b"ok", headers=request.headers)
        assert sorted(record.key or b"" for record in driver.output("out").read_all()) == [k.lower() for k in keys]


def test_windowed_keys_find_their_lane() -> None:
    builder = sf.StreamsBuilder()
    counts = (
        builder.stream("in", key=str, value=str)
        .group_by_key()
        .windowed_by(sf.TimeWindows("1s", grace="0s"))
        .count(store="counts")
    )
    counts.to_stream().offload("asked", "answered", response_value=str, name="score").to("out")
    with TopologyTestDriver(builder.build(), lanes=4) as driver:
        for key in "abcdef":
            driver.input("in", str, str).pipe(key, "x", timestamp=1500)
        requests = driver.output("asked").read_all()
        for request in requests:
            driver.input("answered").pipe(request.key, b"ok", headers=request.headers)
        assert len(driver.output("out").read_all()) == 6
