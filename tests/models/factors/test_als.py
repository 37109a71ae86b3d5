"""Every factorisation against its paper's objective, written out cell by cell in float64."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from recbench.errors import RecbenchError, Refused, UsageError
from recbench.linalg import blas
from recbench.linalg.normal import Diverged
from recbench.linalg.topk import kernel_threads
from recbench.models.context import Context
from recbench.models.contract import check_model, example
from recbench.models.factors import als
from recbench.models.factors.als import Problem
from recbench.models.factors.rg2_svd import Rg2Svd
from recbench.params import make

EXACT = {"rtol": 1e-9, "atol": 1e-9}
ALL = [
    als.Wrmf, als.Ials, als.IalsDebiased, als.Mse, als.MseDebiased, als.Rg2, als.Rgx, als.Rg2Ssm,
    als.RgxSsm, als.RgxExact, als.Rg2Matrix, Rg2Svd,
]  # fmt: skip
SOME = [
    als.Wrmf.of(factors=4, alpha=3.0, l2=0.7),
    als.Wrmf.of(factors=4, alpha=3.0, l2=0.1, nu=0.6),
    als.Ials.of(factors=4, alpha0=0.2, l2=0.05, nu=0.8),
    als.IalsDebiased.of(factors=4, alpha0=0.3, c=1.7, l2=0.05, nu=0.8),
    als.IalsDebiased.of(factors=4, alpha0=0.3, c=1.7, l2=0.05, nu=0.8, penalty="weights"),
    als.IalsDebiased.of(factors=4, alpha0=0.3, c=0.6, l2=0.05, unknown=2.5),
    als.Mse.of(factors=4, negatives=3.0, l2=0.3),
    als.MseDebiased.of(factors=4, weight=0.7, l2=0.05),
    als.MseDebiased.of(factors=4, weight=0.4, alpha=0.8, unknown=1.5, l2=0.05),
    als.MseDebiased.of(factors=4, weight=1.0, alpha=0.8, unknown=1.5, l2=0.05),
    als.Rg2.of(factors=4, alpha=0.2, l2=0.05),
    als.Rg2.of(factors=4, alpha=0.0, l2=0.05),
    als.Rgx.of(factors=4, alpha=0.2, beta=0.4, l2=0.05),
    als.Rg2Ssm.of(factors=4, negatives=3, l2=0.05),
    als.RgxSsm.of(factors=4, negatives=3, beta=0.4, l2=0.05),
    als.Rg2Matrix.of(factors=4, alpha=0.2, l2=0.05),
    als.Rg2Matrix.of(factors=4, alpha=0.0, l2=0.05),
    als.Wrmf.of(factors=4, alpha=3.0, l2=0.1, nu=0.6, popularity=0.5),
    als.Ials.of(factors=4, alpha0=0.2, l2=0.05, popularity=1.0),
    als.Mse.of(factors=4, negatives=3.0, l2=0.3, popularity=0.5),
    als.Rg2Ssm.of(factors=4, negatives=3, l2=0.05, popularity=1.0),
    als.RgxSsm.of(factors=4, negatives=3, beta=0.4, l2=0.05, popularity=0.5),
    als.RgxExact.of(factors=4, alpha=0.2, l2=0.05),
    Rg2Svd(factors=4, l2=0.05),
]
each = pytest.mark.parametrize("model", SOME, ids=str)
alternating = pytest.mark.parametrize("model", SOME[:-1], ids=str)
separate = pytest.mark.parametrize("model", SOME[:-2], ids=str)
"""Those in which no item's factors have a say in another's."""
POPULAR = [
    cls.of(factors=4, popularity=0.5)
    for cls in (als.Wrmf, als.Ials, als.Mse, als.Rg2Ssm, als.RgxSsm)
]
popular = pytest.mark.parametrize("model", POPULAR, ids=str)


def changed(model, **settings):
    """The same model with other settings."""
    return make(type(model), {**model.values(), **settings})


def parameters(model):
    """By attribute, whatever holds them."""
    values = {name.replace("-", "_"): value for name, value in model.values().items()}
    return SimpleNamespace(name=model.name, **values)


def item_weights(model, matrix):
    """What items count among the negatives: n times their chances, by interactions to a power."""
    power, powers = getattr(parameters(model), "popularity", 0.0), []
    for column in matrix.T.tolist():
        powers.append(sum(column) ** power)
    return np.array([len(powers) * one / sum(powers) for one in powers])


def loss(model, matrix, scores, train=None):
    """What the papers write, but for the penalty on factors; popularity is that of `train`."""
    v = item_weights(model, matrix if train is None else train)
    seen, (_, n), model = matrix > 0, matrix.shape, parameters(model)
    if model.name == "wrmf":
        hits = (1 + model.alpha) * (1 - scores) ** 2 - scores**2
        return (v * scores**2).sum() + (seen * hits).sum()
    if model.name in ("mse", "mse-debiased"):
        return drawn(model, seen, scores, v)
    if model.name in ("ials", "ials-debiased"):
        hits = (seen * (scores - 1) ** 2).sum(axis=1)
        if model.name == "ials-debiased":
            share = model.c * (1 + model.unknown / np.maximum(seen.sum(axis=1), 1))
            hits = share * (hits - model.alpha0 * (seen * scores**2).sum(axis=1))
        return hits.sum() + model.alpha0 * (v * scores**2).sum()
    weight = seen.sum(axis=1, keepdims=True) / (2 * n)
    if model.name in ("rg2-ssm", "rgx-ssm"):
        return sampled(model, seen, weight * v, scores)
    # Of |I_u| log Σ exp s_ui - Σ_seen s_ui the expansion at 0, without the products of scores.
    total = (2 * weight * scores + weight * scores**2).sum() - (seen * scores).sum()
    total += getattr(model, "alpha", 0.0) * (seen * (scores - 1) ** 2).sum()
    if model.name == "rgx-exact":
        total -= (weight[:, 0] / n * scores.sum(axis=1) ** 2).sum()
    if model.name == "rgx":
        total -= model.beta * (weight * scores**2).sum()
    if model.name == "rg2-matrix":
        total += model.l2 * (scores**2).sum()
    return total


def drawn(model, seen, scores, v):
    """Interaction by interaction, with the mean over one negative drawn from all items."""
    total, n = 0.0, scores.shape[1]
    for mine, given in zip(seen, scores, strict=True):
        liked = given[mine].tolist()
        negative = sum(chance / n * score**2 for chance, score in zip(v, given, strict=True))
        if model.name == "mse":  # ½ (1 - s)² + ½ Σ s² over so many, times two
            total += sum(
                2 * (0.5 * (1 - score) ** 2 + 0.5 * model.negatives * negative) for score in liked
            )
            continue
        tau = ((1 + model.alpha) * len(liked) + model.unknown) / n
        positive = sum(score**2 for score in liked) / max(1, len(liked))
        total += sum(
            tau * (1 - score) ** 2 + model.weight * (negative - tau * positive) for score in liked
        )
    return total


def sampled(model, seen, weight, scores):
    """Of the expectation of Σ_seen log(exp s_ui + Σ_drawn exp s_uj) - s_ui, likewise."""
    n, rest = model.negatives, 1 - getattr(model, "beta", 0.0)
    squares = n * (weight * scores**2).sum() + (seen * scores**2).sum() / 2
    slopes = n * (2 * weight * scores).sum() - n * (seen * scores).sum()
    return (rest * squares + slopes) / (n + 1)


def penalties(model, matrix):
    """The r of every user and of every item."""
    (m, n), users, items = matrix.shape, matrix.sum(axis=1), matrix.sum(axis=0)
    v = item_weights(model, matrix)
    model = parameters(model)
    if model.name == "rg2-matrix":
        return np.zeros(m), np.zeros(n)
    if model.name in ("mse", "mse-debiased"):
        return np.full(m, model.l2), np.full(n, model.l2)
    if model.name in ("rg2-ssm", "rgx-ssm"):
        drawn = model.negatives / (model.negatives + 1)
        both = users / 2, drawn * users.sum() / (2 * n) * v + (1 - drawn) * items / 2
    elif model.name in ("rg2", "rgx", "rgx-exact", "rg2-svd"):
        alpha = getattr(model, "alpha", 0.0)
        both = users / 2 + alpha * n, np.full(n, users.sum() / (2 * n) + alpha * m)
    else:
        a, b = (1.0, model.alpha) if model.name == "wrmf" else (model.alpha0, 1.0)
        if getattr(model, "penalty", "") == "weights":
            b = model.c * (1 - model.alpha0)  # as printed, an interaction counts one
        both = (a * n + b * users) ** model.nu, (a * m * v + b * items) ** model.nu
    return model.l2 * both[0], model.l2 * both[1]


def dense(train):
    return train.toarray().astype(np.float64)


def objective(model, matrix, p, q):
    """Relative to no recommendations at all."""
    r, s = penalties(model, matrix)
    data = loss(model, matrix, p @ q.T) - loss(model, matrix, np.zeros(matrix.shape))
    return data + r @ (p**2).sum(axis=1) + s @ (q**2).sum(axis=1)


def gradients(model, matrix, p, q, train=None):
    """By differences in the scores, in which every loss here is quadratic: they are exact."""
    slope = np.empty(matrix.shape)
    for cell in np.ndindex(*matrix.shape):
        step = np.zeros(matrix.shape)
        step[cell] = 0.5
        above, below = (loss(model, matrix, p @ q.T + s, train) for s in (step, -step))
        slope[cell] = above - below
    r, s = penalties(model, matrix)
    return slope @ q + 2 * r[:, None] * p, slope.T @ p + 2 * s[:, None] * q


def fitted(model, train, **settings):
    """A scorer and its factors."""
    scorer = model.fit(train, Context(**{"dtype": np.float64, **settings}))
    return scorer, scorer.base.users.trained, scorer.base.items


def long(model, sweeps=200, **settings):
    """The same model without an early end."""
    return changed(model, **{"iterations": sweeps, "tol": 0.0, **settings})


@pytest.fixture(scope="module")
def train():
    """Of rows with fewer and with more entries than factors, and an item and a user with none."""
    matrix = example(users=14, items=9).toarray()
    matrix[3], matrix[:, 5], matrix[4, 1:] = 0, 0, 0
    return sparse.csr_array(matrix)


@each
def test_user_factors_leave_no_gradient(model, train):
    _, p, q = fitted(model, train)
    assert np.abs(gradients(model, dense(train), p, q)[0]).max() < 1e-9


@separate
def test_item_factors_leave_no_gradient_in_their_turn(model, train):
    _, p, q = fitted(model, train)
    with blas.workers() as pool:
        Problem.of(model.loss.objective, train, model.name).solve_items(pool, p, q)
    assert np.abs(gradients(model, dense(train), p, q)[1]).max() < 1e-9


@each
def test_the_objective_reported_is_the_papers(model, train):
    scorer, p, q = fitted(model, train)
    expected = objective(model, dense(train), p, q)
    assert scorer.trace[-1]["objective"] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("solver", ["exact", "cg"])
@alternating
def test_the_objective_never_rises(model, solver):
    model = long(model, 40, solver=solver, steps=1)
    values = [entry["objective"] for entry in fitted(model, example())[0].trace]
    assert len(values) == 41
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:])).all()
    assert values[-1] < values[1]


@pytest.mark.slow
@alternating
def test_conjugate_gradients_reach_the_exact_objective(model):
    exact, _, _ = fitted(long(model, 60, factors=2), example())
    cg, _, _ = fitted(long(model, 60, factors=2, solver="cg"), example())
    best, near = exact.trace[-1]["objective"], cg.trace[-1]["objective"]
    assert near == pytest.approx(best, rel=1e-6)


def same_path(model, twin, units):
    """Two models do the same, sweep by sweep; scores of one are so many times the other's.

    The start must be, too: with four times the scores factors are exactly doubled.
    """
    model, twin = long(model, 20, init=0.1 * units**0.5), long(twin, 20)
    (one, _, _), (other, _, _) = (fitted(m, example()) for m in (model, twin))
    assert np.allclose(one.score(example()), units * other.score(example()), **EXACT)
    pairs = zip(one.trace, other.trace, strict=True)
    ratios = [a["objective"] / b["objective"] for a, b in pairs]
    assert np.allclose(ratios, ratios[-1], **EXACT)
    return ratios[-1]


@pytest.mark.parametrize("nu", [0.0, 0.6, 1.0])
def test_debiased_ials_is_ials_at_another_weight_and_penalty(nu):
    """Theorem 1: divide the objective by c (1 - α0), and scores by 1 / (1 - α0)."""
    alpha0, c, l2 = 0.75, 1.7, 0.05
    share = c * (1 - alpha0)
    debiased = als.IalsDebiased.of(factors=4, nu=nu, alpha0=alpha0, c=c, l2=l2, penalty="weights")
    twin = als.Ials.of(factors=4, nu=nu, alpha0=alpha0 / share, l2=l2 * share**nu / c)
    assert same_path(debiased, twin, 4) == pytest.approx(c / (1 - alpha0), rel=1e-9)


@pytest.mark.parametrize(("nu", "c"), [(0.0, 1.7), (0.6, 4.0), (1.0, 4.0)])
def test_as_printed_it_is_so_where_the_penalty_is_too(nu, c):
    """Without an exponent, or where an interaction weighs c (1 - α0) = 1 in both."""
    share = c * (1 - 0.75)
    debiased = als.IalsDebiased.of(factors=4, nu=nu, alpha0=0.75, c=c, l2=0.05)
    twin = als.Ials.of(factors=4, nu=nu, alpha0=0.75 / share, l2=0.05 / c)
    assert same_path(debiased, twin, 4) == pytest.approx(c / 0.25, rel=1e-9)


def test_debiased_ials_as_printed_is_another_revision_of_the_same_text():
    model = als.IalsDebiased.of(factors=4)
    assert "penalty" not in model.text
    assert model.identity == f"{model.text}@1 ials-debiased@2"
    assert "penalty=weights" in changed(model, penalty="weights").text


def test_debiased_mse_drawn_by_user_is_debiased_ials():
    """Users of equally many interactions weigh the same either way; scores are the same."""
    matrix = sum(np.roll(np.eye(12, dtype=np.float32), shift, axis=1) for shift in (0, 3, 7))
    data, n, a = sparse.csr_array(matrix), 12, 3
    mse = als.MseDebiased.of(factors=4, weight=0.4, unknown=1.5, l2=0.01)
    ials = als.IalsDebiased.of(factors=4, alpha0=0.4, unknown=1.5, nu=0.0, l2=0.01 * n / a)
    one, other = (fitted(long(m, 20), data)[0].score(data) for m in (mse, ials))
    assert np.allclose(one, other, **EXACT)


@pytest.mark.parametrize("popularity", [0.0, 0.7])
def test_wrmf_is_ials_in_other_units(popularity):
    """Divide the objective by α, and scores by (1 + α) / α."""
    wrmf = als.Wrmf.of(factors=4, alpha=1 / 3, l2=0.6, popularity=popularity)
    ials = als.Ials.of(factors=4, alpha0=3.0, l2=0.6 * 3 / 4, nu=0.0, popularity=popularity)
    assert same_path(wrmf, ials, 4) == pytest.approx(16 / 3, rel=1e-9)


USERS_OF = np.array([3, 1, 0, 4])
"""Items of the two tests below have so many users, one of whom has the first and the last."""
by_chance = pytest.mark.parametrize("power", [0.0, 0.5, 1.0])


def draws(power, count):
    """Everything that can be drawn from these items, each with its chance."""
    chances = [1 / 4] * 4 if not power else (USERS_OF**power / (USERS_OF**power).sum()).tolist()
    for drawn in product(range(4), repeat=count):
        yield list(drawn), np.prod([chances[j] for j in drawn])


def for_one(model, scores):
    """The loss of the one user, where items have that many users."""
    train = (np.arange(4)[:, None] < USERS_OF).astype(float)
    return loss(model, np.array([[1.0, 0, 0, 1]]), scores[None], train)


@by_chance
def test_the_sampled_loss_is_the_mean_over_all_draws(power):
    """Of every draw of negatives, log Σ exp s to second order but for the products of scores."""
    scores, expected = np.array([0.3, -1.2, 0.5, 2.0]), 0.0
    for i, (drawn, chance) in product((0, 3), draws(power, 2)):
        some = scores[[i, *drawn]]
        expected += chance * (some.mean() + (some**2).mean() / 2 - scores[i])
    assert for_one(als.Rg2Ssm.of(negatives=2, popularity=power), scores) == pytest.approx(expected)


@by_chance
def test_the_squared_error_is_the_mean_over_all_draws(power):
    """Of two negatives of weight 1.5 for each interaction, twice over."""
    scores, expected = np.array([0.3, -1.2, 0.5, 2.0]), 0.0
    for i, (drawn, chance) in product((0, 3), draws(power, 2)):
        expected += chance * ((1 - scores[i]) ** 2 + 1.5 * (scores[drawn] ** 2).sum())
    assert for_one(als.Mse.of(negatives=3.0, popularity=power), scores) == pytest.approx(expected)


@popular
@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_who_is_never_a_negative_and_nobodys_gets_nothing(model, solver, dtype, l2, train):
    """Item 5 has no users: no weight, and where penalties are of weights no penalty either."""
    scorer, _, q = fitted(changed(model, solver=solver, l2=l2, iterations=3), train, dtype=dtype)
    assert not q[5].any()
    assert np.delete(q, 5, axis=0).any(axis=1).all()
    assert np.isfinite(scorer.score(train)).all()
    assert np.isfinite([entry["objective"] for entry in scorer.trace]).all()


@popular
def test_popularity_of_nothing_is_the_model_of_before(model):
    before = changed(model, popularity=0.0)
    assert "popularity" not in before.text
    assert before.goal == type(model).of(factors=4).goal != model.goal
    assert Problem.of(before.loss.objective, example(), model.name).weights is None
    assert "popularity=0.5" in model.text


@popular
def test_where_all_are_as_popular_it_changes_nothing(model):
    even = sparse.csr_array(
        sum(np.roll(np.eye(12, dtype=np.float32), k, axis=1) for k in (0, 3, 7))
    )
    ours, theirs = (
        fitted(long(m, 5), even)[0].score(even) for m in (model, changed(model, popularity=0.0))
    )
    assert np.allclose(ours, theirs, **EXACT)


@popular
def test_a_power_beyond_all_numbers_is_an_error_with_advice(model):
    with pytest.raises(RecbenchError, match=r"larger l2, or smaller .*popularity"):
        fitted(changed(model, popularity=1e3), example())


def test_all_negatives_drawn_is_rg2():
    few = als.Rg2Ssm.of(factors=4, negatives=10**9, l2=0.05)
    rg2 = als.Rg2.of(factors=4, alpha=0.0, l2=0.05)
    ours, theirs = (fitted(long(m, 20), example())[0].score(example()) for m in (few, rg2))
    assert np.allclose(ours, theirs, rtol=1e-7, atol=1e-7)


def test_the_matrix_form_is_the_update_of_the_appendix(train):
    """P = (W + λ)⁻¹ (R/2 - w 1ᵀ) Q (QᵀQ)⁻¹ at α = 0."""
    model, matrix = als.Rg2Matrix.of(factors=4, alpha=0.0, l2=0.05), dense(train)
    _, p, q = fitted(model, train)
    weight = matrix.sum(axis=1, keepdims=True) / (2 * matrix.shape[1])
    expected = (matrix / 2 - weight) @ q @ np.linalg.inv(q.T @ q) / (weight + model.loss.l2)
    assert np.allclose(p, expected, **EXACT)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize("l2", [0.02, 0.2])
def test_rg2_svd_is_where_rg2_converges_to(shape, l2):
    data = example(*shape)
    closed, _, _ = fitted(Rg2Svd(factors=2, l2=l2), data)
    slow, _, _ = fitted(long(als.Rg2.of(factors=2, alpha=0.0, l2=l2)), data)
    best = closed.trace[-1]["objective"]
    assert slow.trace[-1]["objective"] == pytest.approx(best, rel=1e-10)
    assert np.abs(slow.score(data) - closed.score(data)).max() < 1e-8


def test_rg2_svd_without_penalty_is_the_truncated_svd():
    matrix = dense(example())
    lengths, n = matrix.sum(axis=1, keepdims=True), matrix.shape[1]
    root = np.sqrt(lengths / (2 * n))
    u, s, v = np.linalg.svd(root * (n / lengths * matrix - 1))
    expected = (u[:, :5] * s[:5]) @ v[:5] / root
    assert np.allclose(fitted(Rg2Svd(factors=5, l2=0.0), example())[0].score(example()), expected)


@pytest.mark.parametrize("shape", [(300, 200), (200, 300)])
def test_rg2_svd_of_large_data_is_iterative_and_the_same(monkeypatch, shape):
    data, model = example(*shape), Rg2Svd(factors=3, l2=0.02, tol=1e-11)
    direct, _, _ = fitted(model, data)
    monkeypatch.setattr("recbench.linalg.eigen.SMALL", 8)
    iterative, _, _ = fitted(model, data)
    assert direct.trace[0]["residual"] == 0.0
    assert 0.0 < iterative.trace[0]["residual"] < 1e-11
    assert np.allclose(iterative.score(data), direct.score(data), **EXACT)


def test_rg2_svd_minimises_the_exact_rgx():
    """With the products of scores, -|I_u| / 2n² (Σ s)², at α = 0: same value, and no slope."""
    matrix, l2 = dense(example()), 0.05
    model = Rg2Svd(factors=3, l2=l2)
    _, p, q = fitted(model, example())
    weight = matrix.sum(axis=1) / (2 * matrix.shape[1])

    def products(p, q):
        return -(weight / matrix.shape[1]) @ (p @ q.sum(axis=0)) ** 2

    assert abs(products(p, q)) < 1e-12  # the factors are orthogonal to 1
    for slope in gradients(model, matrix, p, q):
        assert np.abs(slope).max() < 1e-9
    best, rng = objective(model, matrix, p, q), np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0) * 20:
        other = [x + size * rng.standard_normal(x.shape) for x in (p, q)]
        assert objective(model, matrix, *other) + products(*other) > best


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_the_exact_rgx_ends_where_neither_side_has_a_slope(alpha):
    """Its items are tied together by their sum, and come to rest over many sweeps."""
    model, matrix = als.RgxExact.of(factors=3, alpha=alpha, l2=0.05), dense(example())
    _, p, q = fitted(long(model, 1000), example())
    for slope in gradients(model, matrix, p, q):
        assert np.abs(slope).max() < 1e-7
    if not alpha:
        closed = fitted(Rg2Svd(factors=3, l2=0.05), example())[0].trace[-1]["objective"]
        assert objective(model, matrix, p, q) == pytest.approx(closed, rel=1e-9)


def test_to_second_order_the_softmax_loss_is_the_exact_rgx():
    """|I| log Σ exp s - Σ_seen s at small scores, up to its constant and the cubes."""
    scores, seen = 1e-3 * np.array([[0.3, -1.2, 0.5, 2.0]]), np.array([[1.0, 0.0, 0.0, 1.0]])
    softmax = 2 * np.log(np.exp(scores).mean()) - (seen * scores).sum()
    ours = loss(als.RgxExact.of(alpha=0.0), seen, scores)
    assert ours == pytest.approx(softmax, abs=1e-9)
    assert loss(als.Rg2.of(alpha=0.0), seen, scores) != pytest.approx(softmax, abs=1e-8)


@pytest.mark.parametrize(("cls", "extra"), [(als.Rg2, 1.0), (als.Rgx, 0.0)])
def test_the_variant_of_the_code_solves_the_equations_of_the_code(cls, extra, train):
    """As they stand in the authors' rg2.py and rgx.py, user by user and item by item."""
    model, matrix = cls.of(factors=4, alpha=0.2, l2=0.05, variant="code"), dense(train)
    _, p, q = fitted(model, train)
    (m, n), weight = matrix.shape, matrix.sum(axis=1) / (2 * matrix.shape[1])
    rest = 1 - getattr(model.loss, "beta", 0.0)
    for u, mine in enumerate(matrix > 0):
        ridge = 0.05 * (mine.sum() / 2 + 0.2 * n) + 0.05 * extra
        left = rest * weight[u] * q.T @ q + 0.2 * q[mine].T @ q[mine] + ridge * np.eye(4)
        right = 0.7 * q[mine].sum(axis=0) - weight[u] * q.sum(axis=0)
        assert np.allclose(left @ p[u], right, **EXACT)
    with blas.workers() as pool:
        Problem.of(model.loss.objective, train, model.name).solve_items(pool, p, q)
    for i, mine in enumerate(matrix.T > 0):
        left = rest * (p.T * weight) @ p + 0.2 * p[mine].T @ p[mine]
        left += 0.05 * (weight.sum() + 0.2 * m) * np.eye(4)
        right = 0.7 * p[mine].sum(axis=0) + weight @ p
        assert np.allclose(left @ q[i], right, **EXACT)
    assert model.text != cls.of(factors=4, alpha=0.2, l2=0.05).text


