"""Names to objects, parameters to text, and text to identities.

Models, metrics, splits and readers are found by name. A name comes from an entry point (ours
and other people's packages use the same door) or from a decorator in a file given with
`--plugin`. Nothing is imported until its name is asked for.
"""

import dataclasses
import hashlib
import importlib.util
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from recbench.errors import UsageError, unknown

T = TypeVar("T")
Value = float | int | bool | str | None


class Registry(Generic[T]):
    """All the things of one kind that can be asked for by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._loaded: dict[str, T] = {}

    @cached_property
    def _doors(self) -> dict[str, EntryPoint]:
        return {door.name: door for door in entry_points(group=f"recbench.{self.kind}s")}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate an object to make it available as `name`."""

        def keep(thing: T) -> T:
            other = self._loaded.get(name)
            if other is not None and _origin(other) != _origin(thing):
                raise UsageError(
                    f"two {self.kind}s are called '{name}': {_origin(other)} and {_origin(thing)}"
                )
            self._loaded[name] = thing
            thing.name = name  # type: ignore[attr-defined]
            return thing

        return keep

    def get(self, name: str) -> T:
        """Return the object called `name`, importing its module if need be."""
        if name not in self._loaded:
            if name not in self._doors:
                raise unknown(self.kind, name, self.names())
            loaded = self._doors[name].load()
            self._loaded.setdefault(name, loaded)
        return self._loaded[name]

    def names(self) -> list[str]:
        """Every name that `get` would accept, sorted."""
        return sorted({*self._doors, *self._loaded})

    def source(self, name: str) -> str:
        """Where `name` comes from: a distribution and its version, or a plugin file."""
        door = self._doors.get(name)
        if door is not None and door.dist is not None:
            return f"{door.dist.name} {door.dist.version}"
        return _origin(self.get(name)).partition(":")[0]


def _origin(thing: object) -> str:
    """Name the module and the object, the same for two imports of one file."""
    module = getattr(thing, "__module__", "?")
    return f"{module}:{getattr(thing, '__qualname__', repr(thing))}"


MODELS: Registry[Any] = Registry("model")
METRICS: Registry[Any] = Registry("metric")
SPLITS: Registry[Any] = Registry("split")
READERS: Registry[Any] = Registry("reader")


def load_plugin(path: Path) -> types.ModuleType:
    """Import a file so that its decorators register what it defines."""
    if not path.is_file():
        raise UsageError(f"--plugin {path}: there is no such file")
    name = f"recbench_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--plugin {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"--plugin {path}: {type(error).__name__}: {error}") from error
    return module


@dataclass(frozen=True)
class Param:
    """One hyper-parameter: how to read it, what it may be, and where to look for good values."""

    name: str
    type: type
    default: Value
    help: str
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    log: bool = False
    grid: tuple[Value, ...] = ()
    choices: tuple[str, ...] = ()
    optional: bool = False

    def convert(self, given: object) -> Value:
        """Turn text or a number into a checked value of this parameter."""
        if given is None or (isinstance(given, str) and given.lower() == "none"):
            if self.optional:
                return None
            raise UsageError(f"parameter '{self.name}' needs {self._wanted}, not '{given}'")
        try:
            value = _cast(self.type, given)
        except (TypeError, ValueError):
            raise UsageError(
                f"parameter '{self.name}' needs {self._wanted}, not '{given}'"
            ) from None
        self._check(value)
        return value

    def _check(self, value: Value) -> None:
        if self.choices and value not in self.choices:
            raise unknown(f"value of '{self.name}'", str(value), self.choices)
        if isinstance(value, str | bool) or value is None:
            return
        below = value <= self.low if self.open_low else value < self.low
        above = value >= self.high if self.open_high else value > self.high
        if below or above or not math.isfinite(value):
            raise UsageError(
                f"parameter '{self.name}' is {format_value(value)}, "
                f"it must be a number in {self.range}"
            )

    @property
    def range(self) -> str:
        """The allowed interval in mathematical notation, or the choices."""
        if self.choices:
            return " | ".join(self.choices)
        if self.type in (bool, str):
            return self.type.__name__
        left = "(" if self.open_low or math.isinf(self.low) else "["
        right = ")" if self.open_high or math.isinf(self.high) else "]"
        return f"{left}{format_value(self.low)}, {format_value(self.high)}{right}"

    @property
    def _wanted(self) -> str:
        kind = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}
        return kind[self.type]


