"""The contents of the topics in tests of formats: orders and results, as Avro and as Protobuf.

Owns the schemas, and an order for each of them. Doesn't read or write them.
"""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

LEVEL = {"type": "enum", "name": "Level", "symbols": ["LOW", "MIDDLE", "HIGH"]}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
}
CUSTOMER: dict[str, Any] = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "name", "type": "string"}, {"name": "home", "type": ["null", ADDRESS], "default": None}],
}
ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
RATE = {"type": "fixed", "name": "Rate", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 4}
TOTAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
AVRO_ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": CUSTOMER},
        {"name": "level", "type": LEVEL},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "scores", "type": {"type": "map", "values": "double"}},
        {"name": "contact", "type": ["null", "string", "long", "Address"]},
        {"name": "total", "type": TOTAL},
        {"name": "rate", "type": RATE},
        {"name": "photo", "type": "bytes"},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
AVRO_OLD_VISIT: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "fields": [
        {"name": "dropped", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
        {"name": "id", "type": "int"},
        {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["MIDDLE", "TOP", "LOW"]}},
        {"name": "customer", "type": {**CUSTOMER, "fields": CUSTOMER["fields"][:1]}},
        {"name": "rate", "type": RATE},
        {"name": "paid", "type": "float"},
        {"name": "contact", "type": ["string", "int"]},
    ],
}
AVRO_VISIT: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "fields": [
        {"name": "contact", "type": ["null", "long", "string"]},
        {"name": "id", "type": "long"},
        {"name": "customer", "type": CUSTOMER},
        {"name": "level", "type": {**LEVEL, "default": "HIGH"}},
        {"name": "paid", "type": ["null", "double"]},
        {"name": "rate", "type": RATE},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
    ],
}
"""Fields of the older schema are elsewhere, wider or gone; fields it lacks have defaults."""
AVRO_SUMMARY: dict[str, Any] = {
    "type": "record",
    "name": "Summary",
    "namespace": "shop",
    "fields": [
        {"name": "who", "type": "string"},
        {"name": "by", "type": "string", "default": "nobody"},
        {"name": "level", "type": LEVEL},
        {"name": "sku", "type": ["null", "string"], "default": None},
        {"name": "pieces", "type": "int", "default": 0},
        {"name": "total", "type": ["null", TOTAL], "default": None},
        {"name": "zip", "type": ["null", "int"], "default": None},
        {"name": "best", "type": ["null", "double"], "default": None},
        {"name": "items", "type": {"type": "array", "items": ITEM}, "default": []},
    ],
}
AVRO_CUSTOMER = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
AVRO_TOTAL: dict[str, Any] = {
    "type": "record",
    "name": "Total",
    "namespace": "shop",
    "fields": [
        {"name": "orders", "type": "long"},
        {"name": "spent", "type": TOTAL},
        {"name": "last", "type": ["null", ITEM], "default": None},
        {"name": "levels", "type": {"type": "map", "values": "long"}},
        {"name": "latest", "type": {"type": "array", "items": "long"}},
    ],
}


def avro_order(number: int, **more: Any) -> dict[str, Any]:
    """An order as Confluent's serializer takes it, and as its deserializer returns it."""
    return {
        "id": number,
        "customer": {"name": f"ann-{number}", "home": {"street": "Långgatan 5", "zip": 11_743}},
        "level": "HIGH",
        "items": [
            {"sku": "pen", "count": 3, "price": Decimal("1.50")},
            {"sku": "ink", "count": 1, "price": Decimal("-0.01")},
        ],
        "scores": {"speed": 0.1, "Größe": -2.5e300},
        "contact": "ann@example.org",
        "total": Decimal("1234567890.10"),
        "rate": Decimal("-3.1416"),
        "photo": bytes(range(256)),
        "sum": b"\x00\xff\x80\x7f",
        "at": datetime.datetime(2026, 2, 28, 23, 59, 59, 123_000, tzinfo=datetime.timezone.utc),
        "day": datetime.date(2026, 2, 28),
        "token": uuid.UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e"),
        "tags": ["new", ""],
        "note": None,
        **more,
    }


PROTOBUF = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";

enum Level { LOW = 0; MIDDLE = 1; HIGH = 2; }

message First {}
message Customer {
  string name = 1;
  Address home = 2;
  message Address { string street = 1; int32 zip = 2; }
}
message Order {
  int64 id = 1;
  Customer customer = 2;
  Level level = 3;
  repeated Item items = 4;
  map<string, double> scores = 5;
  oneof contact { string mail = 6; uint64 phone = 7; Customer.Address address = 8; }
  bytes photo = 9;
  repeated sint32 numbers = 10;
  optional string note = 11;
  google.protobuf.Timestamp at = 12;
  map<int32, Item> shelves = 13;
  fixed64 sum = 14;
  repeated string tags = 15;
  message Item { string sku = 1; int32 count = 2; sfixed64 cents = 3; }
}
message Summary {
  string who = 1;
  string by = 2;
  Level level = 3;
  optional string sku = 4;
  int32 pieces = 5;
  optional int64 phone = 6;
  optional int32 zip = 7;
  optional double best = 8;
  repeated Order.Item items = 9;
}
message Key { string name = 1; }
message Total {
  int64 orders = 1;
  int64 cents = 2;
  Order.Item last = 3;
  map<string, int64> levels = 4;
  repeated int64 latest = 5;
}
"""
PROTOBUF_NEW = PROTOBUF.replace("fixed64 sum = 14;", "fixed64 sum = 14; string coupon = 20; Level before = 21;")
"""The schema of newer producers."""


def protobuf_order(of: Any, number: int, **more: Any) -> Any:
    """An order as a message of its class."""
    order = of(
        id=number, level="HIGH", mail="ann@example.org", photo=bytes(range(256)), numbers=[-1, 2**31 - 1, 0],
        sum=2**64 - 1, tags=["new", ""], **more,
    )  # fmt: skip
    order.customer.name = f"ann-{number}"
    order.customer.home.street, order.customer.home.zip = "Långgatan 5", 11_743
    order.items.add(sku="pen", count=3, cents=150)
    order.items.add(sku="ink", count=1, cents=-1)
    order.scores.update({"speed": 0.1, "Größe": -2.5e300})
    order.shelves[-7].CopyFrom(order.items[0])
    order.shelves[0].SetInParent()
    order.at.seconds, order.at.nanos = 1_772_323_199, 123_000_000
    return order