@pytest.mark.parametrize("sweeps", [2, 5])
def test_n_sweeps_of_others_are_one_less_of_ours_with_the_items_last(sweeps, train):
    """Others begin with the users and end with the items; ours begin half a sweep before."""
    model = als.Ials.of(factors=4, iterations=sweeps - 1, last="items", tol=0.0)
    scorer, _, _ = fitted(model, train)
    matrix, (r, s) = dense(train), penalties(model, dense(train))
    q = Context().stream().standard_normal((9, 4), dtype=np.float32)
    q = (q * np.float32(0.1 / 2.0)).astype(np.float64)

    def solved(rows, other, ridges):
        gram = model.loss.alpha0 * other.T @ other
        return np.array([
            np.linalg.solve(
                gram + (other.T * row) @ other + ridge * np.eye(4), row @ other
            )
            for row, ridge in zip(rows, ridges, strict=True)
        ])  # fmt: skip

    for _ in range(sweeps):
        p = solved(matrix, q, r)
        q = solved(matrix.T, p, s)
    rows = np.arange(len(p), dtype=np.int32)
    assert np.allclose(scorer.score(train, rows), p @ q.T, **EXACT)


@each
def test_folding_in_a_user_of_training_gives_the_factors_of_training(model, train):
    scorer, p, _ = fitted(model, train)
    rows = np.full(train.shape[0], -1, dtype=np.int32)
    assert np.allclose(scorer.base.users(train, rows), p, **EXACT)


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_trained_users_and_strangers_may_come_together(train, solver):
    scorer, p, _ = fitted(als.Ials.of(factors=4, solver=solver, steps=1, iterations=2), train)
    rows = np.array([6, -1, 0], dtype=np.int32)
    found = scorer.base.users(train[[6, 2, 0]], rows)
    assert np.array_equal(found[[0, 2]], p[[6, 0]])
    assert np.allclose(found[1], p[2], **EXACT)


