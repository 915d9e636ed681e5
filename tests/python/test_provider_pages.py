"""The permissions in docs/guide/providers, in each provider's terms, are those that `stoatflow acls` lists."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import stoatflow as sf
from stoatflow.cli.acls import needed

PAGES = Path(__file__).resolve().parents[2] / "docs" / "guide" / "providers"
# (resource, name, whether it is a prefix, operation)
Right = tuple[str, str, bool, str]

OPTIONS = {
    "--topic": "TOPIC",
    "--group": "GROUP",
    "--consumer-group": "GROUP",
    "--transactional-id": "TRANSACTIONAL_ID",
}
TYPES = {"topic": "TOPIC", "group": "GROUP", "transactionalId": "TRANSACTIONAL_ID"}
# Kafka's name for an operation, and the additional action that Amazon requires.
ACTIONS = {
    ("topic", "ReadData"): ("TOPIC", "READ", "DescribeTopic"),
    ("topic", "WriteData"): ("TOPIC", "WRITE", "DescribeTopic"),
    ("topic", "CreateTopic"): ("TOPIC", "CREATE", "DescribeTopic"),
    ("topic", "DescribeTopicDynamicConfiguration"): ("TOPIC", "DESCRIBECONFIGS", "DescribeTopic"),
    ("group", "AlterGroup"): ("GROUP", "READ", "DescribeGroup"),
    ("transactional-id", "AlterTransactionalId"): ("TRANSACTIONAL_ID", "WRITE", "DescribeTransactionalId"),
}


def blocks(page: str, language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text("utf-8"), re.DOTALL)
    return found


def plain(operation: str) -> str:
    return re.sub(r"[-_]", "", operation).upper()


def of_commands(page: str, verb: str, option: str) -> Iterator[Right]:
    """Commands with options: operations may be in one option, or in several."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            if verb not in words:
                continue
            given = list(pairwise(words))
            operations = [each for word, value in given if word == option for each in value.split(",")]
            prefixed = "--prefix" in words or any(
                word == "--resource-pattern-type" and value.lower() == "prefixed" for word, value in given
            )
            for word, value in given:
                for operation in operations if word in OPTIONS else ():
                    yield OPTIONS[word], value, prefixed, plain(operation)


def of_kafka_user(page: str) -> Iterator[Right]:
    (user,) = [each for each in map(yaml.safe_load, blocks(page, "yaml")) if each.get("kind") == "KafkaUser"]
    for acl in user["spec"]["authorization"]["acls"]:
        resource = acl["resource"]
        prefixed = {"literal": False, "prefix": True}[resource["patternType"]]
        for operation in acl["operations"]:
            yield TYPES[resource["type"]], resource["name"], prefixed, plain(operation)


def of_policy(page: str) -> Iterator[Right]:
    (policy,) = map(json.loads, blocks(page, "json"))
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        actions = {action.removeprefix("kafka-cluster:") for action in statement["Action"]}
        given: Any = statement["Resource"]
        for resource in [given] if isinstance(given, str) else given:
            kind, _, _, *name = resource.rpartition(":")[2].split("/")
            if kind == "cluster":
                assert actions == {"Connect", "WriteDataIdempotently"}
                continue
            besides = set()
            for action in actions:
                if (kind, action) in ACTIONS:
                    meaning, operation, beside = ACTIONS[kind, action]
                    besides |= {action, beside}
                    yield meaning, name[0].removesuffix("*"), name[0].endswith("*"), operation
            assert actions == besides, "each action is needed, and has what it wants beside it"


READ: dict[str, Callable[[str], Iterator[Right]]] = {
    "confluent-cloud": lambda page: of_commands(page, "confluent", "--operations"),
    "amazon-msk": of_policy,
    "aiven": lambda page: of_commands(page, "avn", "--operation"),
    "redpanda": lambda page: of_commands(page, "rpk", "--operation"),
    "strimzi": of_kafka_user,
    "your-own": lambda page: of_commands(page, "kafka-acls.sh", "--operation"),
}


def test_there_is_a_reader_for_each_page() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == READ.keys()


@pytest.mark.parametrize("page", READ)
def test_the_permissions_of_a_page_are_those_that_are_needed(page: str) -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str)
    orders.group_by_key().count(store="by-customer").to_stream().to("totals", key=str, value=int)
    settings = sf.Settings({"application.id": "orders", "bootstrap.servers": "localhost:9092"}, environ={})
    wanted = [
        (acl.resource, acl.name, acl.pattern == "PREFIXED", plain(operation))
        for acl in needed(builder.build(), settings)
        for operation in acl.operations
    ]
    assert sorted(READ[page](page)) == sorted(wanted)
