"""Names to objects.

Models, losses, metrics, splits and readers are found by name. A name comes from an entry point
(ours and other people's packages use the same door) or from a decorator in a file given with
`--plugin`. Nothing is imported until its name is asked for.
"""

import importlib.util
import sys
import types
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from recbench.errors import UsageError, reason_of, unknown
from recbench.files import readable
from recbench.params import chosen, make

T = TypeVar("T")


class Registry(Generic[T]):
    """All the things of one kind that can be asked for by name."""

    def __init__(self, kind: str, plural: str = "") -> None:
        self.kind, self.plural = kind, plural or f"{kind}s"
        self._loaded: dict[str, T] = {}

    @cached_property
    def _doors(self) -> dict[str, EntryPoint]:
        return {door.name: door for door in entry_points(group=f"recbench.{self.plural}")}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate an object to make it available as `name`."""

        def keep(thing: T) -> T:
            other = self._loaded.get(name)
            if other is not None and _origin(other) != _origin(thing):
                raise UsageError(
                    f"two {self.plural} are called '{name}': {_origin(other)} and {_origin(thing)}"
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


FILE = "file:"
"""A model that is a file of recommendations: `--model file:recs.parquet`."""

MODELS: Registry[Any] = Registry("model")
METRICS: Registry[Any] = Registry("metric")
SPLITS: Registry[Any] = Registry("split")
READERS: Registry[Any] = Registry("reader")
LOSSES: Registry[Any] = Registry("loss", "losses")


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
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        del sys.modules[name]
        raise UsageError(f"--plugin {path}: {reason_of(error)}") from error
    return module


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
