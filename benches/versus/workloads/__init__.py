"""The four workloads, by name."""

from __future__ import annotations

from workloads import json_filter, table_join, windowed_sum, word_count
from workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {
    one.name: one for one in (json_filter.WORKLOAD, word_count.WORKLOAD, windowed_sum.WORKLOAD, table_join.WORKLOAD)
}