@each
def test_a_stranger_gets_the_best_factors_for_his_history(model, train):
    scorer, p, q = fitted(model, train)
    history = sparse.csr_array(np.array([[1, 0, 0, 1, 0, 0, 0, 1, 0.0]]))
    found = scorer.base.users(history, np.array([-1], dtype=np.int32))
    matrix = np.vstack([dense(train), history.toarray()])
    slope, _ = gradients(model, matrix, np.vstack([p, found]), q, dense(train))
    assert np.abs(slope[-1]).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("cls", [cls for cls in ALL if cls is not Rg2Svd])
def test_the_contract_is_kept_with_conjugate_gradients_too(cls):
    """As every model is found to keep it by itself: tests/models/test_contract.py."""
    model = cls.of(solver="cg")
    assert [result for result in check_model(model) if result.problem] == []


@pytest.mark.parametrize("cls", ALL)
def test_the_number_of_threads_changes_no_bit(cls):
    model = cls.of(factors=5) if cls is Rg2Svd else cls.of(factors=5, iterations=2)
    scores = []
    for threads in (1, 2):
        with kernel_threads(threads):
            scores.append(model.fit(example(200, 150), Context()).score(example(200, 150)))
    assert np.array_equal(*scores)


@pytest.mark.parametrize("cls", ALL)
def test_single_and_double_precision_agree(cls):
    data, rows = example(80, 30), np.arange(80, dtype=np.int32)
    model = cls.of(factors=5)
    double = fitted(model, data)[0].score(data, rows)
    single = fitted(model, data, dtype=np.float32)[0].score(data, rows)
    assert single.dtype == np.float32
    assert np.abs(single - double).max() < 1e-3 * np.abs(double).max()


