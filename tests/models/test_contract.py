"""Every model that comes with recbench passes what any plugin must pass."""

import pytest

from recbench.models.contract import check_model
from recbench.registry import MODELS

NEEDS_A_FILE = {"file"}


@pytest.mark.parametrize("name", [n for n in MODELS.names() if n not in NEEDS_A_FILE])
def test_every_model_keeps_the_contract(name):
    problems = [f"{o.check}: {o.problem}" for o in check_model(MODELS.get(name)()) if o.problem]
    assert not problems
