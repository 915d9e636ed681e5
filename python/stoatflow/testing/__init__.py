"""Test topologies without a broker: the real engine on a virtual clock, a barrier after each record.

Takes a topology, gives topics to write and read, stores to look into, and crashes on request; or takes a processor
alone, and gives what it did.
"""

from stoatflow.testing.driver import TopologyTestDriver
from stoatflow.testing.lanes import any_lanes
from stoatflow.testing.mock import CapturedForward, CapturedPunctuator, MockProcessorContext
from stoatflow.testing.record import Header, Headers, Record
from stoatflow.testing.store import TestStore, TestTimerStore, TestVersionedStore, TestWindowStore
from stoatflow.testing.topics import TestInputTopic, TestOutputTopic

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "Header",
    "Headers",
    "MockProcessorContext",
    "Record",
    "TestInputTopic",
    "TestOutputTopic",
    "TestStore",
    "TestTimerStore",
    "TestVersionedStore",
    "TestWindowStore",
    "TopologyTestDriver",
    "any_lanes",
]
