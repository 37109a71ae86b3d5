"""What a file says, checked against a type before anything is made of it.

    Row(**...)                                 # believes what it is given
    checked(Row, parsed(line))                 # does not

A type is a dataclass, whose fields are the keys that there may be, a TypedDict, which lets other
keys be, or what these are made of. What does not fit is a `Misfit`, which names the field and what
it should be; whoever reads the file makes a sentence of it that names the file as well.
"""

import json
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from recbench.errors import UsageError, unknown

T = TypeVar("T")
Check = Callable[[Any], Any]
DEPTH = 40
TOO_DEEP = f"is nested more than {DEPTH} deep"
LARGEST = 2**63 - 1
"""No count, size or date is larger; JSON has numbers of any length."""
BEYOND = "is a number beyond all measure"
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class Misfit(ValueError):
    """A value that is not what its field should hold."""

    def __init__(self, text: object, trail: str = "") -> None:
        super().__init__(f"{trail or 'top level'}: {text}")
        self.text, self.trail = text, trail

    def inside(self, key: str | int) -> "Misfit":
        """The same, seen from the list or mapping around it."""
        here = f"[{key}]" if isinstance(key, int) else key
        dot = "." if self.trail and not self.trail.startswith("[") else ""
        return Misfit(self.text, f"{here}{dot}{self.trail}")


