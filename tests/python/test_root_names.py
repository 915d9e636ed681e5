"""Classes that users hold in their hands can be imported from the root: `sf.Counter`, not `stoatflow.metrics.Counter`.

Reads the annotations of all public methods, in Python and in the stubs of Rust, without importing them: many types are
imported for type checkers only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import stoatflow as sf

ROOT = Path(sf.__file__).parent
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGES = {
    "expressions": "steps between an expression and the next: nobody annotates them",
    "plan": "the form in which the engine gets a topology",
    "serdes": "serdes of one format, and types of arguments",
    "spark": "has an extra of its own",
    "sql": "has an extra of its own",
}
"""Packages whose classes stay there, and why."""
ELSEWHERE = {
    "EventLoop": "the application calls it, and nobody else",
    "GaugeFunction": "the application calls it, and nobody else",
    "HistogramTimer": "only for `with`",
    "Plan": "the form in which the engine gets a topology",
    "StoreIterator": "an iterator: annotated as one",
    "Windows": "the base of all windows",
}
"""Classes of other modules that are not at the root, and why."""


class Place(NamedTuple):
    """A class and its module."""

    module: str
    node: ast.ClassDef


@cache
def parsed(module: str) -> dict[str, ast.stmt | tuple[str, str]]:
    """Return what a module defines by name; of what it imports, module and name."""
    path = ROOT.joinpath(*module.split("."))
    files = [path.with_suffix(".py"), path.with_suffix(".pyi"), path / "__init__.py"]
    found: dict[str, ast.stmt | tuple[str, str]] = {}
    for file in files:
        if not file.exists():
            continue
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stoatflow."):
                within = str(node.module).removeprefix("stoatflow.")
                found |= {each.asname or each.name: (within, each.name) for each in node.names}
        for each in tree.body:
            if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[each.name] = each
            elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                found[each.targets[0].id] = each
    return found


def resolved(module: str, name: str) -> Place | Function | None:
    """Return the class or function that a name in a module means; `None` for aliases and names from elsewhere."""
    found = parsed(module).get(name)
    if isinstance(found, tuple):
        return resolved(*found)
    if isinstance(found, ast.ClassDef):
        return Place(module, found)
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        return found
    # `Counter = _native.Counter`: the class is in a stub.
    if isinstance(found, ast.Assign) and ast.unparse(found.value).startswith("_native."):
        return resolved("_native", ast.unparse(found.value).removeprefix("_native."))
    return None


def names(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def used(module: str, function: Function) -> Iterator[Place]:
    """Return the classes in the annotations of a function."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for annotation in [function.returns, *(each.annotation for each in given if each is not None)]:
        for name in () if annotation is None else names(annotation):
            place = resolved(module, name)
            if isinstance(place, Place):
                yield place


def used_by(place: Place) -> Iterator[tuple[str, Place]]:
    """Return the classes that public methods of a class and of its bases take or return, with the method's name."""
    for member in place.node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
            yield from ((member.name, each) for each in used(place.module, member))
    for base in place.node.bases:
        for name in names(base):
            above = resolved(place.module, name)
            if isinstance(above, Place):
                yield from used_by(above)


def classes() -> dict[str, tuple[str, str]]:
    """Return all classes that public methods take or return: the module and one of the methods."""
    found: dict[str, tuple[str, str]] = {}
    for home, public in vars(sf)["_HOMES"].items():
        for name in public:
            place = resolved(home, name)
            if isinstance(place, Place):
                for method, each in used_by(place):
                    found.setdefault(each.node.name, (each.module, f"{name}.{method}"))
            elif place is not None:
                for each in used(home, place):
                    found.setdefault(each.node.name, (each.module, name))
    return found


CLASSES = classes()


def test_many_classes_are_found() -> None:
    assert len(CLASSES) > 90
    assert CLASSES.keys() >= {"Counter", "Entries", "KStream", "StoreBuilder", "StoreIterator", "Windowed"}


def test_classes_of_public_methods_are_at_the_root() -> None:
    public = set(vars(sf)["__all__"])
    missing = {
        name: where
        for name, where in CLASSES.items()
        if name not in public and name not in ELSEWHERE and where[0].split(".")[0] not in PACKAGES
    }
    assert missing == {}, "add it to stoatflow/__init__.py, or to ELSEWHERE with a reason"


def test_the_exceptions_are_exceptions() -> None:
    public = set(vars(sf)["__all__"])
    assert {name for name in ELSEWHERE if name in public or name not in CLASSES} == set()
    assert set(PACKAGES) <= {module.split(".")[0] for module, _ in CLASSES.values()}


def test_names_at_the_root_are_those_of_their_modules() -> None:
    for home, public in vars(sf)["_HOMES"].items():
        module = __import__(f"stoatflow.{home}", fromlist=["*"])
        for name in public:
            assert getattr(sf, name) is getattr(module, name)
