"""Bytewax's guide, "Running Joins": the values of all sides whenever one of them changes."""

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def dataflow(inputs, outputs):
    flow = Dataflow("running_join")
    names = op.input("names", flow, TestingSource(inputs["names"]))
    emails = op.input("emails", flow, TestingSource(inputs["emails"]))
    name = op.map("name", names, lambda each: (each["user"], each["name"]))
    email = op.map("email", emails, lambda each: (each["user"], each["email"]))
    users = op.join("join", name, email, emit_mode="running")
    op.output("users", users, TestingSink(outputs["users"]))
    return flow
