"""Runs all checks of a topology, in order.

Takes a topology, returns findings. Decides what is checked: every use of a function by a node, results
that nothing reads, and the names of stores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from types import CodeType
from typing import TYPE_CHECKING, Any

from stoatflow._dsl.wrapped import names_by_function
from stoatflow._runtime.bridge import compile_plan
from stoatflow.asynchronous import Awaiting
from stoatflow.doctor import mistakes
from stoatflow.doctor.finding import Finding
from stoatflow.doctor.kinds import sides
from stoatflow.doctor.place import place
from stoatflow.doctor.source import Written, written
from stoatflow.doctor.suggestion import suggest
from stoatflow.errors import TopologyError
from stoatflow.plan import Node, Udf, encode
from stoatflow.plan.node_base import LateFunction, TimestampFunction
from stoatflow.plan.unused import Unused, unused

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoatflow.doctor.mistakes import Mistake
    from stoatflow.topology import Topology

# These are called for their side effects, so they may keep state of their own.
_EFFECTS = ("peek", "foreach", "foreach_batch")
_STORE = re.compile(r"[- ]*(?:(?P<line>\S+): )?(?P<op>\w+)\(\) (?P<message>.*); (?P<next>add .*)")


def examine(topology: Topology) -> list[Finding]:
    """Return all findings, in the order of the topology."""
    return list(_Examination(topology.nodes).findings())


class _Examination:
    def __init__(self, plan: Sequence[Node]) -> None:
        self.plan = plan
        self.known = sides(plan)
        # Without sharing, each use of a function has its own number, and so the name of its own node.
        encoded = encode(plan, shared=False)
        self.compiled = compile_plan(encoded)
        self.physical = json.loads(self.compiled.physical_json)
        names = names_by_function(self.physical)
        self.names = {use: names.get(("udf", at), "") for at, use in enumerate(encoded.function_uses)}
        self.together: dict[CodeType, list[Written]] = {}

    def findings(self) -> Iterator[Finding]:
        uses = [(at, field, udf, _of(udf)) for at, field, udf in self._functions()]
        for _, _, _, function in uses:
            code = getattr(function.call, "__code__", None) if function is not None else None
            if function is not None and code is not None:
                self.together.setdefault(code, []).append(function)
        for at, field, udf, function in uses:
            if function is not None and not function.silent:
                yield from self._function(at, field, udf, function)
        yield from map(_of_unused, unused(self.physical))
        try:
            self.compiled.check_names()
        except TopologyError as error:
            yield from _of_names(error)

    def _functions(self) -> Iterator[tuple[int, str, Udf]]:
        for at, node in enumerate(self.plan):
            for field in fields(node):
                held = getattr(node, field.name)
                if isinstance(held, TimestampFunction | LateFunction):
                    held = held.udf
                # An initializer is skipped: it is called only once per key.
                if isinstance(held, Udf) and field.name != "initializer":
                    yield at, field.name, held

    def _function(self, at: int, field: str, udf: Udf, function: Written) -> Iterator[Finding]:
        for mistake in self._mistakes(at, field, udf, function):
            yield self._finding(at, field, udf, function, *mistake)
        suggestion = suggest(self.plan, self.known, at, field)
        if suggestion is not None:
            how = f" {suggestion.instead}" if suggestion.instead else ""
            yield self._finding(
                at,
                field,
                udf,
                function,
                "expression",
                "a function, where an expression needs no interpreter",
                f"write {suggestion.text}{how}",
                expression=suggestion.text,
                differences=suggestion.differences,
            )

    def _mistakes(self, at: int, field: str, udf: Udf, function: Written) -> Iterator[Mistake]:
        found = [
            mistakes.blocking(function, is_async=isinstance(udf.call, Awaiting)),
            None if self.plan[at].op in _EFFECTS else mistakes.own_state(function),
            mistakes.changed_view(function, place(self.plan, self.known, at, field)),
        ]
        together = self.together.get(getattr(function.call, "__code__", None), [])  # type: ignore[arg-type]
        # Reported once for all of them.
        if together and together[0] is function:
            found.append(mistakes.late_binding(together))
        yield from (each for each in found if each is not None)

    def _finding(
        self, at: int, field: str, udf: Udf, function: Written, kind: Any, message: str, next_step: str, **more: Any
    ) -> Finding:
        node = self.plan[at]
        return Finding(
            kind=kind,
            line=udf.display.partition(" ")[0],
            node=node.name or self.names.get((at, field)) or node.op,
            op=node.op,
            function=function.text,
            message=message,
            next_step=next_step,
            **more,
        )


def _of(udf: Udf) -> Written | None:
    call: Callable[..., Any] = udf.call
    return written(call.function if isinstance(call, Awaiting) else call)


def _of_unused(step: Unused) -> Finding:
    return Finding(
        kind="unused result",
        line=step.line,
        node=step.node,
        op=step.op,
        function="",
        message="nothing reads its results",
        next_step="end it with .to(topic), or remove it",
    )


def _of_names(error: TopologyError) -> Iterator[Finding]:
    """Return a finding for each store."""
    _, _, several = error.message.partition(":\n")
    for text in several.splitlines() or [error.message]:
        match = _STORE.fullmatch(text)
        place = match.groupdict("") if match else {"line": "", "op": "", "message": text, "next": error.next_step}
        yield Finding(
            kind="store names",
            line=place["line"],
            node="",
            op=place["op"],
            function="",
            message=place["message"],
            next_step=place["next"],
        )
