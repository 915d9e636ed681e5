"""What a machine with more cores could do, from what each part costs on this one. A model, not a measurement.

Takes CPU microseconds per record of the parts that run in one thread (they can't be parallelized) and of those that run
in any number of threads. Returns records per second for a number of cores, by two formulas, with the arithmetic.
Ignores memory bandwidth, caches, sockets, disks and the broker, which can only reduce the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CORES = (2, 8, 96)


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU per record. `serial`: by part, each in one thread at a time; `shared`: the parallel parts."""

    serial: Mapping[str, float]
    shared: float

    @property
    def total(self) -> float:
        """Total of a record, all parts."""
        return sum(self.serial.values()) + self.shared

    @property
    def serial_share(self) -> float:
        """Serial share: Amdahl's s."""
        return sum(self.serial.values()) / self.total

    @property
    def narrowest(self) -> str:
        """The most expensive serial part, which limits the throughput for any number of cores."""
        return max(self.serial, key=lambda part: self.serial[part])

    def in_turn(self, cores: int) -> float:
        """Records per second if serial parts never overlap, neither with each other nor with the rest: Amdahl's law."""
        return 1e6 / (sum(self.serial.values()) + self.shared / cores)

    def side_by_side(self, cores: int) -> float:
        """Records per second if all parts overlap and no core ever waits: a pipeline."""
        return 1e6 / max(*self.serial.values(), self.total / cores)

    def enough_cores(self) -> float:
        """Number of cores from which the slowest serial part limits a pipeline."""
        return self.total / self.serial[self.narrowest]


def explained(name: str, costs: Costs, measured: float, cores_here: int, cores: Sequence[int] = CORES) -> str:
    """Return the arithmetic, as lines."""
    parts = " + ".join(f"{part} {cost:.2f}" for part, cost in costs.serial.items())
    serial = sum(costs.serial.values())
    most = costs.serial[costs.narrowest]

    def with_cores(number: int) -> str:
        turns = f"1e6 / ({serial:.2f} + {costs.shared:.2f} / {number}) = {costs.in_turn(number):,.0f}"
        beside = f"1e6 / max({most:.2f}, {costs.total:.2f} / {number}) = {costs.side_by_side(number):,.0f}"
        return f"  {number:3} cores: in turn {turns}; side by side {beside} records/s"

    in_all = f"one thread each: {parts} = {serial:.2f}; shared: {costs.shared:.2f}; in all {costs.total:.2f}"
    share = f"{serial:.2f} / {costs.total:.2f} = {costs.serial_share:.2f}"
    reached = measured / costs.in_turn(cores_here)
    bound = f"at most {1e6 / most:,.0f} records/s, from {costs.enough_cores():.1f} cores on"
    return "\n".join(
        [
            f"{name}: us of CPU per record: {in_all}",
            f"  serial share {share}; the narrowest part is {costs.narrowest}: {bound}",
            *map(with_cores, cores),
            f"  measured here, {cores_here} cores: {measured:,.0f} records/s, {reached:.2f} of the model in turn",
        ]
    )