def parsed(content: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise Misfit(TOO_DEEP) from None
    except ValueError as error:
        raise Misfit(f"is not JSON: {str(error)[:80]}") from None
    if content.count(b"{") + content.count(b"[") > DEPTH:  # else it need not be looked at
        _refuse_depth(value)
    return _mapping(value)


def _refuse_depth(value: Any) -> None:
    layer = [value]
    for _ in range(DEPTH):
        layer = [inner for outer in layer for inner in _within(outer)]
        if not layer:
            return
    raise Misfit(TOO_DEEP)


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def checked(kind: type[T], given: object) -> T:
    """What was given, as a value of a type."""
    return cast("T", check_of(cast("Any", kind))(given))


def build(cls: type[T], given: object, **known: object) -> T:
    """Make a dataclass from a mapping whose keys are its fields, but for those already known."""
    mapping = _mapping(given)
    checks, required = _wanted(cast("Any", cls))
    if not mapping.keys() <= checks.keys() - known.keys():
        strange = next(key for key in mapping if key not in checks or key in known)
        raise Misfit(unknown("key", str(strange), checks.keys() - known.keys()))
    if not required <= mapping.keys() | known.keys():
        raise Misfit(f"'{min(required - mapping.keys() - known.keys())}' is missing")
    values = _each(mapping, checks)
    try:
        return cls(**known, **values)
    except UsageError as error:
        raise Misfit(error) from None


def _each(given: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Values, each by the check of its key."""
    values, key = dict[str, Any](), ""
    try:
        for key, item in given.items():
            values[key] = checks[key](item)
    except Misfit as error:
        raise error.inside(key) from None
    return values


@cache
def check_of(hint: Any) -> Check:
    """The check of a type: values that fit come out of it, others raise Misfit."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return writable
    if hint is Path:
        return lambda given: Path(_text(given))
    if hint is str:
        return _text
    if typing.is_typeddict(hint):
        return _typed_dict(hint)
    if is_dataclass(hint):
        return lambda given: build(cast("type", hint), given)
    if origin is Literal:
        return _one_of(arms)
    if origin in (tuple, list, Sequence):
        return _list(check_of(arms[0]), tuple if origin is tuple else list)
    if origin in (Mapping, dict):
        return _entries(check_of(arms[1]))
    kinds = [arm for arm in arms if arm is not types.NoneType] if arms else [hint]
    optional = types.NoneType in arms
    if len(kinds) == 1 and kinds[0] not in WORDS:
        inner = check_of(cast("Any", kinds[0]))
        return (lambda given: None if given is None else inner(given)) if optional else inner
    return _plain(kinds, optional)


def _plain(kinds: Sequence[type], optional: bool) -> Check:
    """Text, numbers, flags."""
    wanted = " or ".join(WORDS[kind] for kind in kinds)
    exact = {*kinds, type(None)} if optional else {*kinds}

    def check(given: Any) -> Any:
        kind = type(given)
        if kind is int and not -LARGEST <= given <= LARGEST:
            raise Misfit(BEYOND)
        if kind in exact:
            return _text(given) if kind is str else given
        if kind is int and float in exact:
            return float(given)
        raise Misfit(f"must be {wanted}, not {reprlib.repr(given)}")

    return check


def writable(given: Any) -> Any:
    """Whatever it is, it can be written: text without half characters, numbers within bounds."""
    if type(given) is str:
        _text(given)
    elif type(given) is int and not -LARGEST <= given <= LARGEST:
        raise Misfit(BEYOND)
    elif isinstance(given, list):
        for index, item in enumerate(given):
            _at(index, writable, item)
    elif isinstance(given, dict):
        for key, item in given.items():
            _at(str(key), writable, item)
            writable(key)
    return given


def _text(given: Any) -> str:
    """Text that can be written."""
    if type(given) is not str:
        raise Misfit(f"must be text, not {reprlib.repr(given)}")
    if not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError:
            raise Misfit("has half a character in it") from None
    return given


def _one_of(words: Sequence[str]) -> Check:
    def check(given: Any) -> Any:
        if _text(given) not in words:
            raise Misfit(unknown("value", given, words))
        return given

    return check


def _list(inner: Check, kind: type) -> Check:
    def check(given: Any) -> Any:
        if not isinstance(given, list):
            raise Misfit("must be a list")
        return kind(_at(index, inner, item) for index, item in enumerate(given))

    return check


def _entries(inner: Check) -> Check:
    """Any keys, with values of one type."""

    def check(given: Any) -> Any:
        values, key = {}, ""
        try:
            for key, item in _mapping(given).items():
                values[key] = inner(item)
        except Misfit as error:
            raise error.inside(str(key)) from None
        for key in values:
            _text(key)
        return values

    return check


def _typed_dict(hint: Any) -> Check:
    """Known keys, beside others that are let be."""
    checks = {key: check_of(inner) for key, inner in typing.get_type_hints(hint).items()}
    required = hint.__required_keys__

    def check(given: Any) -> Any:
        mapping = _mapping(given)
        missing = sorted(required - mapping.keys())
        if missing:
            raise Misfit(f"'{missing[0]}' is missing")
        return mapping | _each({k: mapping[k] for k in checks if k in mapping}, checks)

    return check


@cache
def _wanted(cls: type) -> tuple[Mapping[str, Check], frozenset[str]]:
    """The check of each field of a dataclass, and which of them must be given."""
    hints = typing.get_type_hints(cls)
    specs = [spec for spec in fields(cast("Any", cls)) if spec.init]
    required = {s.name for s in specs if s.default is MISSING and s.default_factory is MISSING}
    return {spec.name: _check_of(spec, hints[spec.name]) for spec in specs}, frozenset(required)


def _check_of(spec: Field[Any], hint: Any) -> Check:
    return _parse(spec.metadata["parse"]) if "parse" in spec.metadata else check_of(hint)


def _parse(parse: Check) -> Check:
    """A field that knows how to read itself."""

    def check(given: Any) -> Any:
        try:
            return parse(given)
        except UsageError as error:
            raise Misfit(error) from None

    return check


def _at(key: str | int, check: Check, given: Any) -> Any:
    try:
        return check(given)
    except Misfit as error:
        raise error.inside(key) from None


def _mapping(given: Any) -> dict[Any, Any]:
    if not isinstance(given, dict):
        raise Misfit("must be a mapping of keys to values")
    return given
