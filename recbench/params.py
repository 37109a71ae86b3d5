"""Parameters: declared in one line each, converted, checked, and written as text.

A frozen dataclass is `Described` when its fields say everything about it: models, splits and
losses are. Its canonical text names it, and is what trial ids are made of. A field is one of

    param(...)           a number, a word or a flag
    held(LOSSES, ...)    another described thing, chosen by name: `als[loss=ials[alpha0=0.2]]`
    inlined(Sweeps)      another whose parameters pass for the holder's own: `ials[iterations=5]`
"""

import dataclasses
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeGuard, TypeVar, cast

from recbench.brackets import split_commas, taken_apart
from recbench.errors import UsageError, home_of, located, unknown

T = TypeVar("T")
Value = float | int | bool | str | None


class Names(Protocol):
    """Where held things are found by name: a registry."""

    kind: str

    def get(self, name: str) -> Any:
        """The class of that name."""

    def names(self) -> list[str]:
        """Every name there is."""


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
    search: tuple[float, float] | None = None
    unless: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False
    later: bool = False
    """Whether results were recorded before it was there: its default is left out of the text."""
    of: Names | None = None
    """What a held thing is chosen from."""
    within: tuple[str, ...] = ()
    """The fields that lead to an inlined parameter."""

    def convert(self, given: object) -> Any:
        """Turn text or a number into a checked value of this parameter."""
        if self.of is not None:
            return given if isinstance(given, Described) else make(*chosen(str(given), self.of))
        if given is None or (isinstance(given, str) and given.lower() == "none"):
            if self.optional:
                return None
            raise self._misfit(given)
        try:
            value = _cast(self.type, given)
        except (TypeError, ValueError):
            raise self._misfit(given) from None
        self._check(value)
        return value

    def _misfit(self, given: object) -> UsageError:
        return UsageError(
            f"parameter '{self.name}' needs {self._wanted}, not '{given}'{self._such}"
        )

    @property
    def _such(self) -> str:
        """An example, where the default is one."""
        if self.default in (None, ""):
            return ""
        return f"; write for example {self.name}={format_value(self.default)}"

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
                f"it must be a number in {self.range}{self._such}"
            )

    @property
    def usual(self) -> tuple[float, float] | None:
        """The ends of where good values are looked for or were published, if that is known."""
        numbers = [*filter(is_number, self.grid), *(self.search or ())]
        return (min(numbers), max(numbers)) if numbers else None

    def ends_at(self, value: float) -> bool:
        """Whether nothing lies beyond a value, as below a penalty of 0."""
        lowest = value == self.low and not self.open_low
        return lowest or (value == self.high and not self.open_high)

    @property
    def range(self) -> str:
        """The allowed interval in mathematical notation, or the choices."""
        if self.choices or self.of is not None:
            return " | ".join(self.choices if self.of is None else self.of.names())
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
    search: tuple[float, float] | None = None,
    unless: str = "",
    choices: tuple[str, ...] = (),
    later: bool = False,
) -> Any:
    """Declare a hyper-parameter as a dataclass field.

    This one line feeds `--set`, `--grid`, `recbench info`, conversion, validation, the trial
    id and the search space. `grid` holds the values published with the model, if any, and `search`
    the ends between which it is worth looking on most data: a search without a grid does so, at the
    published values if there are any, but not where the parameter named `unless` is set.
    With `later`, the default goes without saying: trials of before the parameter was keep their
    ids.
    """
    if search is not None:
        _check_search(search, low, high, log=log)
    details = {
        "help": help, "low": low, "high": high, "open_low": open_low, "open_high": open_high,
        "log": log, "grid": grid, "search": search, "unless": unless, "choices": choices,
        "later": later,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata={"param": details})


def _check_search(search: tuple[float, float], low: float, high: float, *, log: bool) -> None:
    """Refuse ends between which nothing could be drawn."""
    first, last = search
    if not low <= first < last <= high or (log and first <= 0):
        raise UsageError(
            f"search={search} of a parameter must rise from its low to its high"
            + (", and start above 0 as its scale is logarithmic" if log else "")
        )


def held(of: Names, default: str, *, help: str) -> Any:  # noqa: A002 - as for `param`
    """Declare a field that is another described thing, by default the one this text describes."""
    return dataclasses.field(default=default, metadata={"param": {"help": help, "of": of}})


