"""Test topologies without a broker: the real engine on a virtual clock, a barrier after each record.

Takes a topology; has topics to write and read, and stores to inspect, and crashes on request. Or takes a processor
alone, and records what it does.
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
