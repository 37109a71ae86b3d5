"""Parameters: declared in one line each, converted, checked, and written as text.

A frozen dataclass whose fields are made by `param` is `Described`: models and splits are, and
what they hold may be. Its canonical text names it, and is what trial ids are made of.
"""

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from recbench.errors import UsageError, unknown

T = TypeVar("T")
Value = float | int | bool | str | None


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