def test_the_seed_matters_and_the_penalty_settles_it():
    one, other = (fitted(als.Ials.of(factors=4), example(), seed=seed)[0] for seed in (0, 1))
    assert one.trace[0]["objective"] != other.trace[0]["objective"]
    assert one.trace[-1]["objective"] == pytest.approx(other.trace[-1]["objective"], rel=1e-2)


def test_more_factors_than_the_data_have_are_not_used(train):
    model = als.Ials.of(factors=50)
    scorer, p, q = fitted(model, train)
    assert p.shape[1] == q.shape[1] == 9
    assert scorer.facts == {"factors used": 9}
    assert fitted(als.Ials.of(factors=9), train)[0].facts == {}


def test_sweeps_end_when_nothing_changes():
    scorer, _, _ = fitted(als.Ials.of(factors=4, tol=1e-3, iterations=500), example())
    values = [entry["objective"] for entry in scorer.trace]
    changes = -np.diff(values) / np.abs(values[1:])
    assert changes[-1] < 1e-3
    assert (changes[:-1] >= 1e-3).all()
    assert [entry["sweep"] for entry in scorer.trace] == list(range(len(values)))
    seconds = [entry["seconds"] for entry in scorer.trace]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_validation_ends_the_fit_and_brings_the_best_back(solver):
    asked = []

    def validate(scorer):
        asked.append(scorer.score(example()))
        return [0.1, 0.3, 0.2, 0.3, 0.9][len(asked) - 1]

    model = als.Ials.of(factors=4, patience=2, every=3, tol=0.0, iterations=90, solver=solver)
    scorer, p, q = fitted(model, example(), validate=validate)
    values = {e["sweep"]: e["validation"] for e in scorer.trace if "validation" in e}
    assert values == {0: 0.1, 3: 0.3, 6: 0.2, 9: 0.3}
    assert scorer.facts == {"sweeps": 3}  # what was handed out; the trace tells the others
    assert scorer.rounds == 3
    assert len(asked) == 4
    assert np.allclose(scorer.score(example()), asked[1], **EXACT)
    assert np.allclose(p @ q.T, asked[1], **EXACT)