def inlined(cls: type[T], **defaults: Value) -> Any:
    """Declare a field whose parameters are typed, printed and searched as the holder's own.

    The holder may have other defaults, given by the names of fields.
    """
    details = {"inlined": cls, "defaults": defaults}
    return dataclasses.field(default_factory=lambda: cls(**defaults), metadata=details)


_known: dict[type, Mapping[str, Param]] = {}


def params_of(cls: type) -> Mapping[str, Param]:
    """List the declared parameters of a class, by name as typed on the command line."""
    if cls not in _known:  # looking at type hints is slow, and a search makes many models
        _known[cls] = _declared(cls)
    return _known[cls]


def _declared(cls: type) -> Mapping[str, Param]:
    _check_decorated(cls)
    hints = typing.get_type_hints(cls)
    specs: dict[str, Param] = {}
    for field in dataclasses.fields(cls):
        if "param" in field.metadata:
            kind, optional = _plain_type(hints[field.name])
            name = field.name.replace("_", "-")
            specs[name] = Param(
                name, kind, cast("Value", field.default), optional=optional,
                **field.metadata["param"],
            )  # fmt: skip
        elif "inlined" in field.metadata:
            defaults = field.metadata["defaults"]
            for name, spec in params_of(field.metadata["inlined"]).items():
                default = defaults.get(name.replace("-", "_"), spec.default)
                specs[name] = replace(spec, default=default, within=(field.name, *spec.within))
    return specs


def _check_decorated(cls: type) -> None:
    """Refuse a class whose parameters are not made fields, which is easily forgotten."""
    left = any(isinstance(value, dataclasses.Field) for value in vars(cls).values())
    if left or not dataclasses.is_dataclass(cls):
        home = next(filter(None, map(home_of, vars(cls).values())), "")
        words = f"the class {cls.__name__} is no dataclass; write @dataclass(frozen=True) above it"
        raise UsageError(located(words, home))


def _plain_type(hint: Any) -> tuple[type, bool]:
    """Split `float | None` into (float, True)."""
    arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
    if arms:
        return arms[0], True
    return hint, False


def params_within(cls: type, given: Mapping[str, object] | None = None) -> Mapping[str, Param]:
    """The parameters of a class and, by dotted names, those of what it then holds.

    What it holds follows from the settings that are given, else from the defaults.
    """
    settings = given or {}
    specs: dict[str, Param] = {}
    for name, spec in params_of(cls).items():
        specs[name] = spec
        if spec.of is not None:
            inner, known = chosen(str(settings.get(name, spec.default)), spec.of)
            known = {**known, **_below(name, settings)}
            for below, nested in params_within(inner, known).items():
                default = nested.convert(known.get(below, nested.default))
                specs[f"{name}.{below}"] = replace(
                    nested, name=f"{name}.{below}", default=plain(default), within=()
                )
    return specs


def classes_within(cls: type, given: Mapping[str, object] | None = None) -> Iterator[type]:
    """A class, and those of what it holds, inlined or chosen by the settings or by default."""
    yield cls
    for field in dataclasses.fields(cls):
        of = field.metadata.get("param", {}).get("of")
        if "inlined" in field.metadata:
            yield from classes_within(field.metadata["inlined"])
        elif of is not None:
            inner, known = chosen(str((given or {}).get(field.name, field.default)), of)
            yield from classes_within(inner, known)


