"""Chooses the engine of an application: the one in this process, or Spark.

Takes the arguments of `StoatFlow`, returns an engine that has checked them and has not started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.errors import ConfigError
from stoatflow.restoring import RestoreListener, restore_callback

if TYPE_CHECKING:
    from stoatflow.embedded import EmbeddedBroker
    from stoatflow.settings import Settings
    from stoatflow.spark.engine import SparkEngine
    from stoatflow.spark.options import SparkOptions
    from stoatflow.topology import Topology

Listener = Callable[[str, str], None]


def native(
    plan: bridge.Plan,
    settings: Settings,
    broker: EmbeddedBroker | None,
    listener: Listener,
    on_restore: RestoreListener | None,
    uncaught: Callable[[BaseException], str],
) -> bridge.Engine:
    """Return the engine that runs in this process."""
    try:
        return bridge.Engine(
            plan,
            settings.pairs(),
            None if broker is None else broker.native,
            listener,
            None if on_restore is None else restore_callback(on_restore),
            uncaught,
            [(name, settings.origin(name)) for name in settings],
        )
    except ConfigError as error:
        raise settings.explain(error) from None


def at_broker(settings: Settings, broker: EmbeddedBroker | None) -> Settings:
    """Return the checked settings of an application that runs on this broker."""
    if broker is not None:
        servers = str(settings.get("bootstrap.servers", "embedded:"))
        if not servers.startswith("embedded:"):
            raise ConfigError(
                f"an embedded broker is given, but bootstrap.servers is {servers}",
                next_step="leave out broker= to use Kafka, or bootstrap.servers to use the embedded broker",
            )
        settings = settings.with_defaults({"bootstrap.servers": f"embedded:{broker.path}"})
    settings.check()
    return settings


def is_spark(engine: str, batch: bool, options: SparkOptions | None) -> bool:
    """Whether to run on Spark. Raise `ConfigError` for arguments that exclude each other."""
    if engine not in {"stoatflow", "spark"}:
        raise ConfigError(f"there is no engine {engine!r}", next_step="write stoatflow or spark")
    if engine == "stoatflow" and (batch or options is not None):
        given = "batch=" if batch else "spark="
        raise ConfigError(f'{given} is of engine="spark"', next_step='write engine="spark", or leave it out')
    return engine == "spark"


def on_spark(
    topology: Topology,
    settings: Settings,
    options: SparkOptions | None,
    batch: bool,
    listener: Listener,
    arguments: tuple[object, ...],
) -> SparkEngine:
    """Return the engine that drives Spark; `arguments` are those that have no meaning there."""
    from stoatflow.spark.engine import SparkEngine
    from stoatflow.spark.options import SparkOptions
    from stoatflow.spark.unsupported import ARGUMENTS, refuse_arguments

    refuse_arguments(dict(zip(ARGUMENTS, arguments, strict=True)))
    return SparkEngine(topology, settings, options or SparkOptions(), batch=batch, listener=listener)
