"""StoatFlow runs a Kafka Streams topology as one process, on all cores of one machine.

    import stoatflow as sf

    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(sf.value.str.lower().str.split())
    counts = words.group_by(sf.value, key=str).count(store="counts")
    counts.to_stream().to("counts", key=str, value=int)
    sf.StoatFlow(builder.build(), {"application.id": "words", "bootstrap.servers": "localhost:9092"}).run()

Names are loaded at their first use, so importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow._version import __version__ as __version__

if TYPE_CHECKING:
    from stoatflow.aggregations import Aggregation as Aggregation
    from stoatflow.aggregations import agg as agg
    from stoatflow.aggregations import approx_distinct as approx_distinct
    from stoatflow.aggregations import avg as avg
    from stoatflow.aggregations import collect as collect
    from stoatflow.aggregations import collect_set as collect_set
    from stoatflow.aggregations import count as count
    from stoatflow.aggregations import first as first
    from stoatflow.aggregations import last as last
    from stoatflow.aggregations import max as max  # noqa: A004
    from stoatflow.aggregations import min as min  # noqa: A004
    from stoatflow.aggregations import sum as sum  # noqa: A004
    from stoatflow.aggregations import top_k as top_k
    from stoatflow.app import State as State
    from stoatflow.app import StateListener as StateListener
    from stoatflow.app import StoatFlow as StoatFlow
    from stoatflow.arrow import RowError as RowError
    from stoatflow.asynchronous import Awaiting as Awaiting
    from stoatflow.asynchronous import Backoff as Backoff
    from stoatflow.asynchronous import awaiting as awaiting
    from stoatflow.branched import Branched as Branched
    from stoatflow.branched import BranchedKStream as BranchedKStream
    from stoatflow.builder import StreamsBuilder as StreamsBuilder
    from stoatflow.cogrouped import CogroupedKStream as CogroupedKStream
    from stoatflow.cogrouped import SessionWindowedCogroupedKStream as SessionWindowedCogroupedKStream
    from stoatflow.cogrouped import TimeWindowedCogroupedKStream as TimeWindowedCogroupedKStream
    from stoatflow.consumed_record import ConsumedRecord as ConsumedRecord
    from stoatflow.embedded import EmbeddedBroker as EmbeddedBroker
    from stoatflow.embedded import EmbeddedRecord as EmbeddedRecord
    from stoatflow.endpoints import HttpError as HttpError
    from stoatflow.endpoints import HttpRequest as HttpRequest
    from stoatflow.endpoints import HttpResponse as HttpResponse
    from stoatflow.errors import AuthorizationError as AuthorizationError
    from stoatflow.errors import BrokerUnavailableError as BrokerUnavailableError
    from stoatflow.errors import ChangesLostError as ChangesLostError
    from stoatflow.errors import ConfigError as ConfigError
    from stoatflow.errors import DiskFullError as DiskFullError
    from stoatflow.errors import FencedError as FencedError
    from stoatflow.errors import IncompatibleStateError as IncompatibleStateError
    from stoatflow.errors import InternalError as InternalError
    from stoatflow.errors import MissingTopicError as MissingTopicError
    from stoatflow.errors import ProcessingError as ProcessingError
    from stoatflow.errors import SerdeError as SerdeError
    from stoatflow.errors import StalledError as StalledError
    from stoatflow.errors import StateCorruptError as StateCorruptError
    from stoatflow.errors import StateLockedError as StateLockedError
    from stoatflow.errors import StoatFlowError as StoatFlowError
    from stoatflow.errors import TopologyError as TopologyError
    from stoatflow.errors import UnknownOutcomeError as UnknownOutcomeError
    from stoatflow.expressions import Expression as Expression
    from stoatflow.expressions import array as array
    from stoatflow.expressions import coalesce as coalesce
    from stoatflow.expressions import concat as concat
    from stoatflow.expressions import duration as duration
    from stoatflow.expressions import format as format  # noqa: A004  # what an f-string can't be
    from stoatflow.expressions import greatest as greatest
    from stoatflow.expressions import key as key
    from stoatflow.expressions import least as least
    from stoatflow.expressions import left as left
    from stoatflow.expressions import lit as lit
    from stoatflow.expressions import new as new
    from stoatflow.expressions import obj as obj
    from stoatflow.expressions import old as old
    from stoatflow.expressions import right as right
    from stoatflow.expressions import timestamp as timestamp
    from stoatflow.expressions import value as value
    from stoatflow.expressions import when as when
    from stoatflow.finding import Descending as Descending
    from stoatflow.finding import Found as Found
    from stoatflow.finding import QueryPlan as QueryPlan
    from stoatflow.finding import desc as desc
    from stoatflow.following import ChangeBatch as ChangeBatch
    from stoatflow.following import Changes as Changes
    from stoatflow.global_table import GlobalKTable as GlobalKTable
    from stoatflow.grouped import KGroupedStream as KGroupedStream
    from stoatflow.grouped import KGroupedTable as KGroupedTable
    from stoatflow.handlers import DLQ as DLQ
    from stoatflow.handlers import Decide as Decide
    from stoatflow.handlers import ErrorContext as ErrorContext
    from stoatflow.handlers import ErrorHandler as ErrorHandler
    from stoatflow.handlers import Retry as Retry
    from stoatflow.handlers import log_and_continue as log_and_continue
    from stoatflow.handlers import log_and_fail as log_and_fail
    from stoatflow.hooks import ExceptionResponse as ExceptionResponse
    from stoatflow.hooks import Phase as Phase
    from stoatflow.indexes import Index as Index
    from stoatflow.joined import Joined as Joined
    from stoatflow.joined import StreamJoined as StreamJoined
    from stoatflow.joined import TableJoined as TableJoined
    from stoatflow.late import DecideLate as DecideLate
    from stoatflow.late import LateVerdict as LateVerdict
    from stoatflow.lazy import JsonArray as JsonArray
    from stoatflow.lazy import JsonObject as JsonObject
    from stoatflow.lazy import to_python as to_python
    from stoatflow.logs import LogContext as LogContext
    from stoatflow.logs import configure_logging as configure_logging
    from stoatflow.materialized import Consumed as Consumed
    from stoatflow.materialized import Grouped as Grouped
    from stoatflow.materialized import Materialized as Materialized
    from stoatflow.materialized import OffsetReset as OffsetReset
    from stoatflow.materialized import Produced as Produced
    from stoatflow.materialized import Repartitioned as Repartitioned
    from stoatflow.materialized import TimestampExtractors as TimestampExtractors
    from stoatflow.metrics import Counter as Counter
    from stoatflow.metrics import Gauge as Gauge
    from stoatflow.metrics import Histogram as Histogram
    from stoatflow.metrics import Metrics as Metrics
    from stoatflow.oauth import OAuthCallback as OAuthCallback
    from stoatflow.oauth import OAuthToken as OAuthToken
    from stoatflow.offload import Parked as Parked
    from stoatflow.offload import WorkerError as WorkerError
    from stoatflow.printed import Printed as Printed
    from stoatflow.processor import Cancellable as Cancellable
    from stoatflow.processor import ContextualFixedKeyProcessor as ContextualFixedKeyProcessor
    from stoatflow.processor import ContextualProcessor as ContextualProcessor
    from stoatflow.processor import FixedKeyProcessor as FixedKeyProcessor
    from stoatflow.processor import FixedKeyProcessorContext as FixedKeyProcessorContext
    from stoatflow.processor import KeyLocks as KeyLocks
    from stoatflow.processor import Processor as Processor
    from stoatflow.processor import ProcessorContext as ProcessorContext
    from stoatflow.processor import ValueTransformer as ValueTransformer
    from stoatflow.processor import with_stores as with_stores
    from stoatflow.punctuation import PunctuationType as PunctuationType
    from stoatflow.queries import Entries as Entries
    from stoatflow.queries import ReadOnlyKeyValueStore as ReadOnlyKeyValueStore
    from stoatflow.queries import ReadOnlySessionStore as ReadOnlySessionStore
    from stoatflow.queries import ReadOnlyVersionedStore as ReadOnlyVersionedStore
    from stoatflow.queries import ReadOnlyWindowStore as ReadOnlyWindowStore
    from stoatflow.queries import Snapshot as Snapshot
    from stoatflow.record import FixedKeyRecord as FixedKeyRecord
    from stoatflow.record import Record as Record
    from stoatflow.record import RecordMetadata as RecordMetadata
    from stoatflow.record_context import RecordContext as RecordContext
    from stoatflow.registry import RegisteredSchema as RegisteredSchema
    from stoatflow.registry import SchemaRegistry as SchemaRegistry
    from stoatflow.resources import Resource as Resource
    from stoatflow.restoring import RestoreListener as RestoreListener
    from stoatflow.restoring import TopicPartition as TopicPartition
    from stoatflow.rocksdb_config import RocksDBConfig as RocksDBConfig
    from stoatflow.serdes import Serde as Serde
    from stoatflow.serdes import Serdes as Serdes
    from stoatflow.settings import Settings as Settings
    from stoatflow.stores import NOT_PUT as NOT_PUT
    from stoatflow.stores import VALID_TO_UNDEFINED as VALID_TO_UNDEFINED
    from stoatflow.stores import AggregationWithHeaders as AggregationWithHeaders
    from stoatflow.stores import KeyValueStore as KeyValueStore
    from stoatflow.stores import SessionStore as SessionStore
    from stoatflow.stores import StoreBuilder as StoreBuilder
    from stoatflow.stores import Stores as Stores
    from stoatflow.stores import TimerStore as TimerStore
    from stoatflow.stores import TimestampedKeyValueStore as TimestampedKeyValueStore
    from stoatflow.stores import ValueAndTimestamp as ValueAndTimestamp
    from stoatflow.stores import ValueTimestampHeaders as ValueTimestampHeaders
    from stoatflow.stores import VersionedKeyValueStore as VersionedKeyValueStore
    from stoatflow.stores import VersionedRecord as VersionedRecord
    from stoatflow.stores import WindowStore as WindowStore
    from stoatflow.stream import KStream as KStream
    from stoatflow.suppressed import Buffer as Buffer
    from stoatflow.suppressed import Suppressed as Suppressed
    from stoatflow.table import KTable as KTable
    from stoatflow.timers import TimeDomain as TimeDomain
    from stoatflow.timers import Timer as Timer
    from stoatflow.topology import Topology as Topology
    from stoatflow.watermark import Watermark as Watermark
    from stoatflow.windowed import Window as Window
    from stoatflow.windowed import Windowed as Windowed
    from stoatflow.windowed_stream import SessionWindowedKStream as SessionWindowedKStream
    from stoatflow.windowed_stream import TimeWindowedKStream as TimeWindowedKStream
    from stoatflow.windows import CountWindows as CountWindows
    from stoatflow.windows import EmitStrategy as EmitStrategy
    from stoatflow.windows import JoinWindows as JoinWindows
    from stoatflow.windows import SessionWindows as SessionWindows
    from stoatflow.windows import SlidingWindows as SlidingWindows
    from stoatflow.windows import TimeWindows as TimeWindows
    from stoatflow.windows import UnlimitedWindows as UnlimitedWindows
    from stoatflow.worker import Worker as Worker
    from stoatflow.wrapping import NodeInfo as NodeInfo
    from stoatflow.wrapping import Wrapper as Wrapper

_HOMES = {
    "aggregations": (
        "Aggregation", "agg", "approx_distinct", "avg", "collect", "collect_set", "count", "first", "last", "max",
        "min", "sum", "top_k",
    ),
    "arrow": ("RowError",),
    "asynchronous": ("Awaiting", "Backoff", "awaiting"),
    "registry": ("RegisteredSchema", "SchemaRegistry"),
    "resources": ("Resource",),
    "app": ("State", "StateListener", "StoatFlow"),
    "builder": ("StreamsBuilder",),
    "embedded": ("EmbeddedBroker", "EmbeddedRecord"),
    "errors": (
        "AuthorizationError", "BrokerUnavailableError", "ChangesLostError", "ConfigError", "DiskFullError",
        "FencedError", "IncompatibleStateError", "InternalError", "MissingTopicError", "ProcessingError",
        "SerdeError", "StalledError", "StateCorruptError", "StateLockedError", "StoatFlowError", "TopologyError",
        "UnknownOutcomeError",
    ),
    "expressions": (
        "Expression", "array", "coalesce", "concat", "duration", "format", "greatest", "key", "least", "left", "lit",
        "new", "obj", "old", "right", "timestamp", "value", "when",
    ),
    "serdes": ("Serde", "Serdes"),
    "settings": ("Settings",),
    "stream": ("KStream",),
    "table": ("KTable",),
    "topology": ("Topology",),
    "branched": ("Branched", "BranchedKStream"),
    "cogrouped": ("CogroupedKStream", "SessionWindowedCogroupedKStream", "TimeWindowedCogroupedKStream"),
    "handlers": (
        "DLQ", "Decide", "ErrorContext", "ErrorHandler", "Retry", "log_and_continue", "log_and_fail",
    ),
    "hooks": ("ExceptionResponse", "Phase"),
    "finding": ("Descending", "Found", "QueryPlan", "desc"),
    "following": ("ChangeBatch", "Changes"),
    "global_table": ("GlobalKTable",),
    "grouped": ("KGroupedStream", "KGroupedTable"),
    "indexes": ("Index",),
    "late": ("DecideLate", "LateVerdict"),
    "lazy": ("JsonArray", "JsonObject", "to_python"),
    "logs": ("LogContext", "configure_logging"),
    "joined": ("Joined", "StreamJoined", "TableJoined"),
    "materialized": (
        "Consumed", "Grouped", "Materialized", "OffsetReset", "Produced", "Repartitioned", "TimestampExtractors",
    ),
    "oauth": ("OAuthCallback", "OAuthToken"),
    "offload": ("Parked", "WorkerError"),
    "printed": ("Printed",),
    "suppressed": ("Buffer", "Suppressed"),
    "watermark": ("Watermark",),
    "windowed": ("Window", "Windowed"),
    "windowed_stream": ("SessionWindowedKStream", "TimeWindowedKStream"),
    "windows": (
        "CountWindows", "EmitStrategy", "JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows",
        "UnlimitedWindows",
    ),
    "processor": (
        "Cancellable", "ContextualFixedKeyProcessor", "ContextualProcessor", "FixedKeyProcessor",
        "FixedKeyProcessorContext", "KeyLocks", "Processor", "ProcessorContext", "ValueTransformer", "with_stores",
    ),
    "stores": (
        "NOT_PUT", "VALID_TO_UNDEFINED", "AggregationWithHeaders", "KeyValueStore", "SessionStore", "StoreBuilder",
        "Stores", "TimerStore", "TimestampedKeyValueStore", "ValueAndTimestamp", "ValueTimestampHeaders",
        "VersionedKeyValueStore", "VersionedRecord", "WindowStore",
    ),
    "timers": ("TimeDomain", "Timer"),
    "record": ("FixedKeyRecord", "Record", "RecordMetadata"),
    "rocksdb_config": ("RocksDBConfig",),
    "punctuation": ("PunctuationType",),
    "queries": (
        "Entries", "ReadOnlyKeyValueStore", "ReadOnlySessionStore", "ReadOnlyVersionedStore", "ReadOnlyWindowStore",
        "Snapshot",
    ),
    "record_context": ("RecordContext",),
    "restoring": ("RestoreListener", "TopicPartition"),
    "consumed_record": ("ConsumedRecord",),
    "endpoints": ("HttpError", "HttpRequest", "HttpResponse"),
    "metrics": ("Counter", "Gauge", "Histogram", "Metrics"),
    "worker": ("Worker",),
    "wrapping": ("NodeInfo", "Wrapper"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # otherwise a type checker would accept every misspelt name
    __all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604  # names, from the table above

    def __getattr__(name):
        """Load a public name at its first use."""
        if name not in _HOME_OF:
            raise _no_such(name)
        import importlib

        found = getattr(importlib.import_module(f"stoatflow.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found

    def _no_such(name):
        text = f"module 'stoatflow' has no attribute {name!r}"
        if name.startswith("_"):
            return AttributeError(text)
        from stoatflow.explain.methods import class_named

        found = class_named(name)
        return AttributeError(f"{text}. {found.advice}" if found else text)

    def __dir__():
        """List public names, loaded or not, without modules and names that only type checkers need."""
        return sorted([*(name for name in globals() if name.startswith("__")), *_HOME_OF])