def test_without_patience_nobody_is_asked():
    def validate(scorer):
        raise AssertionError("asked")

    fitted(als.Ials.of(factors=4), example(), validate=validate)


def test_a_trace_asks_after_every_sweep_and_changes_nothing():
    asked = []

    def watch(scorer):
        asked.append(scorer.score(example()))
        return {"ndcg@5": float(len(asked)), "recall@5": 0.5}

    model = als.Ials.of(factors=4, iterations=5, tol=0.0)
    scorer, _, _ = fitted(model, example(), watch=watch, validate=lambda _: -1.0)
    assert [entry["ndcg@5"] for entry in scorer.trace] == [1, 2, 3, 4, 5, 6]
    assert all(entry["recall@5"] == 0.5 for entry in scorer.trace)
    alone = fitted(model, example())[0].score(example())
    assert np.array_equal(asked[-1], alone)
    assert np.array_equal(scorer.score(example()), alone)


@separate
def test_items_may_be_solved_last_once_more(model, train):
    model = long(model, 5)
    _, p, q = fitted(model, train)
    scorer, same, better = fitted(changed(model, last="items"), train)
    assert np.allclose(same @ same.T, p @ p.T, **EXACT)  # turned, but the same
    _, slope = gradients(model, dense(train), same, better)
    assert np.abs(slope).max() < 1e-8
    assert not np.allclose(same @ better.T, p @ q.T, rtol=0, atol=1e-3)
    rows = np.arange(len(p), dtype=np.int32)
    assert np.allclose(scorer.score(train, rows), same @ better.T, **EXACT)
    strangers = scorer.base.users(train, np.full(len(p), -1, dtype=np.int32))
    slope, _ = gradients(model, dense(train), strangers, better)
    assert np.abs(slope).max() < 1e-8


