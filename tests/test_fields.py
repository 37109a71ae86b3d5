"""What a file says is compared with a type; what does not fit is named."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from recbench.errors import UsageError
from recbench.fields import DEPTH, LARGEST, Misfit, build, checked, parsed


@dataclass(frozen=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True)
class Whole:
    text: str
    number: float
    flag: bool = False
    mode: Literal["fast", "slow"] = "fast"
    maybe: int | None = None
    either: int | str = 0
    parts: tuple[Part, ...] = ()
    words: Sequence[str] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    anything: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.text == "refused":
            raise UsageError("it is refused")


class Loose(TypedDict):
    id: str
    parts: list[Part]
    later: NotRequired[int]


GIVEN = {"text": "t", "number": 1}


def test_what_fits_comes_out_as_its_type():
    given = {
        **GIVEN, "flag": True, "mode": "slow", "maybe": None, "either": "x",
        "parts": [{"name": "a"}, {"name": "b", "size": 2}], "words": ["x"], "values": {"k": 2},
        "anything": {"a": [1, None, {"b": "c"}]},
    }  # fmt: skip
    whole = checked(Whole, given)
    assert whole == Whole(
        "t", 1.0, True, "slow", None, "x", (Part("a"), Part("b", 2)), ["x"], {"k": 2.0},
        {"a": [1, None, {"b": "c"}]},
    )  # fmt: skip
    assert type(whole.number) is float


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"text": 7}, "text: must be text, not 7"),
        ({"text": None}, "text: must be text, not None"),
        ({"text": "\ud800"}, "text: has half a character in it"),
        ({"text": "refused"}, "top level: it is refused"),
        ({"number": "1"}, "number: must be a number, not '1'"),
        ({"number": True}, "number: must be a number, not True"),
        ({"number": 10**400}, "number: is a number beyond all measure"),
        ({"flag": 1}, "flag: must be true or false, not 1"),
        ({"mode": "fas"}, "mode: unknown value 'fas'; did you mean 'fast'?"),
        ({"mode": ["fast"]}, "mode: must be text, not ['fast']"),
        ({"maybe": 0.5}, "maybe: must be a whole number, not 0.5"),
        ({"maybe": LARGEST + 1}, "maybe: is a number beyond all measure"),
        ({"either": 0.5}, "either: must be a whole number or text, not 0.5"),
        ({"parts": {}}, "parts: must be a list"),
        ({"parts": [{"name": "a"}, {}]}, "parts[1]: 'name' is missing"),
        ({"parts": [{"name": "a", "size": "b"}]}, "parts[0].size: must be a whole number, not 'b'"),
        ({"parts": [{"name": "a", "sise": 1}]}, "parts[0]: unknown key 'sise'; did you mean"),
        ({"words": "abc"}, "words: must be a list"),
        ({"words": ["a", 1]}, "words[1]: must be text, not 1"),
        ({"values": [1]}, "values: must be a mapping"),
        ({"values": {"k": None}}, "values.k: must be a number, not None"),
        ({"anything": {"a": [1, {"b": 10**30}]}}, "anything.a[1].b: is a number beyond"),
        ({"anything": {"a": {"\ud800": 1}}}, "anything.a: has half a character in it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(changes, says):
    with pytest.raises(Misfit) as caught:
        checked(Whole, GIVEN | changes)
    assert str(caught.value).startswith(says)


def test_the_largest_number_is_one():
    assert checked(Whole, GIVEN | {"maybe": -LARGEST}).maybe == -LARGEST


def test_what_is_known_is_not_given():
    assert build(Part, {"size": 3}, name="x") == Part("x", 3)
    with pytest.raises(Misfit, match="unknown key 'name'"):
        build(Part, {"name": "y"}, name="x")


def test_a_typed_dict_lets_other_keys_be():
    given = {"id": "a", "parts": [{"name": "b"}], "other": object}
    assert checked(Loose, given) == {**given, "parts": [Part("b")]}
    with pytest.raises(Misfit, match="'parts' is missing"):
        checked(Loose, {"id": "a"})
    with pytest.raises(Misfit, match="later: must be a whole number"):
        checked(Loose, {"id": "a", "parts": [], "later": "x"})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"), (b"{", "is not JSON"), (b"\xff", "is not JSON"),
        (b'{"a": %b}' % (b"9" * 5000), "is not JSON"), (b"[1]", "must be a mapping"),
        (b'{"a": ' * 100_000, "is nested more than 40 deep"),
        (b'{"a": %b%b}' % (b"[" * DEPTH, b"]" * DEPTH), "is nested more than 40 deep"),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_a_misfit(content, says):
    with pytest.raises(Misfit, match=says):
        parsed(content)


def test_json_is_read_as_it_is():
    value = {"a": [1, 2.5, None, "ä", {}], "b": True, "c": [[] for _ in range(DEPTH)]}
    assert parsed(json.dumps(value).encode()) == value
    deep = b"[" * (DEPTH - 1) + b"]" * (DEPTH - 1)
    assert list(parsed(b'{"a": %b}' % deep)) == ["a"]
