"""Checked by mypy and pyright, never run: what is inferred of an `offload`."""

from typing import Any

from typing_extensions import assert_type

import stoatflow as sf

builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=int)


def joined(order: int, score: float) -> bool:
    return order > score


def joined_with_key(key: str, order: int, score: float) -> bool:
    return order > score


def failed(order: int, error: sf.WorkerError) -> bool:
    return False


assert_type(orders.offload("q", "r", response_value=float), sf.KStream[str, float])
assert_type(orders.offload("q", "r", joiner=joined, response_value=float), sf.KStream[str, bool])
assert_type(
    orders.offload("q", "r", joiner=joined_with_key, with_key=True, response_value=float, on_error=failed),
    sf.KStream[str, bool],
)
assert_type(orders.offload("q", "r", joiner=sf.obj(a=sf.left, b=sf.right)), sf.KStream[str, Any])
assert_type(orders.offload("q", "r", joiner=lambda order, score: (order, score)), sf.KStream[str, tuple[int, bytes]])
assert_type(
    orders.offload("q", "r", response_value=float, on_timeout=sf.DLQ("dead"), on_error=lambda order, error: 0.0),
    sf.KStream[str, float],
)
