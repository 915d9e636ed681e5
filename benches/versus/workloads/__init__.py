"""The workloads with inputs and outputs, by name. W6 is the restore: `restore_row.py`."""

from __future__ import annotations

from workloads import json_filter, sessions, shop, table_join, windowed_sum, word_count
from workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {
    room.WORKLOAD.name: room.WORKLOAD for room in (json_filter, word_count, windowed_sum, table_join, sessions, shop)
}
