"""What every loss must do, whoever wrote it: `recbench check-plugin NAME`.

One for alternating least squares is looked at as such, any other as one for trained models.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from recbench.errors import of_kind
from recbench.linalg.normal import Terms
from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Vector
from recbench.models.contract import check_model
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.trained.loss import Loss, Positives, graded
from recbench.registry import LOSSES, MODELS, CheckResult, Contract, build

KINDS = ("exponential", "hinge", "softplus", "square", "excess", "hardest")
LENGTHS = np.array([0, 1, 2, 5, 9], dtype=np.int64)
ITEMS = 12
STEP, NEAR = 1e-5, 1e-4
"""Of derivatives by differences: how far apart, and how near."""

QUADRATIC: Contract[QuadraticLoss] = Contract()
TRAINED: Contract[Loss] = Contract()


def check_loss(loss: QuadraticLoss | Loss) -> Iterator[CheckResult]:
    """Put a loss through every check."""
    if isinstance(loss, QuadraticLoss):
        return QUADRATIC.check(loss)
    return TRAINED.check(loss)


def _terms(loss: QuadraticLoss, lengths: np.ndarray) -> Terms:
    objective = loss.objective
    assert hasattr(objective, "user_terms"), (
        f"its objective is {type(objective).__name__}; it must have the methods user_terms and "
        "item_ridge, as the loss itself may: `return self`"
    )
    terms = objective.user_terms(lengths, ITEMS)
    instead = "return Terms(gram, push, ridge, entry, pull)"
    return of_kind(terms, Terms, type(objective).user_terms, "user_terms", instead)


def _columns(terms: Terms, rows: int) -> dict[str, Vector]:
    """What terms say of every row."""
    columns = {name: getattr(terms, name) for name in ("gram", "push", "ridge", "share")}
    for name, column in columns.items():
        assert column is None or np.shape(column) == (rows,), (
            f"`{name}` has shape {np.shape(column)} for {rows} users; give one number for each"
        )
    return {name: column for name, column in columns.items() if column is not None}


@QUADRATIC.rule
def _finite(loss: QuadraticLoss) -> None:
    """Finite weights for every user and item, and no negative penalties."""
    terms = _terms(loss, LENGTHS)
    columns = _columns(terms, len(LENGTHS))
    ridge = loss.objective.item_ridge(LENGTHS, len(LENGTHS))
    assert np.shape(ridge) == (len(LENGTHS),), (
        f"item_ridge gives shape {np.shape(ridge)} for {len(LENGTHS)} items"
    )
    for name, column in (columns | {"item_ridge": ridge}).items():
        assert np.isfinite(column).all(), f"`{name}` is not finite"
    assert np.isfinite([terms.entry, terms.pull]).all(), "`entry` or `pull` is not finite"
    assert min(columns["ridge"].min(), np.min(ridge)) >= 0, "a penalty is negative"


@QUADRATIC.rule
def _own(loss: QuadraticLoss) -> None:
    """The weights of a user depend on nothing but the user's own number of interactions."""
    together = _columns(_terms(loss, LENGTHS), len(LENGTHS))
    for row in range(len(LENGTHS)):
        alone = _columns(_terms(loss, LENGTHS[row : row + 1]), 1)
        for name, column in alone.items():
            same = np.isclose(column[0], together[name][row], rtol=1e-12, atol=0)
            assert same, (
                f"`{name}` of a user is {together[name][row]:g} among others, {column[0]:g} alone"
            )


@TRAINED.rule
def _wants(loss: Loss) -> None:
    """It says whose mean it wants."""
    response = of_kind(
        loss.response, Response, type(loss).grade, "response", 'return Response("softplus")'
    )
    assert response.kind in KINDS, f"there is no response '{response.kind}'; known: {KINDS}"


def _example(seed: int = 7) -> tuple[Positives, Means]:
    """Three users of one, two and four items each, and means that they might have."""
    rng = np.random.default_rng(seed)
    starts = np.array([0, 1, 3, 7], dtype=np.int64)
    degrees = np.diff(starts).astype(np.float64)
    positives = Positives(
        starts, rng.normal(size=7), degrees, ITEMS, rng.normal(size=3), (np.ones(7), np.ones(7))
    )
    return positives, Means(rng.uniform(0.3, 1.5, 3), np.ones(3))


def _slopes(function: Callable[[Vector], float], point: Vector) -> Vector:
    """The derivatives of a function of several numbers, by central differences."""
    steps = STEP * np.eye(len(point))
    return np.array([(function(point + s) - function(point - s)) / (2 * STEP) for s in steps])


@TRAINED.rule
def _derivatives(loss: Loss) -> None:
    """Its derivatives are those of its value."""
    positives, means = _example()
    if loss.margins or loss.pairs:  # these have rows of their own: the fits below tell
        return
    grades = graded(loss, positives, means)
    by_means = _slopes(
        lambda v: graded(loss, positives, replace(means, value=v)).value, means.value
    )
    if loss.response.kind == "exponential":  # whose mean is handed out as its logarithm
        by_means *= loss.response.scale
    assert np.allclose(grades.means, by_means, rtol=NEAR, atol=NEAR), (
        f"by means of rows it gives {np.round(grades.means, 4)}, its value {np.round(by_means, 4)}"
    )
    if type(loss).shift is not Loss.shift:  # its scores also count by what is taken off them
        return
    by_cells = _slopes(
        lambda s: graded(loss, replace(positives, scores=s), means).value, positives.scores
    )
    assert np.allclose(grades.cells, by_cells, rtol=NEAR, atol=NEAR), (
        f"by scores it gives {np.round(grades.cells, 4)}, its value {np.round(by_cells, 4)}"
    )


def _serves(loss: QuadraticLoss | Loss) -> None:
    """A model that holds it keeps the contract of models."""
    small = "als[factors=3,iterations=2" if isinstance(loss, QuadraticLoss) else "mf[epochs=2"
    for result in check_model(build(f"{small},loss={loss.text}]", MODELS)):
        assert not result.problem, f"{result.check}: {result.problem}"


def _text(loss: QuadraticLoss | Loss) -> None:
    """Its canonical text reads back as the same loss."""
    assert build(loss.text, LOSSES).text == loss.text, f"'{loss.text}' reads back as another loss"


for _contract in (QUADRATIC, TRAINED):
    for _rule in (_serves, _text):
        _contract.rule(_rule)
