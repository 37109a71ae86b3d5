"""What models say of how they are fitted."""

import pytest

from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.popularity import Popularity
from recbench.registry import MODELS, build


class Asked(Exception):
    """A fit wanted to know whether there is room."""


class Probe(Context):
    def reserve(self, needed, what, advice):
        raise Asked


@pytest.mark.parametrize("name", [name for name in MODELS.names() if name != "file"])
def test_a_model_that_reserves_does_so_first_and_no_other_does(name):
    model, asked = build(name, MODELS), False
    try:
        model.fit(example(), Probe())
    except Asked:
        asked = True
    assert asked == model.reserves


def test_a_model_without_a_family_may_reserve_too():
    class Large(Popularity):
        reserves = True

    assert not Model.family.reserves
    assert Large().reserves
