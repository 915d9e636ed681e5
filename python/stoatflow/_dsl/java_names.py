"""Answers a method that has its Java name (`mapValues`, `Serdes.String`) with the name that it has here.

Takes the classes of an object and a name that they don't have; raises `AttributeError`. Reads the table of methods only
then. Type checkers don't see it: for them each misspelt name stays an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["JavaNames", "missing"]

_ONE_WORD = {"as_", "branch", "grace", "of", "through", "transform", "with_"}
"""Names of Java without a capital letter that are missing here."""


def missing(name: str, classes: tuple[type, ...], of: object) -> AttributeError:
    """Return the error for an attribute that none of these classes has."""
    kind = "type object {!r}" if isinstance(of, type) else "{!r} object"
    text = f"{kind.format(classes[0].__name__)} has no attribute {name!r}"
    # Names that `dataclass`, `copy` and others look up are not in this form: for them no table is read.
    if name in _ONE_WORD or (name != name.lower() and not name.startswith("_")):
        from stoatflow.explain.methods import method_of

        method = method_of([each.__name__ for each in classes], name.rstrip("_"))
        if method is not None:
            # Without `name=`: Python would add a guess of its own.
            return AttributeError(f"{text}. {method.advice}")
    return AttributeError(text, name=name, obj=of)


class _Names(type):
    """For names of the class itself, such as `TimeWindows.ofSizeWithNoGrace`."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name):
            raise missing(name, cls.__mro__, cls)


class JavaNames(metaclass=_Names):
    """Base of classes that Kafka Streams has too."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if hasattr(type(self), name):
                # A property has raised: its own error counts.
                return object.__getattribute__(self, name)
            raise missing(name, type(self).__mro__, self)
