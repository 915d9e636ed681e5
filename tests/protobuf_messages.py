"""Message types that the tests of Protobuf share, with classes of the package `protobuf` for them."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import stoatflow as sf

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";

message User {
  int64 id = 1;
  string name = 2;
  optional string mail = 3;
  repeated string tags = 4;
  map<string, double> scores = 5;
  Level level = 6;
  bytes photo = 7;
  User boss = 8;
  oneof payment { string card = 9; int64 cash = 10; }
  google.protobuf.Int64Value points = 11;
  google.protobuf.Timestamp at = 12;
  uint64 large = 13;
  repeated sint32 numbers = 14;
  map<int32, User> others = 15;
}
message Named { string name = 1; optional string first_tag = 2; bytes picture = 3; }
enum Level { LOW = 0; HIGH = 1; }
"""

OLD = """
syntax = "proto2";
package old;
message Old {
  required int32 id = 1;
  optional string name = 2 [default = "nobody"];
  optional int32 age = 3;
  repeated int32 plain = 4;
  optional group Inner = 5 { optional int32 x = 1; }
}
"""


def classes(text: str) -> dict[str, Any]:
    """Return the classes of the messages of a .proto file, by their names."""
    from google.protobuf import timestamp_pb2, wrappers_pb2  # noqa: F401  # their files are found where all are

    first = text.split("message ", 1)[1].split(maxsplit=1)[0]
    package = text.split("package ", 1)[1].split(";", 1)[0]
    serde = sf.Serdes.protobuf(text, f"{package}.{first}")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(serde.descriptors).file:
        pool.Add(file)
    messages = pool.FindFileByName("schema.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(of) for name, of in messages.items()}


User = classes(SHOP)["User"]
Old = classes(OLD)["Old"]


def user(id: int, name: str, **more: Any) -> dict[str, Any]:  # noqa: A002  # the field is called that
    """Return a user as it is read."""
    return {
        "id": id, "name": name, "mail": None, "tags": [], "scores": {}, "level": "LOW", "photo": b"", "boss": None,
        "card": None, "cash": None, "points": None, "at": None, "large": 0, "numbers": [], "others": {}, **more,
    }  # fmt: skip
