"""Every rule of recbench does what all must; each of these breaks one check."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from recbench.params import param
from recbench.registry import SPLITS
from recbench.splits.contract import CONTRACT, check_split
from recbench.splits.weak import Weak


@pytest.mark.parametrize("name", SPLITS.names())
def test_every_rule_keeps_the_contract(name):
    results = list(check_split(SPLITS.get(name)()))
    assert [f"{one.check}: {one.problem}" for one in results if one.problem] == []
    assert len(results) == len(CONTRACT.rules)


@dataclass(frozen=True)
class Bent(Weak):
    """The split of `weak`, spoilt in some way."""

    way: str = param("", help="what is wrong")

    def apply(self, data):
        split = super().apply(replace(data))
        return getattr(self, self.way)(split, data)

    def showing(self, split, data):
        part = split.test
        return replace(split, test=replace(part, history=part.history + part.target, hidden=None))

    def training(self, split, data):
        return replace(split, train=data.matrix, full=None if split.full is None else data.matrix)

    def hiding(self, split, data):
        return replace(split, valid=replace(split.valid, hidden=split.valid.target))

    def twice(self, split, data):
        return replace(split, valid=split.test)

    def inventing(self, split, data):
        everything = split.train.copy()
        everything.indices = np.sort((everything.indices + 1) % everything.shape[1])
        return replace(split, train=everything)

    def moody(self, split, data, draw=np.random.default_rng(1)):  # noqa: B008 - the mistake
        return replace(split, items=draw.permutation(split.items))

    def orderly(self, split, data):
        return replace(split, items=np.roll(split.items, data.user[0]))

    def misnamed(self, split, data):
        return replace(split, text="weak")


@pytest.mark.parametrize(
    ("way", "check", "says"),
    [
        ("showing", "What is to be found", "items to find in test are in the histories"),
        ("hiding", "What is to be found", "are among those never recommended"),
        ("training", "What is to be found", "are trained on before it"),
        ("twice", "Validation and test", "are to be found in both"),
        ("inventing", "All it hands out", "of train are no interactions of the dataset"),
        ("moody", "The same rule", "applied twice, it gives two splits"),
        ("orderly", "Rows in another order", "say `ordered = True` in its class"),
        ("moody", "All it hands out", "are no interactions of the dataset"),
        ("misnamed", "Its canonical text", "its splits say 'weak'; give text=self.text"),
    ],
)
def test_what_breaks_a_rule_is_told_which(way, check, says, monkeypatch):
    monkeypatch.setitem(SPLITS._loaded, "bent", Bent)
    monkeypatch.setattr(Bent, "name", "bent")
    failed = {one.check: one.problem for one in check_split(Bent(way=way)) if one.problem}
    (problem,) = [text for name, text in failed.items() if name.startswith(check)]
    assert says in problem
