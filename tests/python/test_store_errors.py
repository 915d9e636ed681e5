"""Wrong stores and serdes are rejected at the user's line, wherever they are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import Stores


class Upper(sf.Serde[str]):
    """A user's serde."""

    def serialize(self, value: str) -> bytes:
        return value.upper().encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()


Build = Callable[[Any], object]
STORES: list[tuple[Build, str]] = [
    (lambda b: Stores.persistent_session("s", "0ms"), "retention= of the store 's' is 0 ms"),
    (lambda b: Stores.persistent_session("s", "soon"), "retention= of the store 's': 'soon' is no duration"),
    (lambda b: Stores.in_memory_session("s", 5), "retention= of the store 's': 5 is no duration"),
    (lambda b: Stores.persistent_window("s", "1h", "wide"), "size= of the store 's': 'wide' is no duration"),
    (lambda b: Stores.in_memory_window("s", "1ms", "2ms"), "keeps windows of 2 ms for 1 ms only"),
    (lambda b: Stores.persistent_versioned("s", "old"), "history_retention= of the store 's': 'old'"),
    (lambda b: Stores.in_memory_versioned("s", 5), "history_retention= of the store 's': 5 is no duration"),
    (lambda b: Stores.key_value(""), "a store needs a name"),
    (lambda b: Stores.key_value("s", logging="yes"), "logging= of the store 's'"),
]

SERDES: list[tuple[Build, str]] = [
    (lambda b: b.stream("a", key=complex), "complex is neither a serde"),
    (lambda b: b.stream("a", key=Upper), "the serde Upper is a class"),
    (lambda b: b.add_state_store(Stores.key_value("s", key="str")), "'str' is neither a serde"),
    (lambda b: sf.Serdes.time_windowed(str, "wide"), "Serdes.time_windowed(size): 'wide' is no duration"),
]


@pytest.mark.parametrize(("build", "words"), [*STORES, *SERDES])
def test_invalid_arguments_are_refused(build: Build, words: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        build(sf.StreamsBuilder())
    assert "test_store_errors.py:" in str(caught.value)
    assert words in str(caught.value)
    assert caught.value.next_step
