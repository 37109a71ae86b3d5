"""Losses of recbench do what all must; each of these breaks one rule."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from recbench.models.factors.losses import QuadraticLoss, Wrmf
from recbench.models.loss_contract import QUADRATIC, TRAINED, check_loss
from recbench.models.trained.losses.logistic import Bce
from recbench.registry import LOSSES

QUICK = ("bce", "ials", "infonce-debiased", "rgx-exact", "sml")
"""One of each kind; the models that have the others are put through their contract, too."""


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in LOSSES.names()],
)
def test_every_loss_keeps_the_contract(name):
    loss = LOSSES.get(name)()
    results = list(check_loss(loss))
    assert [f"{one.check}: {one.problem}" for one in results if one.problem] == []
    rules = (QUADRATIC if isinstance(loss, QuadraticLoss) else TRAINED).rules
    assert len(results) == len(rules)


@dataclass(frozen=True)
class Bent(Wrmf):
    """Weights that are changed on their way."""

    @property
    def objective(self):
        return self

    def user_terms(self, lengths, items):
        return self.bend(Wrmf().objective.user_terms(lengths, items), lengths)

    def item_ridge(self, lengths, users):
        return np.ones(len(lengths))


class Endless(Bent):
    def bend(self, terms, lengths):
        return replace(terms, gram=np.full(len(lengths), np.inf))


class Negative(Bent):
    def bend(self, terms, lengths):
        return replace(terms, ridge=-terms.ridge - 1)


class OneForAll(Bent):
    def bend(self, terms, lengths):
        return replace(terms, push=np.zeros(1))


class Social(Bent):
    def bend(self, terms, lengths):
        return replace(terms, gram=np.full(len(lengths), lengths.sum() + 1.0))


class Empty(Wrmf):
    @property
    def objective(self):
        return 7


class Steep(Bce):
    def grade(self, positives, means):
        grades = super().grade(positives, means)
        return replace(grades, means=2 * grades.means)


class Blind(Bce):
    def grade(self, positives, means):
        grades = super().grade(positives, means)
        return replace(grades, cells=grades.cells[:2])


class Undecided(Bce):
    @property
    def response(self):
        return replace(super().response, kind="gaussian")


@pytest.mark.parametrize(
    ("loss", "check", "says"),
    [
        (Endless, "Finite weights", "`gram` is not finite"),
        (Negative, "Finite weights", "a penalty is negative"),
        (OneForAll, "Finite weights", "`push` has shape (1,) for 5 users"),
        (Empty, "Finite weights", "it must have the methods user_terms and item_ridge"),
        (Social, "The weights of a user", "`gram` of a user is"),
        (Steep, "Its derivatives", "by means of rows it gives"),
        (Blind, "Its derivatives", "`cells` of the grades has shape (2,) for 7 cells"),
        (Undecided, "It says whose mean", "there is no response 'gaussian'"),
    ],
)
def test_what_breaks_a_rule_is_told_which(loss, check, says, monkeypatch):
    monkeypatch.setitem(LOSSES._loaded, "bent", loss)
    monkeypatch.setattr(loss, "name", "bent", raising=False)
    failed = {one.check: one.problem for one in check_loss(loss()) if one.problem}
    (problem,) = [text for name, text in failed.items() if name.startswith(check)]
    assert says in problem
