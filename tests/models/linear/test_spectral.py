"""Every spectral model against the objective it says it minimises, and a numerical optimiser."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, sparse
from threadpoolctl import threadpool_limits

from recbench.campaign.search.grammar import models_from
from recbench.errors import DataError, Refused, UsageError
from recbench.linalg import eigen
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.contract import CONTRACT, check_model, example
from recbench.models.linear import spectral, subspace
from recbench.models.linear.spectral import (
    Lrr,
    LrrWeighted,
    MfDropout,
    MfSorted,
    RegularizedPca,
    Vlae,
    Wlae,
    induced_rank,
    nuclear_weights,
    weights,
)
from recbench.models.scorers import Query
from recbench.params import make
from recbench.registry import MODELS

USERS, ITEMS = 30, 8
TRAIN = example(USERS, ITEMS)
R = TRAIN.toarray().astype(float)
SIGMA = np.linalg.svd(R, compute_uv=False)
V = np.linalg.svd(R)[2].T
EVERY = [RegularizedPca, MfDropout, Vlae, Wlae, Lrr, LrrWeighted, MfSorted]
Objective = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def fitted(*models: Model, train: sparse.csr_array = TRAIN) -> list:
    return models[0].family.fit(models, train, Context(dtype=np.float64))


def matrix_of(model: Model, train: sparse.csr_array = TRAIN) -> np.ndarray:
    """W of a fitted model."""
    return fitted(model, train=train)[0].base.weights()


def lowest(objective: Objective, rows: int, columns: int, rank: int) -> float:
    """The least value that an optimiser finds from several starts."""

    def flat(x: np.ndarray) -> tuple[float, np.ndarray]:
        p, q = x[: rows * rank].reshape(rows, rank), x[rows * rank :].reshape(columns, rank)
        value, by_p, by_q = objective(p, q)
        return value, np.concatenate([by_p.ravel(), by_q.ravel()])

    rng = np.random.default_rng(0)
    runs = [
        optimize.minimize(
            flat, rng.standard_normal((rows + columns) * rank), jac=True, method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9},
        ).fun
        for _ in range(3)
    ]  # fmt: skip
    return min(runs)


def penalised(penalties: np.ndarray, given: np.ndarray = R) -> Objective:
    """‖R - PQᵀ‖² + Σ λ_i (‖p_i‖² + ‖q_i‖²)."""

    def objective(p, q):
        missed = p @ q.T - given
        value = (missed**2).sum() + (penalties * ((p**2).sum(0) + (q**2).sum(0))).sum()
        return value, 2 * (missed @ q + penalties * p), 2 * (missed.T @ p + penalties * q)

    return objective


def regression(ridge: np.ndarray) -> Objective:
    """‖R - RABᵀ‖² + tr W' ridge W for W = ABᵀ."""
    gram = R.T @ R

    def objective(a, b):
        w = a @ b.T
        slope = 2 * ((gram + ridge) @ w - gram)
        return ((R - R @ w) ** 2).sum() + np.sum(w * (ridge @ w)), slope @ b, slope.T @ a

    return objective


def split(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """P and Q of equal size with PQᵀ = A."""
    left, s, right = np.linalg.svd(matrix)
    return left[:, :rank] * np.sqrt(s[:rank]), right[:rank].T * np.sqrt(s[:rank])


def assert_least(objective: Objective, solution: tuple[np.ndarray, np.ndarray]) -> None:
    """Nothing the optimiser finds is lower, and it finds nothing else."""
    value = objective(*solution)[0]
    best = lowest(objective, len(solution[0]), len(solution[1]), solution[0].shape[1])
    assert value <= best * (1 + 1e-9)
    assert value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("k", "l2"), [(2, 1.0), (4, 2.2), (ITEMS, 3.0)])
def test_regularized_pca_minimises_its_objective(k, l2):
    model = RegularizedPca(k=k, l2=l2)
    assert_least(penalised(np.full(k, l2)), split(R @ matrix_of(model), k))


