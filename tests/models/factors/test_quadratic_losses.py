"""Quadratic losses as least squares see them, and as models that are trained by gradients do."""

import numpy as np
import pytest

from recbench.errors import UsageError
from recbench.linalg.responses import Means
from recbench.models.factors import losses
from recbench.models.trained.loss import Positives
from recbench.models.trained.losses.quadratic import Quadratic
from recbench.params import params_of
from recbench.registry import LOSSES

QUADRATIC = [
    name
    for name in LOSSES.names()
    if issubclass(LOSSES.get(name), losses.QuadraticLoss)
    and LOSSES.source(name).startswith("recbench ")
]
USERS, ITEMS = 5, 7
SEEN = np.random.default_rng(0).random((USERS, ITEMS)) < 0.5
SCORES = np.random.default_rng(1).standard_normal((USERS, ITEMS))


def graded(loss, scores):
    """The value for all interactions, and its slope in every score."""
    lengths, v = SEEN.sum(axis=1), item_weights(loss)
    positives = Positives(
        starts=np.concatenate([[0], np.cumsum(lengths)]), scores=scores[SEEN],
        degrees=lengths.astype(float), catalogue=ITEMS, boundary=np.zeros(USERS),
        margins=(np.zeros(0), np.zeros(0)),
    )  # fmt: skip
    means = Means((v * scores**2 / 2).mean(axis=1), (v * scores).mean(axis=1))
    grades = Quadratic(loss).grade(positives, means)
    slope = (grades.means[:, None] * scores + grades.alike[:, None]) * v / ITEMS
    slope[SEEN] += grades.cells
    return grades.value, slope


def item_weights(loss):
    """By popularity to a power, one on average."""
    powers = SEEN.sum(axis=0) ** Quadratic(loss).popularity
    return ITEMS * powers / powers.sum()


@pytest.mark.parametrize(
    "loss",
    [
        losses.Wrmf(alpha=3.0),
        losses.IalsDebiased(alpha0=0.3, c=1.7, unknown=2.5),
        losses.MseDebiased(weight=0.4, alpha=0.8, unknown=1.5),
        losses.RgxExact(alpha=0.2),
        losses.Ials(alpha0=0.3, popularity=0.7),
        losses.RgxSsm(negatives=3, popularity=0.7),
    ],
    ids=str,
)
def test_trained_models_have_every_coefficient_of_a_loss(loss):
    """Shares of users and products of scores among them: by (1), and by differences."""
    terms, v = loss.objective.user_terms(SEEN.sum(axis=1), ITEMS), item_weights(loss)
    spread = SCORES - SCORES.mean(axis=1, keepdims=True) * terms.centred
    expected = (v * (terms.gram[:, None] * spread**2 + 2 * terms.push[:, None] * SCORES)).sum()
    seen = terms.entries[:, None] * SCORES**2 - 2 * terms.pulls[:, None] * SCORES
    value, slope = graded(loss, SCORES)
    assert value == pytest.approx(expected + seen[SEEN].sum())
    for cell in np.ndindex(USERS, ITEMS):
        step = np.zeros_like(SCORES)
        step[cell] = 0.5
        difference = graded(loss, SCORES + step)[0] - graded(loss, SCORES - step)[0]
        assert slope[cell] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("loss", [losses.Rg2(variant="code"), losses.Rgx(variant="code")], ids=str)
def test_what_is_no_loss_is_not_trained(loss):
    with pytest.raises(UsageError, match=r"minimises?.*als\[loss=rg"):
        graded(loss, SCORES)


def test_trained_models_weigh_items_as_the_loss_does():
    popular = [name for name in QUADRATIC if "popularity" in params_of(LOSSES.get(name))]
    assert popular == ["ials", "mse", "rg2-ssm", "rgx-ssm", "wrmf"]
    for name in QUADRATIC:
        assert Quadratic(LOSSES.get(name)()).popularity == 0
    for name in popular:
        assert Quadratic(LOSSES.get(name)(popularity=0.7)).popularity == 0.7