def _cast(kind: type, given: object) -> Value:
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(given).lower() not in words:
            raise ValueError(given)
        return words[str(given).lower()]
    if kind is int:
        number = float(str(given))
        if not number.is_integer():
            raise ValueError(given)
        return int(number)
    if kind is float:
        return float(str(given))
    return str(given)


def param(
    default: Value,
    *,
    help: str,  # noqa: A002 - the word users see is `--help`
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    log: bool = False,
    grid: tuple[Value, ...] = (),
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a hyper-parameter as a dataclass field.

    This one line feeds `--set`, `--grid`, `recbench info`, conversion, validation, the trial
    id and the search space. `grid` holds the values published with the model, if any.
    """
    details = {
        "help": help, "low": low, "high": high, "open_low": open_low, "open_high": open_high,
        "log": log, "grid": grid, "choices": choices,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata={"param": details})


_known: dict[type, Mapping[str, Param]] = {}


def params_of(cls: type) -> Mapping[str, Param]:
    """List the declared parameters of a class, by name as typed on the command line."""
    if cls not in _known:  # looking at type hints is slow, and a search makes many models
        _known[cls] = _declared(cls)
    return _known[cls]


def _declared(cls: type) -> Mapping[str, Param]:
    hints = typing.get_type_hints(cls)
    found: dict[str, Param] = {}
    for field in dataclasses.fields(cls):
        if "param" in field.metadata:
            kind, optional = _plain_type(hints[field.name])
            name = field.name.replace("_", "-")
            found[name] = Param(
                name,
                kind,
                cast("Value", field.default),
                optional=optional,
                **field.metadata["param"],
            )
    return found


def _plain_type(hint: Any) -> tuple[type, bool]:
    """Split `float | None` into (float, True)."""
    arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
    if arms:
        return arms[0], True
    return hint, False


class Described:
    """A frozen dataclass whose `param` fields say everything about it.

    Models and splits are `Described`: checked when made, printed as canonical text, and equal
    when their text is equal.
    """

    name: typing.ClassVar[str] = ""
    revision: typing.ClassVar[int] = 1
    """Raise it when the same parameters give other numbers than before."""

    def __post_init__(self) -> None:
        """Convert and check every parameter."""
        for name, spec in params_of(type(self)).items():
            field = name.replace("-", "_")
            object.__setattr__(self, field, spec.convert(getattr(self, field)))

    def values(self) -> dict[str, Value]:
        """The parameters and their values, by command-line name."""
        return {name: getattr(self, name.replace("-", "_")) for name in params_of(type(self))}

    @property
    def text(self) -> str:
        """The canonical text: name, then every parameter in alphabetical order."""
        pairs = ",".join(f"{name}={format_value(v)}" for name, v in sorted(self.values().items()))
        return f"{self.name}[{pairs}]" if pairs else self.name

    def __str__(self) -> str:
        return self.text


def make(cls: type[T], given: Mapping[str, object]) -> T:
    """Build a described object from names and values as typed by a user."""
    specs = params_of(cls)
    for name in given:
        if name.replace("_", "-") not in specs:
            raise unknown(f"parameter of {getattr(cls, 'name', cls.__name__)}", name, specs)
    return cls(**{name.replace("-", "_"): value for name, value in given.items()})


def format_value(value: Value) -> str:
    """Write a value so that equal values have equal text and the text reads back exactly."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value) if not isinstance(value, float) else repr(float(value))


def trial_id(*parts: str) -> str:
    """Hash the canonical texts that define a trial into a short, stable name."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