@pytest.mark.parametrize("last", ["users", "items"])
@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_models_that_differ_in_sweeps_are_one_fit_and_the_same_to_the_last_bit(solver, tol, last):
    counts = [5, 2, 400, 2, 9] if tol else [5, 2, 12, 2, 9]
    settings = {"factors": 4, "solver": solver, "tol": tol, "last": last}
    grid = [als.Ials.of(iterations=count, **settings) for count in counts]
    assert len({model.family.key(model) for model in grid}) == 1
    told, rows = [], np.arange(example().shape[0], dtype=np.int32)
    context = Context(progress=lambda _, sweep, total: told.append(sweep))
    together = grid[0].family.fit(grid, example(), context)
    assert told == sorted(set(told))
    for model, scorer in zip(grid, together, strict=True):
        alone = model.fit(example(), Context())
        assert np.array_equal(scorer.score(example(), rows), alone.score(example(), rows))
        assert np.array_equal(scorer.score(example()), alone.score(example()))
        without = [{k: v for k, v in e.items() if k != "seconds"} for e in scorer.trace]
        assert without == [{k: v for k, v in e.items() if k != "seconds"} for e in alone.trace]
    sweeps = [scorer.trace[-1]["sweep"] for scorer in together]
    assert sweeps[2] < 400 if tol else sweeps == counts


