"""Every linear autoencoder against a brute-force solve of its paper's formula, in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from recbench.campaign.search.grammar import models_from
from recbench.errors import RecbenchError, UsageError
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.linear import lae

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
LOSSES = st.fixed_dictionaries({
    "a": st.floats(0.3, 3), "b": st.floats(0.2, 2.5), "p": st.floats(0.05, 0.9),
})  # fmt: skip


def fitted(model: Model, train: sparse.csr_array) -> np.ndarray:
    """W of a fitted model, dense."""
    (scorer,) = model.family.fit([model], train, Context(dtype=np.float64))
    return scorer.weights(range(train.shape[1]))


def penalised_columns(gram: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """min over W with zero diagonal of |R - RW|² + Σ ridge_i W_ij², column by column."""
    n = len(gram)
    weights = np.zeros((n, n))
    for j in range(n):
        others = np.arange(n) != j
        system = gram[np.ix_(others, others)] + np.diag(ridge[others])
        weights[others, j] = np.linalg.solve(system, gram[others, j])
    return weights


def decoupled_columns(
    gram: np.ndarray, a: float, b: float, p: float, l2: float, zero: bool = False
) -> np.ndarray:
    """The normal equations of the decoupled expected quadratic loss, column by column.

    An input is dropped with probability p. The error on entry i weighs a² if its input was
    dropped and b² if it was kept, so column i minimises, in expectation over the dropout,
    p a² (r_i - s)² + q b² (r_i - r_i w_i - s)² with s the sum over the other kept inputs.
    """
    n, q = len(gram), 1 - p
    both = p * a * a + q * b * b
    expected = q * q * gram + p * q * np.diag(np.diag(gram))  # E[zᵀz] of the dropped-out inputs
    weights = np.zeros((n, n))
    for i in range(n):
        others = np.arange(n) != i
        system = both * expected + l2 * np.eye(n)
        target = both * q * gram[:, i]
        # The own input is there only when it was kept, which is when the error weighs b².
        system[i, :] = q * b * b * q * gram[i, :]
        system[:, i] = q * b * b * q * gram[:, i]
        system[i, i] = q * b * b * gram[i, i] + l2
        target[i] = q * b * b * gram[i, i]
        keep = others if zero else np.ones(n, dtype=bool)
        weights[keep, i] = np.linalg.solve(system[np.ix_(keep, keep)], target[keep])
    return weights


@pytest.fixture
def train() -> sparse.csr_array:
    return example(users=60, items=9)


@pytest.fixture
def gram(train: sparse.csr_array) -> np.ndarray:
    dense = train.toarray().astype(float)
    return dense.T @ dense


def test_ease_is_ridge_regression_with_zero_diagonal(train, gram):
    weights = fitted(lae.Ease(l2=3.0), train)
    assert np.allclose(weights, penalised_columns(gram, np.full(9, 3.0)), **TIGHT)


def test_debiased_ease_is_ease_at_another_penalty(train):
    debiased = fitted(lae.EaseDebiased(l2=3.0, alpha=0.4), train)
    assert np.allclose(debiased, fitted(lae.Ease(l2=5.0), train), **TIGHT)


def test_dlae_is_ridge_regression_with_weighted_penalty(train, gram):
    ridge = 0.3 / 0.7 * np.diag(gram) + 2.0
    weights = fitted(lae.Dlae(p=0.3, l2=2.0), train)
    assert np.allclose(weights, np.linalg.solve(gram + np.diag(ridge), gram), **TIGHT)


def test_edlae_is_the_emphasised_loss(train, gram):
    ridge = 0.4 / 0.6 * np.diag(gram) + 2.0
    weights = fitted(lae.Edlae(p=0.4, l2=2.0), train)
    assert np.allclose(weights, penalised_columns(gram, ridge) / 0.6, **TIGHT)


@given(LOSSES)
@settings(max_examples=25, deadline=None)
def test_deql_solves_the_expected_loss(loss):
    train = example(users=60, items=9)
    dense = train.toarray().astype(float)
    expected = decoupled_columns(dense.T @ dense, **loss, l2=0.0)
    assert np.allclose(fitted(lae.Deql.of(**loss), train), expected, **TIGHT)


@given(LOSSES, st.floats(0.01, 100))
@settings(max_examples=25, deadline=None)
def test_deql_l2_solves_the_expected_loss_with_its_penalty(loss, l2):
    train = example(users=60, items=9)
    dense = train.toarray().astype(float)
    expected = decoupled_columns(dense.T @ dense, **loss, l2=l2)
    assert np.allclose(fitted(lae.DeqlL2.of(**loss, l2=l2), train), expected, **TIGHT)
    expected = decoupled_columns(dense.T @ dense, **loss, l2=l2, zero=True)
    assert np.allclose(fitted(lae.DeqlL2Zero.of(**loss, l2=l2), train), expected, **TIGHT)


def test_the_expected_loss_is_what_sampling_dropout_gives():
    """The brute-force equations above minimise the loss itself, dropout drawn many times."""
    rng, p, a, b, l2 = np.random.default_rng(0), 0.4, 1.0, 0.6, 5.0
    dense = example(users=30, items=4).toarray().astype(float)
    kept = rng.random((4000, *dense.shape)) >= p
    importance = np.where(kept, b, a) ** 2
    item, penalty = 2, l2

    def loss(column: np.ndarray) -> float:
        errors = dense[:, item] - (kept * dense) @ column
        sampled = (importance[:, :, item] * errors**2).sum() / len(kept)
        return float(sampled + penalty * column @ column)

    found = optimize.minimize(loss, np.zeros(4), tol=1e-9).x
    expected = decoupled_columns(dense.T @ dense, a, b, p, l2)[:, item]
    assert np.allclose(found, expected, atol=0.01)  # the sampling error at 4,000 draws is 0.003


@given(LOSSES, st.floats(0.01, 100))
@settings(max_examples=20, deadline=None)
def test_deql_l2_zero_is_edlae_in_effective_units(loss, effective):
    train = example()
    zero = fitted(lae.DeqlL2Zero.of(**loss, l2_effective=effective), train)
    assert np.allclose(zero, fitted(lae.Edlae(p=loss["p"], l2=effective), train), **TIGHT)


def test_deql_with_equal_weights_is_dlae_up_to_a_factor(train):
    """a = b: the emphasis is gone."""
    equal = fitted(lae.DeqlL2.of(p=0.3, a=0.7, b=0.7, l2_effective=4.0), train)
    off = ~np.eye(9, dtype=bool)
    dlae = fitted(lae.Dlae(p=0.3, l2=4.0), train)
    ratio = equal[off] / dlae[off]
    assert ratio.std() < 1e-9
    assert ratio.mean() == pytest.approx(1 / 0.7)


def test_only_the_ratio_of_the_weights_matters(train):
    one = fitted(lae.DeqlL2.of(a=1.0, b=0.5, l2_effective=4.0), train)
    assert np.allclose(one, fitted(lae.DeqlL2.of(a=2.0, b=1.0, l2_effective=4.0), train), **TIGHT)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("xi", [0.0, 0.2, 0.6, 1.0])
def test_rdlae_meets_its_bound_and_the_optimality_conditions(train, gram, xi, p):
    """min |R - RW|² + |Γ^½ W|² with W_ii <= ξ: the gradient vanishes but on a tight diagonal."""
    model = lae.Rdlae(p=p, l2=2.0, xi=xi) if p else lae.Rlae(l2=2.0, xi=xi)
    weights = fitted(model, train)
    ridge = p / (1 - p) * np.diag(gram) + 2.0
    gradient = (gram + np.diag(ridge)) @ weights - gram
    off = ~np.eye(9, dtype=bool)
    diagonal = np.diag(weights)
    assert np.abs(gradient[off]).max() < 1e-10
    assert (diagonal <= xi + 1e-12).all()
    multipliers = -np.diag(gradient)
    assert (multipliers >= -1e-10).all()
    assert np.abs(multipliers * (diagonal - xi)).max() < 1e-10


def test_rdlae_at_its_ends_is_dlae_and_zero_diagonal(train):
    assert np.allclose(
        fitted(lae.Rdlae(p=0.3, l2=2.0, xi=1.0), train),
        fitted(lae.Dlae(p=0.3, l2=2.0), train),
        **TIGHT,
    )
    tight = fitted(lae.Rlae(l2=2.0, xi=0.0), train)
    assert np.allclose(tight, fitted(lae.Ease(l2=2.0), train), **TIGHT)


def test_a_grid_in_effective_units_needs_one_inverse(train, monkeypatch):
    calls = []
    real = lae.invert
    monkeypatch.setattr(lae, "invert", lambda *args: calls.append(args[1:3]) or real(*args))
    models = models_from(
        ["deql-l2[l2-effective=5,p=0.4]", "edlae[p=0.4,l2=5]"], grids=["b=0.1:2.0"]
    )
    keys = {model.family.key(model) for model in models}
    assert len(models) == 10
    assert len(keys) == 1
    models[0].family.fit(models, train, Context(dtype=np.float64))
    assert calls == [(0.4, 5.0)]


def test_without_a_penalty_the_inverse_does_not_depend_on_b():
    first, second = lae.Deql.of(b=0.2), lae.Deql.of(b=1.7)
    assert first.family.key(first) == second.family.key(second)


@pytest.mark.parametrize("model", [lae.Deql, lae.DeqlL2])
def test_b_zero_is_refused_and_edlae_named(model):
    with pytest.raises(UsageError, match="edlae"):
        model.of(b=0.0)


def test_two_penalties_are_refused():
    with pytest.raises(UsageError, match="not both"):
        lae.DeqlL2.of(l2=1.0, l2_effective=2.0)


def test_an_unpenalised_singular_gram_is_an_error_with_advice():
    twins = sparse.csr_array(np.ones((4, 3), dtype=np.float32))
    with pytest.raises(RecbenchError, match="l2"):
        fitted(lae.Ease(l2=0.0), twins)


def test_an_item_nobody_has_gets_no_weight(train):
    empty = sparse.csr_array(sparse.hstack([train, sparse.csr_array((60, 1), dtype=np.float32)]))
    for model in (lae.Deql.of(p=0.4), lae.Ease(l2=2.0), lae.Dlae(p=0.2, l2=0.0)):
        weights = fitted(model, empty)
        assert np.isfinite(weights).all()
        assert not np.delete(weights[:, -1], -1).any()
        assert not np.delete(weights[-1], -1).any()


def test_single_and_double_precision_agree(train):
    model = lae.DeqlL2.of(l2_effective=3.0)
    (single,) = model.family.fit([model], train, Context(dtype=np.float32))
    assert np.allclose(single.weights(range(9)), fitted(model, train), rtol=1e-4, atol=1e-5)
