"""What a wrapper of functions is: `StreamsBuilder(wrapper=...)` calls it once for each Python function of a topology.

Takes a node's description and its function, gives what is called instead: tracing, timing, counting, without touching
the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """Whose function is wrapped: the node's name in `describe()`, the method that made it, and the stores it names.

    `function` tells the functions of one node apart: `"function"` is what the method is about (the predicate, mapper,
    aggregator or joiner); others are `"initializer"`, `"subtractor"`, `"merger"`, `"key_function"`, `"foreign_key"`,
    `"topic_function"`, `"partitioner"`, `"timestamp"`, `"watermark"` and `"late"`. Of processors it is `"process"`
    or `"transform"`.

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
"""`(node, next)` gives what is called instead of `next`, with the same arguments."""