def test_what_was_reached_before_the_numbers_ran_away_is_kept(monkeypatch):
    halves = []

    def solve(*args, **more):
        halves.append(1)
        if len(halves) > 8:
            raise Diverged
        return normal_solve(*args, **more)

    normal_solve = als.solve
    monkeypatch.setattr(als, "solve", solve)
    early, late = als.Ials.of(factors=4, iterations=3), als.Ials.of(factors=4, iterations=6)
    first, second = early.family.fit([early, late], example(), Context())
    assert isinstance(second, Diverged)
    assert first.trace[-1]["sweep"] == 3
    halves.clear()
    with pytest.raises(Diverged, match="no longer finite; give a larger l2"):
        late.fit(example(), Context())
    monkeypatch.undo()
    assert np.array_equal(first.score(example()), early.fit(example(), Context()).score(example()))


def test_models_that_differ_otherwise_or_stop_by_validation_are_fits_of_their_own():
    base = als.Ials.of(patience=2, iterations=5)
    other = [als.Ials.of(patience=2, iterations=9), als.Ials.of(l2=0.5), als.Ials.of(), Rg2Svd()]
    keys = [model.family.key(model) for model in (base, *other, als.Rg2.of())]
    assert len(set(keys)) == len(keys)


def test_progress_is_told():
    told = []
    model = als.Ials.of(factors=4, iterations=3, tol=0.0)
    fitted(model, example(), progress=lambda *note: told.append(note))
    assert told == [("ials sweeps", sweep, 3) for sweep in range(4)]


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (als.Ials, "factors", 0),
        (als.Ials, "l2", -1.0),
        (als.Ials, "alpha0", -0.1),
        (als.Ials, "l2", float("nan")),
        (als.Ials, "init", 0.0),
        (als.Ials, "nu", -1),
        (als.IalsDebiased, "alpha0", 1.0),
        (als.IalsDebiased, "c", 0.0),
        (als.Wrmf, "alpha", float("nan")),
        (als.Rg2, "alpha", -0.1),
        (als.Rgx, "beta", 1.1),
        (als.Rg2Ssm, "negatives", 0),
        (als.Ials, "popularity", -0.5),
        (als.Mse, "popularity", "much"),
        (als.RgxSsm, "popularity", float("nan")),
        (als.Rg2, "popularity", 0.5),
        (als.MseDebiased, "popularity", 0.5),
        (Rg2Svd, "l2", -1.0),
        (Rg2Svd, "tol", 0.0),
    ],
)
def test_parameters_out_of_range_are_refused(cls, name, value):
    with pytest.raises(UsageError, match=name):
        cls.of(**{name: value})


