"""Two topologies of one application, compared as an upgrade.

Takes topologies and, if known, the settings of both. Returns the changes of stores, input topics, output topics and
changelog topics. There are no repartition or subscription topics to compare: records are repartitioned in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoatflow.upgrade.outcomes import Outcome, Status, outcome
from stoatflow.upgrade.pairs import paired
from stoatflow.upgrade.stores import StoreFacts, stores_of

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_CLOCKS = "clocks"


@dataclass(frozen=True)
class Side:
    """What is compared of one topology, as plain data: the topology's modules may be unloaded."""

    stores: tuple[StoreFacts, ...]
    inputs: tuple[str, ...]
    """Topics, and patterns of topics."""
    begins: dict[str, str]
    """Where each input is read from if it is new."""
    outputs: tuple[str, ...]
    has_clocks: bool
    sub_topologies: int
    settings: dict[str, str]

    @classmethod
    def of(cls, topology: Topology, settings: Settings | None = None) -> Side:
        """Return what is known about a topology."""
        plan = json.loads(topology.plan.physical_json)
        known = {} if settings is None else {name: str(settings.get(name)) for name in _SETTINGS if name in settings}
        inputs = {
            name: _beginning(source)
            for source in plan["sources"]
            for name in (source["topics"] or [f"/{source['pattern']}/"])
        }
        return cls(
            tuple(stores_of(topology, in_memory=known.get("default.dsl.store", "").lower() == "in_memory")),
            tuple(inputs),
            inputs,
            tuple(dict.fromkeys(sink["topic"] for sink in plan["sinks"] if sink["topic"])),
            bool(plan["clocks"]),
            topology.describe().count("Sub-topology: "),
            known,
        )

    @property
    def application(self) -> str | None:
        """The application's id, if the settings have it."""
        return self.settings.get("application.id")

    @property
    def generated(self) -> tuple[str, ...]:
        """Names of stores that were generated."""
        return tuple(store.name for store in self.stores if not store.is_named)

    @property
    def changelogs(self) -> tuple[str, ...]:
        """Changelog topics of the application."""
        application = self.application or "<application.id>"
        own = [f"{application}-{store.name}-changelog" for store in self.stores if store.is_logged]
        return tuple([*own, f"{application}-{_CLOCKS}-changelog"] if self.has_clocks else own)


@dataclass(frozen=True)
class SettingChange:
    """A change of a setting that affects state."""

    name: str
    old: str | None
    new: str | None
    then: str
    is_lost: bool = False


_SETTINGS = {
    "application.id": "another application: it begins with no state, and reads its input from the beginning",
    "bootstrap.servers": "if it is another cluster, neither offsets nor changelogs are there",
    "state.dir": "the local state is not found there: it is restored, but for stores without a changelog",
    "processing.guarantee": "state and offsets go on",
    "default.dsl.store": "stores move between disk and memory: those with a changelog are restored",
}
_ALL_LOST = ("application.id",)


@dataclass(frozen=True)
class Comparison:
    """The effects of an upgrade."""

    old: Side
    new: Side
    stores: tuple[Outcome, ...]
    settings: tuple[SettingChange, ...]

    @classmethod
    def of(cls, old: Side, new: Side) -> Comparison:
        """Compare two topologies."""
        pairs = paired(list(old.stores), list(new.stores))
        stores = tuple(outcome(pair, old.inputs) for pair in pairs)
        changed = [name for name in _SETTINGS if old.settings.get(name) != new.settings.get(name)]
        return cls(
            old,
            new,
            stores,
            tuple(
                SettingChange(name, old.settings.get(name), new.settings.get(name), _SETTINGS[name], name in _ALL_LOST)
                for name in changed
            ),
        )

    @property
    def is_lost(self) -> bool:
        """Whether any state of the old application is no longer used, or is read with another meaning."""
        return any(each.is_lost for each in self.stores) or any(each.is_lost for each in self.settings)

    @property
    def unrestorable(self) -> list[str]:
        """Stores that are lost if the local state has to be removed because of another store."""
        if not any(each.status is Status.REBUILT for each in self.stores):
            return []
        kept = [each.pair.new for each in self.stores if each.status in (Status.KEPT, Status.CHANGED)]
        local = [store for store in kept if store is not None and not store.is_logged and not store.is_in_memory]
        return [store.name for store in local if store.copied_topic is None]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "lost": self.is_lost,
            "stores": [_store_json(each) for each in self.stores],
            "unrestorable": self.unrestorable,
            "inputs": _sets(self.old.inputs, self.new.inputs),
            "outputs": _sets(self.old.outputs, self.new.outputs),
            "changelogs": _sets(self.old.changelogs, self.new.changelogs),
            "settings": [
                {"name": each.name, "old": each.old, "new": each.new, "then": each.then, "lost": each.is_lost}
                for each in self.settings
            ],
            "generated_names": list(self.new.generated),
            "sub_topologies": {"old": self.old.sub_topologies, "new": self.new.sub_topologies},
        }


def _beginning(source: dict[str, Any]) -> str:
    if source["global"]:
        return "read whole at each start"
    known = {"earliest": "read from the beginning", "latest": "read from its end"}
    asked = source["reset"]
    says = "auto.offset.reset" if asked is None else "its reset="
    return f"{known.get(str(asked), f'read from where {says} says')}, unless this application has read it before"


def without(some: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
    """Return the members of `some` that are not in `others`, in order."""
    return [each for each in some if each not in others]


def _sets(old: tuple[str, ...], new: tuple[str, ...]) -> dict[str, list[str]]:
    return {"added": without(new, old), "removed": without(old, new)}


def _store_json(each: Outcome) -> dict[str, Any]:
    pair = each.pair
    return {
        "name": each.name,
        "old_name": None if pair.old is None else pair.old.name,
        "status": each.status.value,
        "lost": each.is_lost,
        "changes": list(each.changes),
        "then": each.then,
        "next": each.advice,
    }
