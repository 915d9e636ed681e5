"""The guard in front of a librdkafka function (crates/client-guard) is linked in, and initializes each row."""

from __future__ import annotations

import ctypes
import importlib
import sys

import pytest

NOBODY = 2**31 - 1
ROWS = 3


class Room(ctypes.Structure):
    """`rd_tmpabuf_t`."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("used", ctypes.c_size_t),
        ("buffer", ctypes.c_void_p),
        ("failed", ctypes.c_int),
        ("asserts", ctypes.c_int),
    )


class Uuid(ctypes.Structure):
    """`rd_kafka_Uuid_t`."""

    _fields_ = (("bits", ctypes.c_int64 * 2), ("text", ctypes.c_char * 23))


class Partition(ctypes.Structure):
    """`rd_kafka_metadata_partition_t`."""

    _fields_ = (
        ("id", ctypes.c_int32),
        ("error", ctypes.c_int),
        ("leader", ctypes.c_int32),
        ("replica_count", ctypes.c_int),
        ("replicas", ctypes.c_void_p),
        ("isr_count", ctypes.c_int),
        ("isrs", ctypes.c_void_p),
    )


class Topic(ctypes.Structure):
    """`rd_kafka_metadata_topic_t`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("partition_count", ctypes.c_int),
        ("partitions", ctypes.POINTER(Partition)),
        ("error", ctypes.c_int),
    )


class Metadata(ctypes.Structure):
    """`rd_kafka_metadata_internal_t`, up to the internal topics."""

    _fields_ = (
        ("broker_count", ctypes.c_int),
        ("brokers", ctypes.c_void_p),
        ("topic_count", ctypes.c_int),
        ("topics", ctypes.POINTER(Topic)),
        ("from_broker", ctypes.c_int32),
        ("from_name", ctypes.c_char_p),
        ("brokers_sorted", ctypes.c_void_p),
        ("internal_brokers", ctypes.c_void_p),
        ("internal_topics", ctypes.c_void_p),
        ("more", ctypes.c_char * 256),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the linker of other systems knows no --wrap")
def test_uninitialized_metadata_rows_have_no_partition() -> None:
    native = importlib.import_module("stoatflow._native").__file__
    assert native is not None
    guarded = ctypes.CDLL(native).__getattr__("__wrap_rd_kafkap_leader_discovery_set_topic")
    # Like reused memory: negative numbers, one of which is a broker id.
    garbage = ctypes.create_string_buffer(b"\xfe\xff\xff\xff" * 1024, 4096)
    room = Room(size=4096, buffer=ctypes.addressof(garbage))
    topics, internal = (Topic * 1)(), ctypes.create_string_buffer(256)
    metadata = Metadata(topic_count=1, topics=topics, internal_topics=ctypes.addressof(internal))
    guarded.restype = None
    guarded.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, Uuid, ctypes.c_char_p, ctypes.c_int]
    guarded(ctypes.byref(room), ctypes.byref(metadata), 0, Uuid(), None, ROWS)
    assert topics[0].partition_count == ROWS
    assert [(row.id, row.leader) for row in topics[0].partitions[:ROWS]] == [(NOBODY, -1)] * ROWS