@pytest.mark.parametrize(("k", "l2", "power"), [(3, 0.3, 1.5), (ITEMS, 0.1, 2.0), (4, 0.002, 3.2)])
def test_a_power_of_the_nuclear_norm_is_minimised(k, l2, power):
    def objective(p, q):  # half the squares of factors of equal size are the nuclear norm
        missed, norm = p @ q.T - R, ((p**2).sum() + (q**2).sum()) / 2
        slope = 2 * l2 * power * norm ** (power - 1)
        value = (missed**2).sum() + 2 * l2 * norm**power
        return value, 2 * missed @ q + slope * p, 2 * missed.T @ p + slope * q

    model = RegularizedPca(k=k, l2=l2, norm_power=power)
    assert_least(objective, split(R @ matrix_of(model), k))


@pytest.mark.parametrize("p", [0.9, 0.99])
def test_the_square_of_the_nuclear_norm_is_dropout(p):
    squared = RegularizedPca(k=ITEMS, l2=(1 - p) / (2 * p), norm_power=2.0)
    np.testing.assert_allclose(matrix_of(squared), matrix_of(MfDropout(p=p)), atol=1e-12)


def test_without_a_penalty_no_power_shrinks_anything():
    assert (RegularizedPca(k=3, l2=0.0, norm_power=2.0).shrink(SIGMA[:3]) == 1.0).all()


@pytest.mark.parametrize("c", [2.0, 6.0])
def test_vlae_minimises_its_objective_whatever_the_order_of_its_weights(c):
    k = 4
    solution = split(R @ matrix_of(Vlae(k=k, c=c)), k)
    assert_least(penalised(c / SIGMA[:k]), solution)
    best = lowest(penalised((c / SIGMA[:k])[::-1]), USERS, ITEMS, k)
    assert best == pytest.approx(penalised(c / SIGMA[:k])(*solution)[0], rel=1e-6)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_wlae_minimises_its_objective(power):
    k, l2 = 3, 1.5
    penalties = weights(SIGMA[:k], l2, power)
    gram = R.T @ R

    def objective(a, b):
        w = a @ b.T
        slope = 2 * (gram @ w - gram)
        value = ((R - R @ w) ** 2).sum() + (penalties * ((a**2).sum(0) + (b**2).sum(0))).sum()
        return value, slope @ b + 2 * penalties * a, slope.T @ a + 2 * penalties * b

    assert_least(objective, split(matrix_of(Wlae(k=k, l2=l2, power=power)), k))


def numbers_in(path, numbers) -> str:
    path.write_text("\n".join(map(str, numbers)))
    return str(path)


LISTED = np.array([2.0, 0.5, 1.5])


def test_vlae_minimises_its_objective_with_weights_from_a_file(tmp_path):
    """In whatever order, λ_i = c times the numbers."""
    model = make(Vlae, {"k": 3, "c": 1.5, "weights": numbers_in(tmp_path / "λ", LISTED)})
    assert_least(penalised(1.5 * LISTED[[1, 2, 0]]), split(R @ matrix_of(model), 3))
    best = lowest(penalised(1.5 * LISTED), USERS, ITEMS, 3)
    found = penalised(1.5 * LISTED[[1, 2, 0]])(*split(R @ matrix_of(model), 3))[0]
    assert best == pytest.approx(found, rel=1e-6)


def test_wlae_minimises_its_objective_with_weights_from_a_file(tmp_path):
    model = make(Wlae, {"k": 3, "l2": 1.5, "weights": numbers_in(tmp_path / "λ", LISTED)})
    gram, penalties = R.T @ R, 1.5 * np.sort(LISTED)

    def objective(a, b):
        w = a @ b.T
        slope = 2 * (gram @ w - gram)
        value = ((R - R @ w) ** 2).sum() + (penalties * ((a**2).sum(0) + (b**2).sum(0))).sum()
        return value, slope @ b + 2 * penalties * a, slope.T @ a + 2 * penalties * b

    assert_least(objective, split(matrix_of(model), 3))


def test_weighted_lrr_minimises_its_objective_with_weights_from_a_file(tmp_path):
    own = np.linspace(0.2, 3.0, ITEMS)[np.random.default_rng(3).permutation(ITEMS)]
    settings = {"k": ITEMS, "l2": 2.0, "weights": numbers_in(tmp_path / "λ", own)}
    w, gram = matrix_of(make(LrrWeighted, settings)), R.T @ R
    assert np.allclose(w, np.linalg.solve(gram + (V * 2.0 * own) @ V.T, gram))


