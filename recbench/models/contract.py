"""What every model must do, whoever wrote it: `recbench check-plugin NAME`.

The matrices are tiny, so a model passes or fails in a moment.
"""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy

from recbench.errors import RecbenchError, Refused
from recbench.linalg.types import Sparse
from recbench.models.base import Model, fit_alone, fit_together
from recbench.models.context import Context
from recbench.models.scorers import Query, Scorer
from recbench.params import make, params_of
from recbench.registry import MODELS, CheckResult, Contract, build

CONTRACT: Contract[Model] = Contract()


def check_model(model: Model) -> Iterator[CheckResult]:
    """Put a model through every check."""
    return CONTRACT.check(model)


def example(users: int = 40, items: int = 12, seed: int = 7) -> Sparse:
    """Two tastes: even users have mostly even items, odd users mostly odd ones."""
    rng = np.random.default_rng(seed)
    alike = np.equal.outer(np.arange(users) % 2, np.arange(items) % 2)
    dense = rng.random((users, items)) < np.where(alike, 0.6, 0.15)
    return scipy.sparse.csr_array(dense.astype(np.float32))


def fit(model: Model, train: Sparse, seed: int = 0, threads: int = 1, stop: int = 0) -> Scorer:
    """Fit one model alone, through its family, as a run does."""
    context = Context(seed=seed, threads=threads, dtype=np.float64, stop=stop)
    return fit_alone(model, train, context)


def scores(scorer: Scorer, history: Sparse) -> np.ndarray:
    """Scores of the users of `history`, the rows of the train matrix."""
    return np.asarray(scorer.score(history, np.arange(history.shape[0], dtype=np.int32)))


@CONTRACT.rule
def _shape(model: Model) -> None:
    """One finite score for every user and item."""
    train = example()
    block = scores(fit(model, train), train)
    assert block.shape == train.shape, f"{block.shape} scores for a matrix of {train.shape}"
    assert np.isfinite(block).all(), "some scores are not finite"


@CONTRACT.rule
def _deterministic(model: Model) -> None:
    """The same seed gives the same scores."""
    train = example()
    first, second = (scores(fit(model, train, seed=3), train) for _ in range(2))
    assert np.array_equal(first, second), "two fits with one seed differ"


@CONTRACT.rule
def _pure(model: Model) -> None:
    """Fitting and scoring leave the train matrix alone."""
    train = example()
    before = train.copy()
    scores(fit(model, train), train)
    for name in ("data", "indices", "indptr"):
        same = np.array_equal(getattr(train, name), getattr(before, name))
        assert same, f"the {name} of the train matrix were changed"


@CONTRACT.rule
def _stranger(model: Model) -> None:
    """A user with no history and no training row gets finite scores."""
    if model.trained_users_only:
        return  # it says so itself, and splits of other users are refused before a fit
    train = example()
    nobody = scipy.sparse.csr_array(np.zeros((1, train.shape[1]), dtype=np.float32))
    try:
        block = np.asarray(fit(model, train).score(nobody, np.array([-1], dtype=np.int32)))
    except Refused as refusal:
        raise RecbenchError(
            f"{refusal}; if the model knows no others, say `trained_users_only = True` in its "
            "class, and such splits are refused before the fit"
        ) from refusal
    assert block.shape == (1, train.shape[1]), f"{block.shape} scores for one user"
    assert np.isfinite(block).all(), "some scores are not finite"


@CONTRACT.rule
def _small(model: Model) -> None:
    """One item, and one user, are data too."""
    one_item = scipy.sparse.csr_array(np.ones((3, 1), dtype=np.float32))
    one_user = scipy.sparse.csr_array(np.array([[1.0, 0.0, 1.0]], dtype=np.float32))
    for train in (one_item, one_user):
        block = scores(fit(model, train), train)
        assert block.shape == train.shape, f"{block.shape} scores for a matrix of {train.shape}"
        assert np.isfinite(block).all(), f"scores are not finite for a matrix of {train.shape}"


@CONTRACT.rule
def _unknown_item(model: Model) -> None:
    """An item that nobody has does no harm."""
    train = example()
    train = scipy.sparse.csr_array(
        scipy.sparse.hstack([train, scipy.sparse.csr_array((train.shape[0], 1))])
    )
    train = train.astype(np.float32)
    assert np.isfinite(scores(fit(model, train), train)).all(), "some scores are not finite"


@CONTRACT.rule
def _facts(model: Model) -> None:
    """What the fit found out are numbers, by short names."""
    try:
        fit(model, example()).plain_facts()
    except RecbenchError as error:
        raise AssertionError(str(error)) from None


@CONTRACT.rule
def _ranking(model: Model) -> None:
    """The ranking agrees with the scores, and never repeats what was seen."""
    train = example()
    scorer, rows = fit(model, train), np.arange(train.shape[0], dtype=np.int32)
    (top,) = scorer.base.top(Query(train, rows, train, 5), [scorer.scale])
    block = np.where(train.toarray() > 0, -np.inf, scores(scorer, train))
    best = -np.sort(-block, axis=1)[:, :5]
    shown = np.where(
        top.items >= 0, np.take_along_axis(block, np.maximum(top.items, 0), 1), -np.inf
    )
    assert np.allclose(shown, best, rtol=1e-4, atol=1e-6), "the best items are not the best scores"


@CONTRACT.rule
def _together(model: Model) -> None:
    """Fitted as one of a grid, the model gives the scores it gives alone."""
    train, alone = example(), scores(fit(model, example()), example())
    grid = [model, *_variants(model)]
    sharing = [other for other in grid if other.family.key(other) == model.family.key(model)]
    fitted = fit_together(sharing, train, Context(threads=1, dtype=np.float64))
    assert isinstance(fitted[0], Scorer), f"in company it fails: {fitted[0]}"
    assert np.allclose(scores(fitted[0], train), alone, rtol=1e-9), "company changes the scores"


def _variants(model: Model) -> Iterator[Model]:
    """The same model with one parameter moved to another of its published values."""
    for name, spec in params_of(type(model)).items():
        for value in spec.grid:
            if value != model.values()[name]:
                yield make(type(model), {**_given(model), name: value})


def _given(model: Model) -> dict[str, Any]:
    """The parameters of a model that are not at their defaults."""
    specs = params_of(type(model))
    return {name: v for name, v in model.values().items() if v != specs[name].default}


@CONTRACT.rule
def _stops(model: Model) -> None:
    """A fit that goes in rounds stops after the first if it is told to."""
    if model.most_rounds:
        train = example()
        longer, stopped = (fit(model, train).rounds > 1, fit(model, train, stop=1).stopped)
        assert stopped == longer, "Context.stop is not heeded, or `Scorer.stopped` does not say so"


@CONTRACT.rule
def _text(model: Model) -> None:
    """The canonical text reads back as the same model."""
    assert build(model.text, MODELS).text == model.text, (
        f"'{model.text}' reads back as another model"
    )


@CONTRACT.rule
def _sent(model: Model) -> None:
    """Other processes, those of `-j 2`, can be sent the model."""
    if type(model).__module__ == "__main__":
        return  # of a notebook: a run knows that it is fitted here
    assert pickle.loads(pickle.dumps(model)) == model, (  # noqa: S301 - made here
        "another model arrives"
    )
