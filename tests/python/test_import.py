"""Importing the package is cheap; names are loaded at their first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoatflow as sf


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_fast() -> None:
    code = "import time; t = time.perf_counter(); import stoatflow; print(time.perf_counter() - t)"
    # The fastest run counts, since other load only adds time. It is repeated only after a slow one.
    assert any(float(python(code)) < 0.150 for _ in range(40))


HEAVY = (
    "asyncio", "concurrent", "ctypes", "duckdb", "email", "http", "importlib.metadata", "inspect", "json", "logging",
    "numpy", "pandas", "pyarrow", "pyspark", "socket", "ssl", "subprocess", "unittest", "urllib",
)  # fmt: skip
"""Modules that take milliseconds and are not needed by a plain import of the package."""


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, stoatflow; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]"
    own = "import sys, stoatflow; print(sorted(name for name in sys.modules if name.startswith('stoatflow')))"
    assert python(own) == "['stoatflow', 'stoatflow._version']"


def test_a_topology_needs_no_network_and_no_data_frames() -> None:
    """The first use of a name loads the DSL; most programs need no more."""
    code = """
import sys
import stoatflow as sf

sf.StreamsBuilder().stream("in", value=dict).filter(sf.value["n"] > 1).to("out")
unwanted = ("asyncio", "concurrent", "duckdb", "email", "http", "numpy", "pandas", "pyarrow", "pyspark", "ssl")
print([name for name in unwanted if name in sys.modules])
"""
    assert python(code) == "[]"


def test_asyncio_is_not_loaded_without_async_functions() -> None:
    """asyncio also loads TLS: 6 MB of the 45 that a small application takes."""
    code = """
import sys
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("in", key=str, value=str).map_values(lambda text: text.upper()).to("out", key=str, value=str)
with sf.EmbeddedBroker() as broker:
    for topic in ("in", "out"):
        broker.create_topic(topic, 1)
    broker.produce("in", key=b"a", value=b"b")
    with sf.StoatFlow(builder.build(), {"application.id": "small", "admin.listen": "off"}, broker=broker):
        while not (out := list(broker.read("out"))):
            pass
print(out[0].value, [name for name in ("asyncio", "ssl") if name in sys.modules])
"""
    assert python(code) == "b'B' []"


def test_every_public_name_loads() -> None:
    names = vars(sf)["__all__"]  # hidden from type checkers, which see the imports
    assert len(names) > 30
    for name in names:
        assert getattr(sf, name) is not None
        assert name in dir(sf)


def test_the_root_holds_public_modules_only() -> None:
    """Internals are in `_dsl` and `_runtime`. `durations` has the types of arguments that users annotate."""
    root = Path(sf.__file__).parent
    modules = {each.stem for each in root.glob("*.py") if not each.stem.startswith("_")}
    homes = set(vars(sf)["_HOMES"])
    packages = {each.name for each in root.iterdir() if (each / "__init__.py").exists()}
    assert homes - packages == modules - {"durations"}
    assert {"_dsl", "_runtime"} < packages


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KStreem'"):
        sf.KStreem  # type: ignore[attr-defined]  # noqa: B018
