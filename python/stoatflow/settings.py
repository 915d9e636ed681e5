"""Settings of an application, and the origin of each value.

Takes a mapping with Kafka Streams names, keyword arguments with underscores, a TOML, JSON or Java properties file and
`STOATFLOW_*` variables; returns name-value pairs for the engine, which defines what is valid, and the defaults. Order:
argument > environment > file > default.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from stoatflow.serdes import Serde

_PREFIX = "STOATFLOW_"
# Variables of the tools around the engine, not settings of an application.
_NOT_SETTINGS = ("STOATFLOW_LOG", "STOATFLOW_FAILPOINTS", "STOATFLOW_TEST_", "STOATFLOW_DEMO_", "STOATFLOW_BENCH_")

# The only setting that may be a function; named as in confluent-kafka.
_OAUTH_CB = "oauth_cb"
# These may be serdes, or types that stand for serdes.
_SERDES = ("default.key.serde", "default.value.serde")


class Settings:
    """Settings of one application, with the origin of each.

    `Settings({"application.id": "orders"}, bootstrap_servers="localhost:9092")`

    >>> settings = sf.Settings({"application.id": "words"}, environ={})
    >>> settings.get("application.id"), settings.origin("application.id")
    ('words', 'argument')
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        environ: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """Merge arguments over the environment (`environ={}` ignores it)."""
        self._merge({}, "", config, environ, settings)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        config: Mapping[str, object] | None = None,
        /,
        *,
        environ: Mapping[str, str] | None = None,
        **settings: object,
    ) -> Settings:
        """Merge arguments over the environment over a `.toml`, `.json` or `.properties` file.

        >>> from pathlib import Path
        >>> size = Path("app.toml").write_text('application.id = "words"')
        >>> sf.Settings.from_file("app.toml", lanes_count=4, environ={})
        <Settings application.id='words' (file app.toml), lanes.count=4 (argument)>
        """
        made = cls.__new__(cls)
        made._merge(_flat(_read(Path(path))), f"file {path}", config, environ, settings)
        return made

    def _merge(
        self,
        file: Mapping[str, object],
        file_origin: str,
        config: Mapping[str, object] | None,
        environ: Mapping[str, str] | None,
        keywords: Mapping[str, object],
    ) -> None:
        given = {_named(name): value for name, value in (config or {}).items()}
        named = {_dotted(name): value for name, value in keywords.items()}
        twice = sorted(given.keys() & named.keys())
        if twice:
            raise ConfigError(
                f"given twice, in the mapping and as keyword arguments: {', '.join(twice)}",
                next_step="keep one of the two",
            )
        self._values: dict[str, object] = {}
        self._origins: dict[str, str] = {}
        variables = _from_environment(os.environ if environ is None else environ)
        self._lay(file, dict.fromkeys(file, file_origin))
        self._lay(variables, {name: _variable(name) for name in variables})
        self._lay(given | named, dict.fromkeys(given | named, "argument"))

    def _lay(self, values: Mapping[str, object], origins: Mapping[str, str]) -> None:
        self._values.update((name, _kept(name, value)) for name, value in values.items())
        self._origins.update(origins)

    def pairs(self) -> list[tuple[str, object]]:
        """Return all values that were set, for the engine.

        >>> sf.Settings({"application.id": "words"}, lanes_count=4, environ={}).pairs()
        [('application.id', 'words'), ('lanes.count', 4)]
        """
        pairs = dict(self._values)
        if _OAUTH_CB in pairs:
            # Imported only if it is used.
            from stoatflow._runtime.oauth_calls import TokenCalls

            pairs[_OAUTH_CB] = TokenCalls(pairs[_OAUTH_CB], str(self.get("sasl.oauthbearer.config", "")))
        for name in _SERDES:
            serde = self.serde(name)
            if serde is not None:
                pairs[name] = serde.name if type(serde).__name__ == "BuiltinSerde" else "custom"
        return list(pairs.items())

    def origin(self, name: str) -> str:
        """Return where a value came from: `argument`, a variable, a file, or `default`.

        >>> settings = sf.Settings({"application.id": "words"}, environ={"STOATFLOW_LANES_COUNT": "4"})
        >>> settings.origin("application.id"), settings.origin("lanes.count"), settings.origin("state.dir")
        ('argument', 'variable STOATFLOW_LANES_COUNT', 'default')
        """
        return self._origins.get(name, "default")

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value that was set.

        >>> settings = sf.Settings({"application.id": "words"}, environ={})
        >>> settings.get("application.id"), settings.get("lanes.count"), settings.get("lanes.count", 4)
        ('words', None, 4)
        """
        return self._values.get(name, default)

    def serde(self, name: str) -> Serde[Any] | None:
        """Return the serde that was set in code under this name; `None` if it is set by name, or not set.

        >>> settings = sf.Settings({"default.value.serde": sf.Serdes.json()}, environ={})
        >>> settings.serde("default.value.serde"), settings.serde("default.key.serde")
        (<Serde json>, None)
        """
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return None
        from stoatflow.serdes import resolve  # needed only for serdes set in code

        return resolve(value)  # type: ignore[arg-type]  # it raises for anything else

    def check(self) -> None:
        """Raise one `ConfigError` that lists every problem, and where the values came from.

        >>> settings = sf.Settings({"application.id": "words", "bootstrap.servers": "localhost:9092"}, environ={})
        >>> try:
        ...     settings.with_values({"lanes.count": 0}).check()
        ... except sf.ConfigError as error:
        ...     print(error.message)
        one setting is wrong:
          lanes.count = 0: must be between 1 and 4096
        """
        # The rest of this module must work without the native module (documentation).
        from stoatflow._runtime import bridge

        try:
            bridge.check_settings(self.pairs())
        except ConfigError as error:
            raise self.explain(error) from None

    def explain(self, error: ConfigError) -> ConfigError:
        """Add to an error where the values that it names came from.

        >>> settings = sf.Settings({"application.id": "words"}, environ={"STOATFLOW_LANES_COUNT": "0"})
        >>> error = sf.ConfigError("lanes.count is too small", next_step="write 1 or more")
        >>> settings.explain(error).message
        'lanes.count is too small (lanes.count comes from variable STOATFLOW_LANES_COUNT)'
        """
        named = [
            f"{name} comes from {origin}"
            for name, origin in self._origins.items()
            if origin != "argument" and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]*\w)", error.message)
        ]
        if not named:
            return error
        return ConfigError(
            f"{error.message} ({'; '.join(named)})", next_step=error.next_step, coordinates=error.coordinates
        )

    def with_defaults(self, defaults: Mapping[str, object]) -> Settings:
        """Return settings with these values for names that were not set.

        >>> settings = sf.Settings({"application.id": "words"}, environ={})
        >>> settings.with_defaults({"application.id": "other", "lanes.count": 4}).pairs()
        [('application.id', 'words'), ('lanes.count', 4)]
        """
        made = Settings.__new__(Settings)
        made._values = {**defaults, **self._values}
        made._origins = dict(self._origins)
        return made

    def with_values(self, values: Mapping[str, object]) -> Settings:
        """Return settings with these values, replacing those that were set.

        >>> settings = sf.Settings({"application.id": "words", "lanes.count": 4}, environ={})
        >>> settings.with_values({"application.id": "other"}).pairs()
        [('lanes.count', 4), ('application.id', 'other')]
        """
        made = Settings.__new__(Settings)
        others = {name: value for name, value in self._values.items() if _dotted(name) not in values}
        made._values = {**others, **values}
        made._origins = {**self._origins, **dict.fromkeys(values, "argument")}
        return made

    def __contains__(self, name: object) -> bool:
        """Whether a value was set for this name."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that were set."""
        return iter(self._values)

    def __repr__(self) -> str:
        """Show values and origins; values that may be secret are hidden."""
        shown = (f"{n}={hidden(n, v)!r} ({self._origins.get(n, 'default')})" for n, v in self._values.items())
        return f"<Settings {', '.join(shown)}>"


