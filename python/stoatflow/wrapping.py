"""Wrappers of functions: `StreamsBuilder(wrapper=...)` calls one once for each Python function of a topology.

A wrapper takes a node's description and its function, and returns what is called instead: for tracing, timing,
counting, without changing the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The node of a wrapped function: its name in `describe()`, the method that created it, and its stores.

    `function` distinguishes the functions of one node: `"function"` is the main one (the predicate, mapper, aggregator
    or joiner); others are `"initializer"`, `"subtractor"`, `"merger"`, `"key_function"`, `"foreign_key"`,
    `"topic_function"`, `"partitioner"`, `"timestamp"`, `"watermark"` and `"late"`. For processors it is `"process"` or
    `"transform"`.

    >>> def timed(node, next):
    ...     print("wraps", node.name, node.function)
    ...     return next
    >>> builder = sf.StreamsBuilder(wrapper=timed)
    >>> builder.stream("n", value=int).map_values(lambda n: n + 1, name="plus-one").print()
    >>> topology = builder.build()
    wraps plus-one function
    wraps KSTREAM-FOREACH-0000000002 function
    """

    name: str
    kind: str
    function: str
    stores: tuple[str, ...] = ()


Wrapper: TypeAlias = Callable[[NodeInfo, Function], Function]
"""`(node, next)` returns what is called instead of `next`, with the same arguments."""
