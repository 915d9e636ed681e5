"""Test topologies without a broker: the real engine on a virtual clock, a barrier after each record.

Takes a topology, gives topics to write and read, stores to look into, and crashes on request.
"""

from stoatflow.testing.driver import TopologyTestDriver
from stoatflow.testing.record import Header, Headers, Record
from stoatflow.testing.store import TestStore, TestVersionedStore, TestWindowStore
from stoatflow.testing.topics import TestInputTopic, TestOutputTopic

__all__ = [
    "Header",
    "Headers",
    "Record",
    "TestInputTopic",
    "TestOutputTopic",
    "TestStore",
    "TestVersionedStore",
    "TestWindowStore",
    "TopologyTestDriver",
]
