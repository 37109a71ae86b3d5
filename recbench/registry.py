"""Names to objects.

Models, losses, metrics, splits and readers are found by name. A name comes from an entry point
(ours and other people's packages use the same door) or from a decorator in a file given with
`--plugin`. Nothing is imported until its name is asked for.

What other distributions bring may be broken, or be called like something of ours: that costs the
use of their things, and of nothing else.
"""

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

import recbench
from recbench.errors import (
    GUESTS,
    RecbenchError,
    UsageError,
    located,
    place_of,
    reason_of,
    unknown,
)
from recbench.files import readable
from recbench.params import Described, chosen, make

T = TypeVar("T")
OURS = __name__.partition(".")[0]
"""The package whose names are not given to others."""


class Registry(Generic[T]):
    """All the things of one kind that can be asked for by name."""

    def __init__(self, kind: str, plural: str = "", *, bases: str = "") -> None:
        self.kind, self.plural = kind, plural or f"{kind}s"
        self.bases = bases
        """From which classes of `recbench.plugin` these derive; empty where they need not."""
        self._loaded: dict[str, T] = {}

    @cached_property
    def _doors(self) -> dict[str, list[EntryPoint]]:
        """The entry points of each name; the first is used, ours before others."""
        doors: dict[str, list[EntryPoint]] = {}
        for door in sorted(entry_points(group=f"recbench.{self.plural}"), key=_precedence):
            doors.setdefault(door.name, []).append(door)
        return doors

    def doubts(self) -> list[str]:
        """Which names stand for several things, as sentences that say which is used."""
        return [
            f"{_maker(other)} has a {self.kind} '{name}' as well; that of {_maker(first)} is used"
            for name, (first, *others) in self._doors.items()
            for other in others
            if other.value != first.value
        ]

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate an object to make it available as `name`."""

        def keep(thing: T) -> T:
            if self.bases and not (isinstance(thing, type) and issubclass(thing, Described)):
                raise UsageError(
                    f"the {self.kind} '{name}' must be a class that derives from {self.bases}"
                )
            other = self._taken(name, thing)
            if other:
                raise UsageError(
                    f"two {self.plural} are called '{name}': {other} and {_origin(thing)}"
                )
            package = _package(getattr(thing, "__module__", OURS))
            GUESTS.update({package} - {OURS})
            self._loaded[name] = thing
            thing.name = name  # type: ignore[attr-defined]
            return thing

        return keep

    def _taken(self, name: str, thing: T) -> str:
        """What else has the name of a thing: loaded, or of a package that is not the thing's."""
        other, package = self._loaded.get(name), _package(getattr(thing, "__module__", "?"))
        if other is not None:
            return "" if _origin(other) == _origin(thing) else _origin(other)
        if package == OURS:  # its names are ours: not worth looking through what is installed
            return ""
        door = next(iter(self._doors.get(name, ())), None)
        return "" if door is None or _package(door.module) == package else door.value

    def get(self, name: str) -> T:
        """Return the object called `name`, importing its module if need be."""
        if name not in self._loaded:
            if name not in self._doors:
                raise unknown(self.kind, name, self.names())
            self._load(name, self._doors[name][0])
        return self._loaded[name]

    def _load(self, name: str, door: EntryPoint) -> None:
        try:
            thing = door.load()
        except (Exception, SystemExit) as error:
            reason = _why(error)
            raise UsageError(
                f"the {self.kind} '{name}' of {_maker(door)} cannot be imported ({reason}); "
                "repair that distribution or uninstall it"
            ) from error
        if not callable(thing):
            raise UsageError(
                f"'{door.value}' of {_maker(door)} is {type(thing).__name__}, not a {self.kind}"
            )
        if name not in self._loaded:  # its module has no decorator for it
            self.register(name)(thing)

    def names(self) -> list[str]:
        """Every name that `get` would accept, sorted."""
        return sorted({*self._doors, *self._loaded})

    def source(self, name: str) -> str:
        """Where `name` comes from: a distribution and its version, or a plugin file."""
        if name in self._doors:
            return _maker(self._doors[name][0])
        return _origin(self.get(name)).partition(":")[0]


def _precedence(door: EntryPoint) -> tuple[bool, str, str]:
    return _package(door.module) != OURS, _maker(door), door.value


def _maker(door: EntryPoint) -> str:
    """The distribution that an entry point is of, and its version; ours by the name of its code."""
    if _package(door.module) == OURS:
        return f"{OURS} {recbench.__version__}"
    return f"{door.dist.name} {door.dist.version}" if door.dist else door.module


def _package(module: str) -> str:
    return module.partition(".")[0]


def _origin(thing: object) -> str:
    """Name the module and the object, the same for two imports of one file."""
    module = getattr(thing, "__module__", "?")
    return f"{module}:{getattr(thing, '__qualname__', repr(thing))}"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check; `problem` is empty if it passed."""

    check: str
    problem: str = ""


class Contract(Generic[T]):
    """What every thing of one kind must do, whoever wrote it: checks, by a sentence each.

    A check is a function that takes the thing, and raises AssertionError with a sentence.
    """

    def __init__(self) -> None:
        self.rules: dict[str, Callable[[T], None]] = {}

    def rule(self, function: Callable[[T], None]) -> Callable[[T], None]:
        """Add a check; its docstring is the sentence."""
        self.rules[(function.__doc__ or "").strip().rstrip(".")] = function
        return function

    def check(self, thing: T) -> Iterator[CheckResult]:
        """Put a thing through every check."""
        for sentence, rule in self.rules.items():
            try:
                rule(thing)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - what a plugin raises is for its author
                told = isinstance(error, AssertionError) and not place_of(error)
                yield CheckResult(sentence, str(error) if told else reason_of(error))
            else:
                yield CheckResult(sentence)


FILE = "file:"
"""A model that is a file of recommendations: `--model file:recs.parquet`."""

MODELS: Registry[Any] = Registry("model", bases="Model")
METRICS: Registry[Any] = Registry("metric")
SPLITS: Registry[Any] = Registry("split", bases="SplitRule")
READERS: Registry[Any] = Registry("reader")
LOSSES: Registry[Any] = Registry("loss", "losses", bases="Loss or QuadraticLoss")


def load_plugin(path: Path) -> types.ModuleType:
    """Import a file so that its decorators register what it defines."""
    if not path.is_file():
        raise UsageError(
            f"--plugin {path}: there is no such file; give the path of a Python file, as in "
            "--plugin ./mymodel.py"
        )
    name = f"recbench_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--plugin {path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise UsageError(f"--plugin {path}: {_why(error)}") from error
    return module


def _why(error: BaseException) -> str:
    """Why a module of others could not be imported."""
    if isinstance(error, RecbenchError):
        return located(str(error), place_of(error))
    return reason_of(error)


def parse_described(text: str, registry: Registry[Any]) -> tuple[type[Any], dict[str, str]]:
    """Split `name[key=value,…]` into the class called name and its settings."""
    if readable(text) != text:
        raise UsageError(f"'{readable(text)}' is not all text; give the file another name")
    if text.startswith(FILE):
        return registry.get("file"), {"path": text.removeprefix(FILE)}
    return chosen(text, registry)


def build(text: str, registry: Registry[Any]) -> Any:
    """Make what `name[key=value,…]` describes."""
    return make(*parse_described(text, registry))
