"""The only module that imports the native module.

Takes the package's data, returns the engine's handles. Checks that both have the same version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoatflow._version import __version__
from stoatflow.plan import EncodedPlan

if TYPE_CHECKING:
    from stoatflow.metrics import Metrics

try:
    from stoatflow import _native  # noqa: TID251  # this is the one place
except ImportError as cause:
    raise ImportError(
        f"the native half of StoatFlow can't be loaded ({cause}). "
        "Next: install a wheel for this platform, or build it with `pip install .` (needs Rust)"
    ) from cause

if _native.__version__ != __version__:
    raise ImportError(
        f"the native half of StoatFlow is version {_native.__version__}, the Python half is {__version__}. "
        "Next: install again, in a fresh virtual environment if need be"
    )

AdminCall = _native.AdminCall
AdminHooks = _native.AdminHooks
AvroFormat = _native.AvroFormat
Counter = _native.Counter
Gauge = _native.Gauge
Histogram = _native.Histogram
MetricRegistry = _native.MetricRegistry
JsonSchemaFormat = _native.JsonSchemaFormat
ProtobufFormat = _native.ProtobufFormat
Plan = _native.Plan
StoreBatches = _native.StoreBatches
Engine = _native.Engine
LastResort = _native.LastResort
exit_after = _native.exit_after
Driver = _native.Driver
EmbeddedBroker = _native.EmbeddedBroker
TopicsClient = _native.TopicsClient
TopicReader = _native.TopicReader
TransactionalWriter = _native.TransactionalWriter
WorkerClient = _native.WorkerClient
ProcessorContext = _native.ProcessorContext
Cancellable = _native.Cancellable
KeyLocks = _native.KeyLocks
KeyValueStore = _native.KeyValueStore
TimestampedKeyValueStore = _native.TimestampedKeyValueStore
WindowStore = _native.WindowStore
SessionStore = _native.SessionStore
VersionedKeyValueStore = _native.VersionedKeyValueStore
StateChanges = _native.StateChanges
StateReader = _native.StateReader
StateRows = _native.StateRows
StateSnapshot = _native.StateSnapshot
StoreIterator = _native.StoreIterator
TimerStore = _native.TimerStore
JsonObject = _native.JsonObject
JsonArray = _native.JsonArray
to_python: Callable[[Any], Any] = _native.to_python
built_with = _native.built_with
murmur2: Callable[[bytes], int] = _native.murmur2
check_settings = _native.check_settings
settings_schema = _native.settings_schema
plan_settings = _native.plan_settings
streams_config_markdown = _native.streams_config_markdown
node_kinds = _native.node_kinds
error_kinds = _native.error_kinds
evaluate = _native.evaluate
headers_from_bytes = _native.headers_from_bytes
open_transactions = _native.open_transactions
reset = _native.reset
log_to = _native.log_to
take_log_lines = _native.take_log_lines
remove_orphans = _native.remove_orphans

Pairs = list[tuple[str, object]]
Listener = Callable[[str, str], None]


def compile_plan(encoded: EncodedPlan, metrics: Metrics | None = None) -> Plan:
    """Have the engine check and compile a plan; raise `TopologyError`. Its functions may change `metrics`."""
    return _native.compile(
        encoded.json.encode(),
        list(encoded.functions),
        encoded.function_names,
        list(encoded.serdes),
        list(encoded.processors),
        encoded.processor_names,
        metrics,
    )
