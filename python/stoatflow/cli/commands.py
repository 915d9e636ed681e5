"""The names of all commands, and what `stoatflow --help` says about them."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {
    "run": "run an application",
    "new": "make a project: application, tests, settings, CI, Dockerfile",
    "acls": "print the permissions that an application needs on a cluster with ACLs",
    "broker": "start or stop a Kafka broker for development",
    "bundle": "make a support archive of a running application",
    "config": "explain a setting, with its value in force and where it comes from",
    "completion": "print a script that completes commands and options in a shell",
    "demo": "count words, be killed, recover, and prove the result",
    "describe": "print the topology of a Python file",
    "diff": "show which state survives a change of the topology",
    "dlq": "look at dead letters, and replay them",
    "doctor": "show what will go wrong, and which functions an expression could replace",
    "explain": "explain an error, a setting, a metric or the reason of a drop",
    "hand-over": "move an application to Spark, or back",
    "import-offsets": "make a new application continue where a consumer group stopped",
    "load": "make the records that a spec declares, and write them to topics",
    "prove": "prove that a port does what the Java topology does",
    "query": "read the stores of a running application",
    "reconcile": "prove that output topics hold the results of the input topics",
    "record": "write records of topics into a file, as inputs of prove",
    "reset": "rewind the input of an application and delete its state",
    "sql": "run a SELECT over the stores of a running application",
    "top": "show what keeps a running application busy",
    "word-count": "count the words of a topic, exactly once",
    "worker": "answer the requests of an offload with a function",
}
"""In the order of the help. Each is a module beside this one, imported when it is called."""
