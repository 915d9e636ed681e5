"""Checks Spark's workers before the first record, and explains their errors.

Takes a SparkSession, work to be pickled, exceptions of Spark; raises or returns errors with the next step.
"""

from __future__ import annotations

import re
import sys
import types
from typing import TYPE_CHECKING, Any

from stoatflow._version import __version__
from stoatflow.spark import connected
from stoatflow.spark.errors import SparkUnavailableError, TwinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

_LAST = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Warning)): (.*)", re.DOTALL)


# Spark applications whose workers were checked. A worker that is added later reports what it lacks in its
# first task.
_CHECKED: set[str] = set()


def check_workers(spark: SparkSession, package: str = "stoatflow") -> None:
    """Raise `SparkUnavailableError` if a worker lacks the package, or has another version or another Python."""
    application = connected.application(spark)
    if package == "stoatflow" and application in _CHECKED:
        return
    here = (f"{sys.version_info.major}.{sys.version_info.minor}", __version__)
    rows = spark.range(0, 4, 1, 4).mapInArrow(_probe(package), "python string, version string").distinct().collect()
    for python, version in sorted(map(tuple, rows)):
        if version is None:
            raise SparkUnavailableError(
                f"a worker (Python {python}) has no {package}. Install the same wheel there: pip install "
                f"stoatflow=={__version__}; or ship an environment that has it: conf={{'spark.archives': "
                "'env.tar.gz#env'} and PYSPARK_PYTHON=env/bin/python"
            )
        if (python, version) != here and package == "stoatflow":
            raise SparkUnavailableError(
                f"a worker has Python {python} and stoatflow {version}, here are {here[0]} and {here[1]}: functions "
                "pickled here may not work there. Set PYSPARK_PYTHON to the same version with the same wheel"
            )
    if package == "stoatflow":
        _CHECKED.add(application)


def _probe(package: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return a function that can be unpickled without this package."""

    def probe(batches: Any) -> Any:
        import importlib
        import sys

        import pyarrow

        try:
            version = importlib.import_module(package).__version__
        except ImportError:
            version = None
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        for _ in batches:
            pass
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([python], pyarrow.string()), pyarrow.array([version], pyarrow.string())],
            names=["python", "version"],
        )

    # By value: a module's function is pickled as its name, which a worker may not have.
    alone = types.FunctionType(
        probe.__code__, {"__builtins__": __builtins__, "__name__": "__main__"}, "probe", None, probe.__closure__
    )
    alone.__module__ = "__main__"
    return alone


def check_pickles(nodes: Any) -> None:
    """Raise `TwinError` that names the function that Spark's serializer can't pickle."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(nodes)  # type: ignore[no-untyped-call]
    except Exception as error:  # an object of the user may raise anything
        guilty = next((_shown(node) for node in nodes if not _pickles(node, cloudpickle)), "the topology")
        raise TwinError(
            f"{guilty} can't be pickled for Spark's workers: {error}. A function may not hold on to a lock, a "
            "connection or a file: make it inside the function, or keep it in a module that workers can import"
        ) from error


def _pickles(node: Any, cloudpickle: Any) -> bool:
    try:
        cloudpickle.dumps(node)
    except Exception:  # as above
        return False
    return True


def _shown(node: Any) -> str:
    function = getattr(node, "function", None) or getattr(node, "processor", None)
    return f"{getattr(function, 'display', None) or node.line} ({node.op})"


def translated_error(error: BaseException, what: str = "the batch") -> TwinError | SparkUnavailableError:
    """Return what an exception of a job means, as an error; `what` has failed."""
    text = str(error)
    if "ModuleNotFoundError" in text:
        found = re.search(r"ModuleNotFoundError: (No module named '([\w.]+)')", text)
        module = found[2] if found else "a module"
        return TwinError(
            f"a worker can't import {module}, which functions of the topology need. Give it to the workers: "
            f"spark.sparkContext.addPyFile(...), or conf={{'spark.submit.pyFiles': '{module.partition('.')[0]}.py'}}; "
            "on Spark Connect spark.addArtifacts(..., pyfile=True)"
        )
    raised = [line for line in text.splitlines() if _LAST.match(line.strip())]
    last = _LAST.match(raised[-1].strip()) if raised else None
    if last is None:
        return TwinError(f"{what} failed: {text.splitlines()[0] if text else type(error).__name__}")
    return TwinError(f"{what} failed in a worker: {last[1]}: {last[2]}")