def test_another_file_of_weights_is_another_trial(tmp_path):
    place = tmp_path / "λ"
    model = make(LrrWeighted, {"k": 2, "weights": numbers_in(place, LISTED)})
    assert "weights" not in LrrWeighted(k=2).text
    assert make(LrrWeighted, model.values()) == model
    numbers_in(place, LISTED + 1)
    with pytest.raises(DataError, match="not the file that gave those results"):
        fitted(model)
    assert make(LrrWeighted, {"k": 2, "weights": str(place)}).text != model.text
    for text, words in (("1 2 x", "numbers alone"), ("1 -2", "from 0 on"), ("1 nan", "from 0 on")):
        place.write_text(text)
        with pytest.raises(DataError, match=words):
            make(Vlae, {"weights": str(place)})
    with pytest.raises(DataError, match="cannot be read"):
        make(Wlae, {"weights": str(tmp_path / "nowhere")})
    short = make(Wlae, {"k": 5, "weights": numbers_in(place, LISTED)})
    with pytest.raises(UsageError, match="3 numbers, and 5 are needed"):
        fitted(short)


@pytest.mark.parametrize("p", [0.3, 0.7, 0.9, 0.97])
def test_mf_dropout_minimises_its_objective(p):
    """‖R - A‖² + (1-p)/p ‖A‖_*², where ‖A‖_* is the least (‖P‖² + ‖Q‖²) / 2."""
    strength = (1 - p) / p

    def objective(a, b):
        missed, half = a @ b.T - R, ((a**2).sum() + (b**2).sum()) / 2
        slope = 2 * strength * half
        value = (missed**2).sum() + strength * half**2
        return value, 2 * missed @ b + slope * a, 2 * missed.T @ a + slope * b

    assert_least(objective, split(R @ matrix_of(MfDropout(p=p)), ITEMS))


@pytest.mark.parametrize("p", [0.5, pytest.param(0.9, marks=pytest.mark.slow)])
def test_mf_dropout_is_what_dropping_factors_does(p):
    """E‖R - P diag(z) Qᵀ / θ‖², z kept with θ = p / (d - (d-1) p), for d factors in all."""
    d = ITEMS
    theta = p / (d - (d - 1) * p)

    def objective(a, b):
        missed, size_a, size_b = a @ b.T - R, (a**2).sum(0), (b**2).sum(0)
        strength = (1 - theta) / theta  # the variance of z / θ
        value = (missed**2).sum() + strength * (size_a * size_b).sum()
        by_a = 2 * missed @ b + 2 * strength * size_b * a
        return value, by_a, 2 * missed.T @ a + 2 * strength * size_a * b

    drawn = np.random.default_rng(0).random((20_000, d)) < theta
    a, b = np.random.default_rng(1).random((5, d)), np.random.default_rng(2).random((4, d))
    samples = np.einsum("uk,sk,ik->sui", a, drawn / theta, b) - (a @ b.T)
    noise = (1 - theta) / theta * ((a**2).sum(0) * (b**2).sum(0)).sum()
    assert (samples**2).sum((1, 2)).mean() == pytest.approx(noise, rel=0.05)
    found = R @ matrix_of(MfDropout(p=p))
    value = ((R - found) ** 2).sum() + (1 - p) / p * np.linalg.svd(found)[1].sum() ** 2
    assert lowest(objective, USERS, ITEMS, d) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9, 0.99, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0, 3.0])
def test_the_induced_rank_is_the_largest_that_fulfils_the_lemma(p, decay):
    sigma = 100.0 / np.arange(1, 51) ** decay
    fulfilled = []
    for d in range(1, 51):
        threshold = (1 - p) / (p + (1 - p) * d) * sigma[:d].sum()
        if sigma[d - 1] > threshold:
            fulfilled.append((d, threshold))
    assert [d for d, _ in fulfilled] == list(range(1, len(fulfilled) + 1))
    assert induced_rank(sigma, p) == pytest.approx(fulfilled[-1])


@pytest.mark.parametrize(("k", "l2"), [(2, 0.5), pytest.param(5, 20.0, marks=pytest.mark.slow)])
def test_lrr_minimises_its_objective(k, l2):
    found = matrix_of(Lrr(k=k, l2=l2))
    assert_least(regression(l2 * np.eye(ITEMS)), split(found, k))


