from dataclasses import dataclass

import pytest

from recbench.campaign.plan import trial_id
from recbench.errors import UsageError
from recbench.params import Described, format_value, held, make, param, params_of, params_within
from recbench.registry import Registry, load_plugin


@dataclass(frozen=True)
class Thing(Described):
    """A thing."""

    name = "thing"
    size: float = param(1.0, help="how large", low=0, high=2, open_low=True)
    count: int = param(3, help="how many", low=1)
    big_word: str = param("a", help="which", choices=("a", "b"))
    flag: bool = param(False, help="whether")
    maybe: float | None = param(None, help="perhaps")


def test_text_is_canonical():
    assert Thing().text == "thing[big-word=a,count=3,flag=false,maybe=none,size=1]"
    assert make(Thing, {"size": "1.0", "big-word": "b", "flag": "yes", "maybe": "0.5"}) == Thing(
        size=1.0, big_word="b", flag=True, maybe=0.5
    )


def test_a_later_parameter_goes_without_saying_at_its_default():
    """So what was recorded before it was there keeps its text, and with it its id."""

    @dataclass(frozen=True)
    class Grown(Thing):
        colour: str = param("red", help="which", choices=("red", "blue"), later=True)
        weight: float = param(2.0, help="how heavy", later=True)

    assert Grown().text == Thing().text
    assert Grown().values()["colour"] == "red"
    blue = "thing[big-word=a,colour=blue,count=3,flag=false,maybe=none,size=1]"
    assert Grown(weight=2, colour="blue").text == blue
    assert make(Grown, {"weight": "3"}).text.endswith(",size=1,weight=3]")


def test_values_are_converted_and_checked():
    made = Thing(size=1, count="4")  # type: ignore[arg-type]
    assert (type(made.size), type(made.count)) == (float, int)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"size": 0}, "parameter 'size' is 0, it must be a number in (0, 2]"),
        ({"size": "nan"}, "parameter 'size' is nan"),
        ({"size": "inf"}, "parameter 'size' is inf"),
        ({"size": "x"}, "parameter 'size' needs a number, not 'x'"),
        ({"size": None}, "parameter 'size' needs a number, not 'None'"),
        ({"count": 1.5}, "parameter 'count' needs a whole number, not '1.5'"),
        ({"count": "nan"}, "needs a whole number"),
        ({"count": "1e400"}, "needs a whole number"),
        ({"big-word": "c"}, "unknown value of 'big-word' 'c'; known: a, b"),
        ({"flag": "perhaps"}, "parameter 'flag' needs true or false, not 'perhaps'"),
        ({"sise": 1}, "unknown parameter of thing 'sise'; did you mean 'size'?"),
    ],
)
def test_bad_values_are_one_sentence(given, says):
    with pytest.raises(UsageError) as caught:
        make(Thing, given)
    assert says in str(caught.value)


def test_params_are_described():
    found = params_of(Thing)
    assert list(found) == ["size", "count", "big-word", "flag", "maybe"]
    assert found["size"].range == "(0, 2]"
    assert found["count"].range == "[1, inf)"
    assert found["big-word"].range == "a | b"
    assert found["maybe"].optional


@pytest.mark.parametrize(
    ("value", "text"),
    [(80.0, "80"), (0.1, "0.1"), (1e-12, "1e-12"), (1e300, "1e+300"), (7, "7"), ("w", "w"),
     (True, "true"), (None, "none"), (0.1 + 0.2, "0.30000000000000004")],
)  # fmt: skip
def test_equal_values_have_equal_text(value, text):
    assert format_value(value) == text


def test_settings_say_what_is_held_at_every_depth():
    things: Registry = Registry("thing")

    @things.register("leaf")
    @dataclass(frozen=True)
    class Leaf(Described):
        a: float = param(1.0, help="of a leaf")

    @things.register("twig")
    @dataclass(frozen=True)
    class Twig(Described):
        end: Described = held(things, "leaf", help="what hangs there")

    @dataclass(frozen=True)
    class Tree(Described):
        name = "tree"
        branch: Described = held(things, "leaf", help="what grows")

    assert list(params_within(Tree)) == ["branch", "branch.a"]
    settings = {"branch": "twig", "branch.end": "twig"}
    names = ["branch", "branch.end", "branch.end.end", "branch.end.end.a"]
    assert list(params_within(Tree, settings)) == names
    tree = Tree.of(**settings, **{"branch.end.end.a": 2})
    assert tree.text == "tree[branch=twig[end=twig[end=leaf[a=2]]]]"


def test_trial_ids_depend_on_every_part():
    assert trial_id("a", "b") == trial_id("a", "b")
    assert (
        len({trial_id("a", "b"), trial_id("ab"), trial_id("b", "a"), trial_id("a", "b", "")}) == 4
    )


def test_a_registry_refuses_two_things_of_one_name():
    registry: Registry[type] = Registry("toy")
    registry.register("thing")(type("First", (), {}))
    with pytest.raises(UsageError, match="two toys are called 'thing'"):
        registry.register("thing")(type("Second", (), {}))


def test_an_unknown_name_is_met_with_the_closest(tmp_path):
    registry: Registry[type] = Registry("toy")
    with pytest.raises(UsageError, match="there are no toys here"):
        registry.get("x")
    registry.register("horse")(type("Horse", (), {}))
    with pytest.raises(UsageError, match="unknown toy 'hoarse'; did you mean 'horse'"):
        registry.get("hoarse")


@pytest.mark.parametrize(
    ("text", "says"),
    [("1 +", "SyntaxError"), ("import nowhere_to_be_found", "nowhere"), (None, "no such file")],
)
def test_a_broken_plugin_file_is_one_sentence(tmp_path, text, says):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_plugin(path)
