"""Every model says where its parameters are searched, and whatever is drawn there can be fitted."""

from itertools import islice

import numpy as np
import pytest

import toys
from recbench.campaign.search.grammar import spaces_from
from recbench.campaign.search.space import Choice, Space, Span
from recbench.data.dataset import load_embedded
from recbench.errors import UsageError
from recbench.models.context import Context
from recbench.models.scorers import Scorer
from recbench.params import param, params_of
from recbench.registry import LOSSES, MODELS, build

BARE = {"popularity", "file"}
"""Models without a parameter that could be searched."""
QUICK = {
    "code": 3,
    "hidden": 4,
    "epochs": 1,
    "iterations": 2,
    "factors": 4,
    "rounds": 3,
    "batch": 64,
}
DRAWS = 2


@pytest.fixture(scope="module")
def toy():
    """A corner of the embedded data: the first users and the items that most of them have."""
    train = load_embedded("debian").matrix[:60]
    popular = train.sum(axis=0).argsort()[::-1][:40]
    return train[:, sorted(popular)].tocsr()


def space_of(name: str) -> Space:
    (space,) = spaces_from([name])
    return space


def values(cls) -> dict[str, object]:
    """What a model is at its defaults, with what it holds taken apart."""
    model = cls()
    known = model.values()
    if "loss" in known:
        inner = build(str(known["loss"]), LOSSES).values()
        known |= {f"loss.{name}": value for name, value in inner.items()}
    return known


@pytest.mark.parametrize("name", [n for n in MODELS.names() if n not in BARE])
def test_every_model_has_a_space_and_its_default_lies_in_it(name):
    space, default = space_of(name), values(MODELS.get(name))
    assert space.dimensions
    for parameter, dimension in space.dimensions.items():
        if isinstance(dimension, Span):
            assert dimension.low <= default[parameter] <= dimension.high, parameter
        else:
            assert default[parameter] in dimension.values, parameter


@pytest.mark.parametrize("name", sorted(BARE - {"file"}))
def test_a_model_without_parameters_is_a_space_of_one(name):
    assert space_of(name).size == 1


@pytest.mark.parametrize("name", [n for n in MODELS.names() if n not in BARE])
def test_what_is_drawn_from_the_space_of_a_model_can_be_fitted(name, toy):
    known = params_of(toys.able(MODELS.get(name)))
    quick = {key: value for key, value in QUICK.items() if key in known}
    space = space_of(f"{name}[{','.join(f'{key}={value}' for key, value in quick.items())}]")
    drawn = [model for _, model in islice(space.draws(0), DRAWS)]
    assert len({model.text for model in drawn}) == DRAWS
    for model in drawn:
        assert isinstance(model.fit(toy, Context(threads=1, dtype=np.float64)), Scorer)


def test_what_is_set_is_not_searched_nor_what_it_would_contradict():
    assert "l2-effective" in space_of("deql-l2").dimensions
    assert "l2-effective" not in space_of("deql-l2[l2=100]").dimensions
    assert "p" not in space_of("deql-l2[p=0.3]").dimensions
    (space,) = spaces_from(["deql-l2"], sets=["l2=100"])
    assert space.dimensions["l2"] == Choice((100.0,))
    assert "l2-effective" not in space.dimensions


@pytest.mark.parametrize(
    ("search", "log"), [((3, 1), False), ((0, 9), True), ((-1, 1), False), ((1, 11), False)]
)
def test_ends_between_which_nothing_could_be_drawn_are_refused_where_they_are_declared(search, log):
    with pytest.raises(UsageError, match="must rise from its low to its high"):
        param(1.0, help="a parameter", low=0, high=10, log=log, search=search)


def test_a_held_thing_is_searched_too():
    assert set(space_of("als[loss=rgx]").dimensions) == {
        "iterations", "loss.alpha", "loss.l2", "loss.beta",
    }  # fmt: skip


def test_a_grid_for_one_model_leaves_the_others_their_own_space():
    ease, ials = spaces_from(["ease", "ials"], grids=["ease.l2=5:50"])
    assert ease.text == "ease l2=5:50:log"
    assert set(ials.dimensions) == {"alpha0", "iterations", "l2"}
    (edlae,) = spaces_from(["edlae"], grids=["l2=5:50"])  # and its published p, as ever
    assert set(edlae.dimensions) == {"l2", "p"}
