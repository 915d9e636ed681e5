"""Problems visible in the answers, each with the section of the guide that says what to do.

Takes answers and metrics, returns findings. Pure: sends no requests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_LONG_MS = 10_000
_SLOW_COMMIT_US = 5_000_000
_DISK_LEFT = 0.1
_FILES_USED = 0.8
_SECTIONS = {
    "stalled": "StoatFlowStalled", "open_transaction": "StoatFlowOpenTransaction", "paused": "StoatFlowPaused",
    "restoring": "StoatFlowRestoreTakesLong",
}  # fmt: skip


class Finding(NamedTuple):
    """Something that isn't as it should be."""

    text: str
    section: str
    """Section of docs/guide/monitoring.md."""

    def __str__(self) -> str:
        """Return it as a line of the summary."""
        return f"{self.text} (docs/guide/monitoring.md#{self.section.lower()})"


def findings(answers: dict[str, Any], numbers: dict[str, float], rates: dict[str, float]) -> list[Finding]:
    """Return all of them, the most urgent first."""
    return [
        *_silence(answers),
        *_readiness(answers.get("health-ready") or {}),
        *_long_calls(answers.get("threads") or {}),
        *_standstill(answers, rates),
        *_commits(answers.get("barriers") or {}),
        *_restarts(answers.get("state") or {}),
        *_room(numbers),
        *_left_out(answers.get("topology") or {}),
    ]


def _silence(answers: dict[str, Any]) -> list[Finding]:
    if answers.keys() & {"info", "state", "health-live", "health-ready", "config"}:
        return []
    return [Finding("its port is open, and nothing answers: the process stands still", "StoatFlowDown")]


def _readiness(ready: dict[str, Any]) -> list[Finding]:
    if ready.get("ready") is not False:
        return []
    reason = str(ready.get("reason"))
    parts = [f"not ready: {reason}", str(ready.get("detail", "")), f"Next: {ready.get('next_step', '')}"]
    return [Finding(". ".join(each for each in parts if each), _SECTIONS.get(reason, "StoatFlowNotReady"))]


def calls(threads: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the functions that threads are running, with the thread, the longest call first."""
    lanes = [(f"lane {lane.get('lane')}", lane.get("call")) for lane in threads.get("lanes", ())]
    intake = ("intake", (threads.get("intake") or {}).get("call"))
    busy = [(who, call) for who, call in (*lanes, intake) if call]
    return sorted(busy, key=lambda each: -int(each[1].get("for_ms") or 0))


def place(call: dict[str, Any]) -> str:
    """Return function, node and record of a call."""
    record = f"{call.get('topic')}-{call.get('partition')} offset {call.get('offset')}"
    return f"`{call.get('function')}` in node '{call.get('node')}' at {record}"


def _long_calls(threads: dict[str, Any]) -> list[Finding]:
    long = [each for each in calls(threads) if int(each[1].get("for_ms") or 0) >= _LONG_MS]
    return [
        Finding(f"{who} has been in {place(call)} for {int(call['for_ms']) / 1000:.0f} s", "StoatFlowStalled")
        for who, call in long
    ]


def _standstill(answers: dict[str, Any], rates: dict[str, float]) -> list[Finding]:
    lag = (answers.get("offsets") or {}).get("lag") or 0
    running = (answers.get("state") or {}).get("state") == "RUNNING"
    if not running or not lag or rates.get("records committed") != 0:
        return []
    wait = "1 record waits" if lag == 1 else f"{lag} records wait"
    return [Finding(f"{wait}, and none was committed while this was taken", "StoatFlowNothingCommitted")]


def _commits(barriers: dict[str, Any]) -> list[Finding]:
    found = []
    failed, slow = barriers.get("failed"), (barriers.get("quantiles_us") or {}).get("p99") or 0
    if failed:
        text = f"the commit of epoch {failed.get('epoch')} failed at the step {failed.get('step')}"
        found.append(Finding(text, "StoatFlowRestartsByItself"))
    if slow > _SLOW_COMMIT_US:
        found.append(Finding(f"one in a hundred commits takes {slow / 1e6:.1f} s or more", "StoatFlowCommitsSlow"))
    return found


def _restarts(state: dict[str, Any]) -> list[Finding]:
    times = state.get("restarts") or 0
    return [Finding(f"restarts by itself: {times}", "StoatFlowRestartsByItself")] if times else []


def _room(numbers: dict[str, float]) -> list[Finding]:
    found = []
    free, size = numbers.get("stoatflow_state_disk_free_bytes"), numbers.get("stoatflow_state_disk_size_bytes")
    if free is not None and size and free < _DISK_LEFT * size:
        text = f"the disk under state.dir has {free / size:.0%} left"
        found.append(Finding(text, "StoatFlowStateDiskNearlyFull"))
    used, most = numbers.get("process_open_fds"), numbers.get("process_max_fds")
    if used is not None and most and used > _FILES_USED * most:
        found.append(Finding(f"{used:.0f} of {most:.0f} file handles are open", "StoatFlowFilesNearlyOut"))
    return found


def _left_out(topology: dict[str, Any]) -> list[Finding]:
    return [
        Finding(f"{_were(row.get('count'))} left out at '{row.get('node')}': {row.get('reason')}", _dropped(row))
        for row in topology.get("dropped", ())
    ]


def _were(count: object) -> str:
    return "1 record was" if count == 1 else f"{count} records were"


def _dropped(row: dict[str, Any]) -> str:
    reason = str(row.get("reason"))
    return "StoatFlowDeadLetters" if reason.endswith("dead_letter") else "StoatFlowRecordsDropped"