def test_a_solver_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="did you mean 'exact'"):
        als.Ials.of(solver="exat")


@pytest.mark.parametrize("value", [np.nan, 2.0, -1.0])
@pytest.mark.parametrize("cls", ALL)
def test_a_matrix_of_anything_but_ones_is_refused(cls, value):
    train = example()
    train.data[3] = value
    with pytest.raises(RecbenchError, match="matrix of ones"):
        fitted(cls(), train)


def test_duplicates_are_not_ones():
    twice = sparse.csr_array((np.ones(3), np.array([0, 1, 1]), np.array([0, 1, 3])), shape=(2, 2))
    with pytest.raises(RecbenchError, match=r"holds 2\.0"):
        fitted(als.Ials.of(), twice)


@pytest.mark.parametrize("cls", ALL)
def test_a_matrix_without_rows_or_columns_is_refused(cls):
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(RecbenchError, match="users and items"):
            fitted(cls(), sparse.csr_array(shape, dtype=np.float32))


@pytest.mark.parametrize("cls", ALL)
def test_nothing_observed_recommends_nothing(cls):
    scorer, _, _ = fitted(cls(), sparse.csr_array((4, 3), dtype=np.float32))
    assert not scorer.score(sparse.csr_array((4, 3), dtype=np.float32)).any()


def test_without_penalty_a_low_rank_is_no_obstacle():
    """Data of rank 1: the second direction dies out and gets nothing."""
    data = sparse.csr_array(np.outer([1, 1, 0, 1], [1, 0, 1]).astype(np.float32))
    scorer, _, _ = fitted(als.Wrmf.of(factors=3, l2=0.0, alpha=2.0, iterations=200), data)
    assert np.allclose(scorer.score(data), data.toarray(), atol=1e-6)


def test_without_penalty_and_weights_factors_are_open():
    with pytest.raises(RecbenchError, match="l2 > 0"):
        fitted(als.Ials.of(alpha0=0.0, l2=0.0), example())


def test_numbers_that_run_away_are_an_error_with_advice():
    with pytest.raises(RecbenchError, match="larger l2"):
        fitted(als.Wrmf.of(alpha=1e38), example(), dtype=np.float32)


def test_a_fit_too_large_for_memory_is_declined():
    with pytest.raises(Refused, match="fewer factors"):
        fitted(als.Ials.of(factors=8), example(), memory=1000)


def test_many_numbers_of_sweeps_need_room_for_each():
    alone = als.Ials.of(factors=8)
    grid = [changed(alone, iterations=count) for count in range(1, 9)]
    users, items = example().shape
    room = Context(memory=16 * example().nnz + 2 * 4 * 8 * (users + items))
    alone.fit(example(), room)
    with pytest.raises(Refused, match=r"8 times over needs .* fewer numbers of sweeps at once"):
        alone.family.fit(grid, example(), room)


def test_singular_vectors_need_memory_as_well():
    users, items = example().shape
    factors = 16 * example().nnz + 2 * 4 * 8 * (users + items)
    als.Ials.of(factors=8).fit(example(), Context(memory=factors))
    with pytest.raises(Refused, match="8 factors for 40 users"):
        Rg2Svd(factors=8).fit(example(), Context(memory=factors))


def test_singular_values_of_zero_have_no_say():
    """Fewer users than items and, with each user twice, half as many directions as users."""
    half = example(users=4, items=12).toarray()
    data = sparse.csr_array(np.vstack([half, half]))
    few, many = (fitted(Rg2Svd(factors=count, l2=0.01), data)[0] for count in (4, 8))
    assert np.allclose(few.score(data), many.score(data), **EXACT)
    assert np.abs(few.score(data)).max() > 0.01


def test_singular_vectors_that_cannot_be_had_say_what_to_change():
    data = sparse.random_array((700, 600), density=0.02, rng=np.random.default_rng(0))
    data = sparse.csr_array((data != 0).astype(np.float32))
    with pytest.raises(RecbenchError, match="give a larger tol, or --dtype float64"):
        Rg2Svd(factors=3, tol=1e-15).fit(data, Context(dtype=np.dtype(np.float32)))