@pytest.mark.parametrize(
    "power",
    [
        pytest.param(-4.0, marks=pytest.mark.slow),
        -1.0,
        1.0,
        pytest.param(4.0, marks=pytest.mark.slow),
    ],
)
def test_weighted_lrr_minimises_its_objective(power):
    k, l2 = 3, 5.0
    ridge = (V * weights(SIGMA, l2, power)) @ V.T
    assert_least(regression(ridge), split(matrix_of(LrrWeighted(k=k, l2=l2, power=power)), k))


def test_lrr_at_full_rank_is_ridge_regression():
    gram = R.T @ R
    expected = np.linalg.solve(gram + 7 * np.eye(ITEMS), gram)
    assert np.allclose(matrix_of(Lrr(k=ITEMS, l2=7.0)), expected, rtol=1e-10)
    assert np.allclose(matrix_of(LrrWeighted(k=ITEMS, l2=7.0, power=0)), expected, rtol=1e-10)


def test_uniform_wlae_is_vlae():
    """λ_i = c / σ_i lowers σ_i² by c."""
    assert np.allclose(matrix_of(Vlae(k=5, c=4.0)), matrix_of(Wlae(k=5, l2=4.0, power=0)))


def ridge_weights(sigma: np.ndarray, thresholds: np.ndarray | float) -> np.ndarray:
    """The ridge penalties that shrink as thresholds below σ do: the way back."""
    return thresholds * sigma**2 / (sigma - thresholds)


def test_ridge_penalties_and_thresholds_map_onto_each_other():
    """Proposition 1 of the landscape paper, both ways."""
    sigma = np.linspace(20, 0.5, 40)
    for penalties in (np.full(40, 9.0), 30 / sigma, np.linspace(1, 50, 40)):
        thresholds = nuclear_weights(sigma, penalties)
        assert (thresholds < sigma).all()
        assert np.allclose(spectral.soft(sigma, thresholds), spectral.ridge(sigma, penalties))
        assert np.allclose(ridge_weights(sigma, thresholds), penalties)


def test_equal_penalties_of_one_side_are_in_reverse_order_on_the_other():
    """As σ falls, a ridge's thresholds rise to √λ and then fall: the order sorting destroys.

    The other way round, one threshold for all is a ridge that grows with σ beyond 2 μ.
    """
    sigma, l2 = np.linspace(30, 0.1, 200), 25.0
    slope = np.diff(nuclear_weights(sigma, l2))
    assert (slope[sigma[1:] > 5] > 0).all()
    assert (slope[sigma[:-1] < 5] < 0).all()
    strong = sigma[sigma > 2 * 3.0]
    assert (np.diff(ridge_weights(strong, 3.0)) < 0).all()


