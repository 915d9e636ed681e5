"""Random cases that Kafka Streams' test driver can check: it runs all sub-topologies as one task, with one time."""

from __future__ import annotations

import functools

from semantics import random_cases

cases = functools.partial(random_cases.cases, one_task=True)
searching = random_cases.searching
outcome = random_cases.outcome