def _below(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of what is held under this name, by the names that they have there."""
    start = f"{name}."
    return {key.removeprefix(start): v for key, v in settings.items() if key.startswith(start)}


class Described:
    """A frozen dataclass whose fields say everything about it.

    Checked when made, printed as canonical text, and equal when the text is equal.
    """

    name: typing.ClassVar[str] = ""
    revision: typing.ClassVar[int] = 1
    """Raise it when the same parameters give other numbers than before."""

    @classmethod
    def of(cls, **settings: object) -> Self:
        """Make one by the names of its parameters, inlined ones among them."""
        return make(cls, settings)

    def __post_init__(self) -> None:
        """Convert and check every parameter."""
        for name, spec in params_of(type(self)).items():
            if not spec.within:  # else whatever is inlined has checked itself
                field = name.replace("-", "_")
                object.__setattr__(self, field, spec.convert(getattr(self, field)))

    def values(self) -> dict[str, Value]:
        """The parameters and their values, by command-line name; held things as text."""
        return {name: plain(value) for name, value in self._given()}

    def _given(self) -> Iterator[tuple[str, Any]]:
        """The parameters and their values, held things as they are."""
        for name, spec in params_of(type(self)).items():
            owner: Any = self
            for step in spec.within:
                owner = getattr(owner, step)
            yield name, getattr(owner, name.replace("-", "_"))

    @property
    def text(self) -> str:
        """The canonical text: name, then every parameter that tells, in alphabetical order."""
        specs, values = params_of(type(self)), self.values()
        told = {n: v for n, v in values.items() if not (specs[n].later and v == specs[n].default)}
        pairs = ",".join(f"{name}={format_value(v)}" for name, v in sorted(told.items()))
        return f"{self.name}[{pairs}]" if pairs else self.name

    @property
    def brief(self) -> str:
        """The name and what is not at its default: the same thing, as one would type it."""
        specs = params_of(type(self))
        short = [(n, v.brief if isinstance(v, Described) else v) for n, v in self._given()]
        pairs = ",".join(f"{n}={format_value(v)}" for n, v in short if v != specs[n].default)
        return f"{self.name}[{pairs}]" if pairs else self.name

    @property
    def identity(self) -> str:
        """The text and the revision of the code behind it, that of what it holds included."""
        _, *inner = parts_of(self)
        return " ".join([f"{self.text}@{self.revision}", *(p.mark for p in inner if p.mark)])

    @property
    def mark(self) -> str:
        """What the identity of its holder says of its revision; nothing of the first one."""
        return f"{self.name}@{self.revision}" if self.revision > 1 else ""

    def __str__(self) -> str:
        return self.text


def parts_of(thing: Described) -> Iterator[Described]:
    """A described thing, and everything it holds, directly or not."""
    yield thing
    for field in dataclasses.fields(cast("Any", thing)):
        part = getattr(thing, field.name)
        if isinstance(part, Described):
            yield from parts_of(part)


def make(cls: type[T], given: Mapping[str, object]) -> T:
    """Build a described object from names and values as typed by a user.

    A dotted name is a setting of what the object holds: `loss.alpha0`.
    """
    own: dict[str, object] = {}
    inside: dict[str, dict[str, object]] = {}
    specs = params_of(cls)
    for typed, value in given.items():
        name, _, below = typed.replace("_", "-").partition(".")
        spec = specs.get(name)
        if spec is None or (below and spec.of is None):
            raise unknown(f"parameter of {getattr(cls, 'name', cls.__name__)}", typed, specs)
        field = name.replace("-", "_")
        if below:
            inside.setdefault(field, {})[below] = value
        elif spec.within:
            inside.setdefault(spec.within[0], {})[name] = value
        else:
            own[field] = value
    for place in dataclasses.fields(cast("Any", cls)):
        settings = inside.get(place.name, {})
        if "inlined" in place.metadata:
            own[place.name] = make(
                place.metadata["inlined"], {**place.metadata["defaults"], **settings}
            )
        elif settings:
            now = str(own.get(place.name, place.default))
            kind, known = chosen(now, place.metadata["param"]["of"])
            own[place.name] = make(kind, {**known, **settings})
    return cls(**own)


def chosen(text: str, of: Names) -> tuple[type[Any], dict[str, str]]:
    """The class that `name[key=value,…]` names, and its settings."""
    name, settings = taken_apart(text)
    return of.get(name), settings


def completions(text: str, of: Names) -> list[str]:
    """What the beginning of `name[key=value,…]` may go on as, up to the next thing to type."""
    name, bracket, rest = text.partition("[")
    if not bracket:
        return [option for option in of.names() if option.startswith(name)]
    if name not in of.names():
        return []
    last = split_commas(rest)[-1]
    thing = of.get(name)
    start, specs = text.removesuffix(last), params_of(thing) if isinstance(thing, type) else {}
    key, equals, value = last.partition("=")
    if not equals:
        return [f"{start}{option}=" for option in specs if option.startswith(key)]
    spec = specs.get(key)
    if spec is None:
        return []
    values = [*spec.choices, *map(format_value, spec.grid)]
    more = completions(value, spec.of) if spec.of else [v for v in values if v.startswith(value)]
    return [f"{start}{key}={word}" for word in more]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value has more and less; words and flags do not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: Any) -> Value:
    """A value as results keep it: a held thing is its text."""
    return value.text if isinstance(value, Described) else cast("Value", value)


def format_value(value: Value) -> str:
    """Write a value so that equal values have equal text and the text reads back exactly."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value) if not isinstance(value, float) else repr(float(value))