def test_sorting_changes_nothing_above_the_root_of_the_penalty_and_hurts_below():
    above = 0.9 * SIGMA[-1] ** 2
    assert np.allclose(
        matrix_of(MfSorted(k=ITEMS, l2=above, power=0)), matrix_of(Lrr(k=ITEMS, l2=above))
    )
    inside = SIGMA[ITEMS // 2] ** 2
    shrunk = MfSorted(k=ITEMS, l2=inside, power=0).shrink(SIGMA)
    ridged = Lrr(k=ITEMS, l2=inside).shrink(SIGMA)
    kept = shrunk > 0
    assert kept[: ITEMS // 2].all()
    assert (np.diff((SIGMA * (1 - shrunk))[kept]) >= -1e-12).all()
    assert (np.diff(SIGMA * (1 - ridged)) < 0).any()
    # Both miss R by Σ μ_i², whose order does not matter; what order costs is the penalty.
    missed = [(SIGMA**2 * (1 - h) ** 2).sum() for h in (shrunk, ridged)]
    assert missed[0] == pytest.approx(missed[1], rel=1e-12)
    assert (shrunk**2).sum() > 1.001 * (ridged**2).sum()


def test_one_decomposition_serves_every_model_rank_and_penalty(monkeypatch):
    calls = []
    real = eigen.leading
    monkeypatch.setattr(
        eigen, "leading", lambda *args, **more: calls.append(args[2]) or real(*args, **more)
    )
    names = ["regularized-pca", "vlae", "wlae", "lrr", "lrr-weighted", "mf-sorted"]
    for model in EVERY:
        assert MODELS.get(model.name) is model
    grid = models_from(names, grids=["k=1,2,5", "lrr.l2=1:100:log4"]) + models_from(["mf-dropout"])
    assert len(grid) == 28
    assert len({model.family.key(model) for model in grid}) == 1
    together = fitted(*grid)
    assert calls == [ITEMS]
    for model, scorer in zip(grid, together, strict=True):
        assert np.allclose(scorer.base.weights(), matrix_of(model), atol=1e-12)


def tastes(count: int) -> sparse.csr_array:
    """300 items, where few pairs are found by a Krylov basis."""
    rng = np.random.default_rng(0)
    taste = rng.random((400, count)) @ rng.random((count, 300)) ** 8
    return sparse.csr_array((taste > np.quantile(taste, 0.9)).astype(np.float32))


def test_from_products_alone_the_numbers_are_those_of_the_whole_matrix(monkeypatch):
    """Dropout asks for more twice."""
    train = tastes(60)
    models = [RegularizedPca(k=10, l2=3.0), MfDropout(p=0.9), Lrr(k=5, l2=10.0)]
    monkeypatch.setattr(spectral, "FIRST", 2)
    calls = []
    real = eigen.leading
    monkeypatch.setattr(
        eigen, "leading", lambda *args, **more: calls.append(args[2]) or real(*args, **more)
    )
    assert not eigen.in_full(300, 20)
    scorers = fitted(*models, train=train)
    assert calls == [10, 20]
    monkeypatch.setattr(eigen, "in_full", lambda n, k: True)
    for scorer, other in zip(scorers, fitted(*models, train=train), strict=True):
        assert scorer.facts == other.facts
        assert np.allclose(scorer.base.weights(), other.base.weights(), atol=1e-7)


@pytest.mark.parametrize("model", EVERY)
def test_every_model_keeps_the_contract(model):
    """Away from its defaults, which test_contract.py puts through it."""
    results = list(check_model(make(model, {"k": 3} if model is not MfDropout else {"p": 0.6})))
    assert len(results) == len(CONTRACT.rules)
    assert not [result for result in results if result.problem]


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_a_rank_beside_larger_ones_is_what_it_is_alone_but_for_the_last_digits(dtype, most):
    """Where directions are found by iterations, for the largest rank: docs/spectral.md."""
    train = example(users=600, items=400)
    models = [Lrr(k=8, l2=3.0), Lrr(k=9, l2=3.0), Lrr(k=40, l2=3.0)]
    assert not eigen.in_full(400, 40)
    context = Context(dtype=dtype)
    alone, *rest = (Lrr.family.fit([models[0], *more], train, context)[0].score(train)
                    for more in ([], models[1:2], models[2:]))  # fmt: skip
    for beside in rest:
        assert np.abs(beside - alone).max() <= most * np.abs(alone).max()


def test_a_rank_beyond_the_data_is_the_rank_of_the_data():
    doubled = sparse.csr_array(np.repeat(R, 2, axis=1).astype(np.float32))
    (scorer,) = fitted(Lrr(k=12, l2=3.0), train=doubled)
    assert scorer.facts == {"induced rank": ITEMS}
    (same,) = fitted(Lrr(k=ITEMS, l2=3.0), train=doubled)
    assert np.array_equal(scorer.base.weights(), same.base.weights())


@pytest.mark.parametrize("model", EVERY)
def test_items_that_nobody_has_get_zeros_and_change_nothing_else(model):
    wide = sparse.csr_array(np.insert(R, [0, 3, ITEMS], 0.0, axis=1).astype(np.float32))
    known = np.flatnonzero(wide.sum(axis=0))
    found = matrix_of(model(), train=wide)
    assert np.allclose(found[np.ix_(known, known)], matrix_of(model()), atol=1e-10)
    found[np.ix_(known, known)] = 0.0
    assert np.abs(found).max() < 1e-14


def alike(groups: int) -> sparse.csr_array:
    """Groups of users and items that do not meet: every singular value comes so many times."""
    return sparse.csr_array(sparse.block_diag([TRAIN] * groups)).astype(np.float32)


@pytest.mark.parametrize("model", EVERY)
def test_repeated_singular_values_are_shrunk_alike(model):
    """At ranks that do not part equal values the groups know nothing of each other."""
    for k in (1, 3, ITEMS):
        settings = {"p": 0.9} if model is MfDropout else {"k": 4 * k}
        found = matrix_of(model(**settings), train=alike(4))
        block = found[:ITEMS, :ITEMS]
        assert np.allclose(found, np.kron(np.eye(4), block), atol=1e-9)
        if model is not MfDropout:
            assert np.allclose(block, matrix_of(model(k=k)), atol=1e-9)


@pytest.mark.parametrize("groups", [4, 40])
def test_a_rank_that_parts_equal_singular_values_is_decided_by_the_data_alone(groups):
    """Once from the whole matrix, once from products."""
    assert eigen.in_full(groups * ITEMS, 6) == (groups == 4)
    found = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(matrix_of(RegularizedPca(k=6, l2=1.0), train=alike(groups)))
    assert np.linalg.matrix_rank(found[0]) == 6
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_singular_values_that_are_not_found_are_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(eigen, "CYCLES", 1)
    monkeypatch.setattr(eigen, "basis_size", lambda n, k: k + 16)
    with pytest.raises(eigen.NotConverged, match=r"9 largest eigenvalues of 300 .* a lower rank"):
        fitted(Lrr(k=9), train=tastes(60))


def test_directions_that_were_shrunk_to_nothing_cost_nothing():
    (scorer,) = fitted(RegularizedPca(k=ITEMS, l2=(SIGMA[2] + SIGMA[3]) / 2))
    assert scorer.facts == {"induced rank": 3}
    assert scorer.base.items.shape == (ITEMS, 3)


def test_the_induced_rank_is_reported():
    (scorer,) = fitted(MfDropout(p=0.9))
    assert scorer.facts == {"induced rank": induced_rank(SIGMA, 0.9)[0]}
    assert np.linalg.matrix_rank(scorer.base.weights()) == scorer.facts["induced rank"]


def test_nobody_having_anything_is_no_reason_to_fail():
    nothing = sparse.csr_array(np.zeros((5, 4), dtype=np.float32))
    for model in EVERY:
        assert not matrix_of(model(), train=nothing).any()


def test_scores_and_rankings_follow_the_history_they_are_asked_for():
    """Coordinates are kept for one history at a time."""
    one, other = fitted(Lrr(k=3, l2=2.0), Lrr(k=5, l2=9.0))
    rows, none = np.arange(USERS, dtype=np.int32), sparse.csr_array((USERS, ITEMS))
    flipped = sparse.csr_array(TRAIN[::-1])
    for scorer in (one, other, one):
        for history in (TRAIN, flipped):
            dense = history.toarray() @ scorer.base.weights()
            assert np.allclose(scorer.score(history), dense, atol=1e-12)
            (top,) = scorer.base.top(Query(history, rows, none, ITEMS))
            assert np.allclose(np.sort(dense)[:, ::-1], top.scores, atol=1e-12)


def test_coordinates_too_large_to_keep_are_computed_in_blocks(monkeypatch):
    rows, none = np.arange(USERS, dtype=np.int32), sparse.csr_array((USERS, ITEMS))
    (scorer,) = fitted(Lrr(k=3, l2=2.0))
    (kept,) = scorer.base.top(Query(TRAIN, rows, none, 4))
    monkeypatch.setattr(subspace, "KEPT_BYTES", 10)
    (scorer,) = fitted(Lrr(k=3, l2=2.0))
    assert scorer.base.shrunk.subspace.keep(TRAIN) is None
    (blocks,) = scorer.base.top(Query(TRAIN, rows, none, 4))
    assert np.array_equal(kept.items, blocks.items)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (Lrr, {"k": 0}), (Lrr, {"k": 2.5}), (Lrr, {"l2": -1}), (Lrr, {"l2": "nan"}),
        (MfDropout, {"p": 0}), (MfDropout, {"p": 1}), (MfDropout, {"k": 3}),
        (Wlae, {"power": -1}), (LrrWeighted, {"power": -5}), (Vlae, {"c": "much"}),
    ],
)  # fmt: skip
def test_parameters_without_meaning_are_refused(model, settings):
    with pytest.raises(UsageError, match=rf"parameter.*{next(iter(settings))}"):
        make(model, settings)


def test_what_does_not_fit_in_memory_is_refused():
    with pytest.raises(Refused, match=r"8 of 8 singular vectors needs .* lower rank"):
        Lrr().fit(TRAIN, Context(memory=10))