def as_settings(config: Settings | Mapping[str, object] | None, keywords: Mapping[str, object]) -> Settings:
    """Return settings for the arguments of a constructor."""
    if not isinstance(config, Settings):
        return Settings(config, **keywords)  # type: ignore[arg-type]  # a setting may be named anything
    if keywords:
        raise ConfigError(
            f"keyword arguments beside a Settings object: {', '.join(sorted(keywords))}",
            next_step="give them to Settings",
        )
    return config


def _dotted(name: str) -> str:
    return name if name == _OAUTH_CB else name.replace("_", ".")


def _named(name: str) -> str:
    """Return the name by which a value of the user's code is found again."""
    dotted = name.replace("_", ".")
    return _OAUTH_CB if dotted == "oauth.cb" else dotted if dotted in _SERDES else name


def _variable(name: str) -> str:
    return "variable " + _PREFIX + name.replace(".", "_").upper()


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    return {
        _dotted(name.removeprefix(_PREFIX).lower()): value
        for name, value in environ.items()
        if name.startswith(_PREFIX) and not name.startswith(_NOT_SETTINGS)
    }


def _read(path: Path) -> Mapping[str, object]:
    try:
        text = path.read_text("utf-8")
    except OSError as cause:
        raise ConfigError(
            f"the settings file {path} can't be read: {cause.strerror or cause}", next_step="check path and permissions"
        ) from cause
    try:
        if path.suffix == ".json":
            data = json.loads(text)
        elif path.suffix == ".toml":
            data = _toml(text)
        elif path.suffix == ".properties":
            from stoatflow._dsl.properties import parse  # needed only for such files

            data = parse(text)
        else:
            raise ConfigError(
                f"the settings file {path} is neither .toml nor .json nor .properties", next_step="rename it"
            )
    except ValueError as cause:
        if isinstance(cause, ConfigError):
            raise
        raise ConfigError(f"the settings file {path} is not valid: {cause}", next_step="fix the file") from cause
    if not isinstance(data, dict):
        raise ConfigError(f"the settings file {path} must hold an object", next_step="write names and values")
    return data


def _toml(text: str) -> dict[str, object]:
    # Imported by name: 3.10 has no `tomllib`, and later versions need no `tomli`.
    library = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    read: dict[str, object] = library.loads(text)
    return read


def _flat(data: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Flatten nested names: TOML reads `processing.guarantee = "..."` as nested tables."""
    flat: dict[str, object] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _plain(value: object) -> object:
    """Return a value as text, number or boolean; the engine checks what is valid where."""
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


# As core::settings::is_secret.
_SECRET_WORDS = ("pass", "pasw", "pwd", "secret", "jaas", "token", "private", "credential")


def _kept(name: str, value: object) -> object:
    """Return a value as it is stored: objects of the user's code stay unchanged."""
    return value if name == _OAUTH_CB or name in _SERDES else _plain(value)


def hidden(name: str, value: object) -> object:
    """Return a value as it may be shown: `***` for a secret."""
    dotted = name.lower().replace("_", ".")
    secret = dotted.endswith((".key", "key.pem")) or any(word in dotted for word in _SECRET_WORDS)
    return "***" if secret else value
