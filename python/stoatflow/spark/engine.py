"""The engine of an application that runs on Spark: started, waited for and stopped by `StoatFlow(..., engine="spark")`.

Takes a topology, settings, options. Has states, an end, an error; the results are in `SparkRun`. Owns the thread that
drives Spark, and what it has opened, until the application is closed. Methods without a meaning on Spark raise an error
that names them. `run_batch` and `run_stream` do the computation.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from stoatflow.errors import ConfigError, StoatFlowError
from stoatflow.spark import connected, embedded
from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError
from stoatflow.spark.options import SparkOptions
from stoatflow.spark.twin import faithful
from stoatflow.spark.twin import settings as meaning
from stoatflow.spark.unsupported import OF_ENGINE, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.settings import Settings
    from stoatflow.spark.twin.running import TwinResult
    from stoatflow.spark.twin.streaming import TwinQuery
    from stoatflow.topology import Topology

_ABORT_RETRY_S = 0.5
"""How often a stop request is repeated: between two jobs Spark ignores it."""
_STEP_S = 0.05
_log = logging.getLogger("stoatflow")


class SparkEngine:
    """One run on Spark, with the engine methods that `StoatFlow` calls."""

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        options: SparkOptions,
        *,
        batch: bool,
        listener: Callable[[str, str], None],
    ) -> None:
        """Check everything, start nothing."""
        self.topology: Topology = topology
        self.settings: Settings = settings
        self.options: SparkOptions = options
        self.batch: bool = batch
        self.session: SparkSession | None = None
        self.result: TwinResult | None = None
        self.query: TwinQuery | None = None
        self._listener = listener
        self._state = "CREATED"
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._over = self._asked = False
        self._error: BaseException | None = None
        self._opened = ExitStack()
        self._jobs = f"stoatflow-{uuid.uuid4().hex[:8]}"
        self._bootstrap = str(settings.get("bootstrap.servers", ""))
        self._check()

    def _check(self) -> None:
        self.options.check(batch=self.batch)
        if self.options.session is not None and not self.batch:
            connected.need_classic(self.options.session, "a stream", connected.BATCH)
        faithful.check(self.topology, streaming=not self.batch)
        meaning.pairs(self.settings)
        nothing = list(meaning.without_effect(self.settings))
        if nothing and str(self.settings.get("config.strict", "")).lower() == "true":
            raise ConfigError("; ".join(nothing), next_step="leave them out, or leave out config.strict")
        for line in nothing:
            _log.info("%s", line)
        if letters := faithful.dead_letters(self.topology):
            _log.warning("dead letters are not among the results on Spark: those of %s", ", ".join(letters))
        self._check_topics()

    def _check_topics(self) -> None:
        """Check that a broker is given if topics are read or written, and that Spark can use it."""
        from stoatflow.spark.twin import input_topics

        missing = self._from_topics()
        writes = not self.batch and self.options.output is None
        if (missing or writes) and not self._bootstrap:
            raise ConfigError(
                f"there is no broker for {', '.join(missing) or 'what it writes'}",
                next_step="set bootstrap.servers, or give DataFrames and a folder: SparkOptions(inputs=, output=)",
            )
        if not self.batch and (missing or writes):
            input_topics.refuse_embedded(self._bootstrap)
        self._kafka = bool(missing or writes) and embedded.path_of(self._bootstrap) is None
        if self._kafka and self.options.session is not None:
            connected.need_classic(self.options.session, "a topic of a broker", connected.FRAMES)
        if writes:
            meaning.refuse_exactly_once(self.settings)

    def _from_topics(self) -> list[str]:
        """Return the topics that are read from the broker."""
        from stoatflow.spark.audit.reconciling import topics_read

        return [topic for topic in topics_read(self.topology) if topic not in self.options.inputs]

    # Methods of an engine -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start in a thread of its own."""
        self._set_state("STARTING")
        threading.Thread(target=self._live, name="stoatflow-spark", daemon=True).start()

    def request_stop(self, within_s: float | None = None) -> None:
        """Stop, or give up after `within_s`; after the end, close what the results need."""
        with self._lock:
            self._asked = True
            waits = self._state == "CREATED"
            over = self._over = self._over or waits
        if waits:
            self._set_state("STOPPED")
            self._ended.set()
        elif over:
            self._release()
        else:
            threading.Thread(target=self._stop, args=(within_s,), name="stoatflow-stop", daemon=True).start()

    def abort(self) -> None:
        """End now: Spark's unfinished work is abandoned."""
        with self._lock:
            self._asked = True
            if self._over:
                return
            self._over = True
        self._set_state("STOPPED")
        self._ended.set()
        threading.Thread(target=self._interrupt, name="stoatflow-abort", daemon=True).start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; raise the error that it failed with."""
        if not self._ended.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def wait_until_caught_up(self, timeout_s: float | None, ended: Callable[[float], bool]) -> None:
        """Wait until a batch has ended, or a stream has found nothing new to read."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        caught_up = threading.Event()
        asking = False
        while not caught_up.is_set():
            if ended(_STEP_S):
                if self.result is not None or (self.options.until_end and not self._asked):
                    return
                raise RuntimeError("the application has ended and was waited for. Next: make a new one and start it")
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(
                    f"the application is {self._state} and has not caught up within {timeout_s:g} s. Next: start it if "
                    "it was not, or wait longer: Spark takes seconds to start, and a trigger is done as a whole"
                )
            if self.query is not None and not asking:
                asking = True
                threading.Thread(target=self._ask, args=(caught_up,), name="stoatflow-asks", daemon=True).start()

    def _ask(self, caught_up: threading.Event) -> None:
        # If the query fails meanwhile, its own error is raised instead.
        with suppress(Exception):
            if self.query is not None:
                self.query.query.processAllAvailable()
                caught_up.set()

    def state(self) -> str:
        """Return the name of the state."""
        return self._state

    def shutdown_timeout_s(self) -> float:
        """Return `shutdown.timeout.ms` in seconds."""
        from stoatflow.durations import duration_ms

        given = self.settings.get("shutdown.timeout.ms", 30_000)
        text = str(given)
        return (float(text) if text.isdecimal() else duration_ms(text)) / 1000

    def has_left_behind(self) -> bool:
        """Return False: functions that hang are in Spark's workers."""
        return False

    def is_closed(self) -> bool:
        """Whether it has ended, and was asked to close."""
        return self._over and self._asked

    def is_paused(self) -> bool:
        """Return False: pausing is not possible on Spark."""
        return False

    def admin_url(self) -> None:
        """Return `None`: there is no admin port on Spark."""

    def restore_progress(self) -> list[tuple[str, int, int, bool]]:
        """Return an empty list: a task restores its stores when its first record arrives."""
        return []

    def refuse(self, method: str) -> NoReturn:
        """Raise the error about a method of `StoatFlow` that has no meaning on Spark."""
        raise refusal(method)

    def __getattr__(self, name: str) -> Any:
        """Raise an error for methods that only the engine in this process has."""
        if name not in OF_ENGINE:
            raise AttributeError(name)
        self.refuse(OF_ENGINE[name])

    # Internals ---------------------------------------------------------------------------------------

    def _live(self) -> None:
        error: BaseException | None = None
        try:
            session = self._opened_session()
            self.session = session
            if self.batch:
                self._run_batch(session)
            else:
                self._run_stream(session)
        except BaseException as raised:  # any error of Spark ends this run
            error = raised
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            given_up, self._over = self._over, True
            stopped = self._asked
        if stopped or error is not None:
            self._release()
        if given_up:
            return
        if error is not None and not stopped:
            self._error = _meant(error)
        self._set_state("STOPPED" if self._error is None else "ERROR")
        self._ended.set()

    def _release(self) -> None:
        try:
            self._opened.pop_all().close()
        except Exception:  # it is closed in any case; an error changes nothing
            _log.debug("closing what a run on Spark has opened failed", exc_info=True)

    def _stop(self, within_s: float | None) -> None:
        deadline = None if within_s is None else time.monotonic() + within_s
        self._set_state("STOPPING")
        while True:
            self._interrupt()
            if self._ended.wait(_ABORT_RETRY_S):
                return
            if deadline is not None and time.monotonic() >= deadline:
                self.abort()
                return

    def _interrupt(self) -> None:
        with suppress(Exception):
            if self.query is not None:
                self.query.stop()
            elif self.session is not None and self.batch:
                connected.cancel_jobs(self.session, self._jobs)

    def _set_state(self, state: str) -> None:
        with self._lock:
            old, ended = self._state, self._state in {"STOPPED", "ERROR"}
            if ended or old == state:
                return
            self._state = state
        self._listener(state, old)

    def _log_line(self, text: str) -> None:
        if self._asked:
            raise TwinError("it was stopped")
        if self.options.say is not None:
            self.options.say(text)
        else:
            _log.info("%s", text)

    def _opened_session(self) -> SparkSession:
        if self.options.session is not None:
            return self.options.session
        from stoatflow.spark.session import is_running, local_session, starting

        shared = is_running()
        self._log_line(starting(kafka=self._kafka))
        stack = ExitStack()
        given = local_session(kafka=self._kafka, cores=self.options.cores, conf=self.options.conf)
        session = stack.enter_context(given)
        if not shared:
            self._opened.push(stack)
        return session

    def _run_batch(self, spark: SparkSession) -> None:
        from stoatflow.spark.twin.running import run_batch

        name = str(self.settings.get("application.id", "twin"))
        connected.name_jobs(spark, self._jobs, name)
        frames, partitions = self._opened.enter_context(self._inputs(spark))
        self._set_state("RUNNING")
        result = run_batch(
            self.topology,
            frames,
            config=self.settings,
            partitions=partitions,
            tasks=self.options.tasks,
            say=self._log_line,
        )
        self._opened.enter_context(result)
        if self.options.folder is not None:
            _write(result, str(self.options.folder))
        self.result = result

    @contextmanager
    def _inputs(self, spark: SparkSession) -> Iterator[tuple[dict[str, DataFrame], dict[str, int]]]:
        from pathlib import Path

        from stoatflow.spark.audit import reading

        frames = {
            topic: spark.read.parquet(str(given)) if isinstance(given, str | Path) else given
            for topic, given in self.options.inputs.items()
        }
        known = dict(self.options.partitions or {})
        rest = self._from_topics()
        if not rest:
            yield frames, known
            return
        with reading.topics(
            spark, self._bootstrap, rest, client=self._client(), removed=self.options.removed
        ) as readable:
            yield readable.frames | frames, readable.partitions | known

    def _run_stream(self, spark: SparkSession) -> None:
        from stoatflow.spark.twin.streaming import run_stream

        options = self.options
        inputs: Any = dict(options.inputs) or self._bootstrap
        self.query = run_stream(
            spark,
            self.topology,
            inputs,
            options.folder or options.output or self._bootstrap,
            checkpoint=str(options.checkpoint),
            client=self._client(),
            config=self.settings,
            partitions=options.partitions,
            tasks=options.tasks,
            every=options.trigger,
            until_end=options.until_end,
            at_most=options.at_most,
            removed=options.removed,
            say=self._log_line,
        )
        self._opened.enter_context(self.query)
        self._set_state("RUNNING")
        last_trigger = -1
        while not self.query.wait(1):
            last_trigger = self._progress(last_trigger)
        self._progress(last_trigger)

    def _progress(self, last_trigger: int) -> int:
        """Report what each trigger has read."""
        assert self.query is not None  # noqa: S101  # it was started
        for trigger, count in self.query.progress():
            if trigger > last_trigger and count:
                with suppress(TwinError):
                    self._log_line(f"trigger {trigger}: {count:,} records")
                last_trigger = trigger
        return last_trigger

    def _client(self) -> Mapping[str, str]:
        return meaning.client(self.settings) | dict(self.options.client)


def _write(result: TwinResult, folder: str) -> None:
    """Write the results of a batch as Parquet files."""
    for topic in result.topics:
        result.output(topic).write.mode("overwrite").parquet(f"{folder}/topics/{topic}")
    for store in result.stores:
        result.store(store).write.mode("overwrite").parquet(f"{folder}/stores/{store}")


def _meant(error: BaseException) -> BaseException:
    if isinstance(error, StoatFlowError | SparkUnavailableError | TopicError | TwinError):
        return error
    made = TwinError(f"the run on Spark failed: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
