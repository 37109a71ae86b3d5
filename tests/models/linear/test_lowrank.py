"""Low-rank autoencoders against brute force: dense matrices, singular values, an optimiser."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, sparse
from threadpoolctl import threadpool_limits

from recbench.campaign.search.grammar import models_from
from recbench.errors import RecbenchError, Refused, UsageError
from recbench.linalg import eigen
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.contract import CONTRACT, check_model, example
from recbench.models.linear import admm, lae, lowrank
from recbench.models.linear.admm import EdlaeAdmm
from recbench.models.linear.lowrank import DeqlLowRank, LrDlae, LrEdlae1, LrEdlae2
from recbench.params import make
from recbench.registry import MODELS

USERS, ITEMS = 60, 9
TRAIN = example(USERS, ITEMS)
R = TRAIN.toarray().astype(float)
G = R.T @ R
P, L2 = 0.4, 3.0
GAMMA = P / (1 - P) * np.diag(G) + L2
K = G + np.diag(GAMMA)
C = np.linalg.inv(K)
DENOISING = np.eye(ITEMS) - C * GAMMA
EMPHASISED = np.eye(ITEMS) - C / np.diag(C)
CLOSED = [LrDlae, LrEdlae1, LrEdlae2, DeqlLowRank]
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Value and slope at W."""


def fitted(*models: Model, train: sparse.csr_array = TRAIN, dtype=np.float64) -> list:
    return models[0].family.fit(models, train, Context(dtype=dtype))


def matrix_of(model: Model, train: sparse.csr_array = TRAIN) -> np.ndarray:
    """W of a fitted model."""
    return fitted(model, train=train)[0].base.weights()


def truncated(matrix: np.ndarray, k: int) -> np.ndarray:
    left, s, right = np.linalg.svd(matrix)
    return (left[:, :k] * s[:k]) @ right[:k]


def root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T


def lowest(objective: Objective, k: int, starts: int = 4, items: int = ITEMS) -> float:
    """The least value over W of rank k that an optimiser finds from several starts."""

    def flat(x: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = x.reshape(2, items, k)
        value, slope = objective(a @ b.T)
        return value, np.concatenate([(slope @ b).ravel(), (slope.T @ a).ravel()])

    rng = np.random.default_rng(0)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9}
    runs = [
        optimize.minimize(
            flat, 0.3 * rng.standard_normal(2 * items * k), jac=True, method="L-BFGS-B",
            options=options,
        ).fun
        for _ in range(starts)
    ]  # fmt: skip
    return min(runs)


def assert_least(objective: Objective, w: np.ndarray, k: int) -> None:
    """Nothing the optimiser finds is lower, and it finds nothing else."""
    value, best = objective(w)[0], lowest(objective, k)
    assert np.linalg.matrix_rank(w) == k
    assert value <= best * (1 + 1e-9)
    assert value == pytest.approx(best, rel=1e-6)


def penalised(w: np.ndarray) -> tuple[float, np.ndarray]:
    """‖R - RW‖² + ‖Γ^½ W‖²."""
    return ((R - R @ w) ** 2).sum() + (GAMMA @ w**2).sum(), 2 * (K @ w - G)


def hollow_in(gram: np.ndarray, gamma: np.ndarray) -> Objective:
    """‖R - RW‖² + ‖Γ^½ W‖² of W without its diagonal, which is left free."""
    off = ~np.eye(len(gram), dtype=bool)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        missed = np.eye(len(gram)) - w * off
        value = np.sum(missed * (gram @ missed)) + (gamma @ (w * off) ** 2).sum()
        return value, 2 * (gamma[:, np.newaxis] * w - gram @ missed) * off

    return objective


@pytest.mark.parametrize("k", [1, 3, 6])
def test_lr_dlae_minimises_its_objective(k):
    assert_least(penalised, matrix_of(LrDlae(k=k, p=P, l2=L2)), k)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("model", [LrDlae, LrEdlae1])
def test_the_closest_matrix_in_the_data_is_found(model, k):
    """Eckart and Young for K^½ W*."""
    full = DENOISING if model is LrDlae else EMPHASISED
    half = root(K)
    expected = np.linalg.solve(half, truncated(half @ full, k))
    factor = 1 if model is LrDlae else 1 - P
    assert np.allclose(factor * matrix_of(model(k=k, p=P, l2=L2)), expected, atol=1e-10)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_lr_edlae_2_is_a_truncated_decomposition(k):
    found = matrix_of(LrEdlae2(k=k, p=P, l2=L2))
    assert np.allclose((1 - P) * found, truncated(EMPHASISED, k), atol=1e-10)


def test_the_matrices_of_the_directions_are_what_they_are_called():
    system = lowrank.System(TRAIN, P, L2, Context(dtype=np.float64))
    eye = np.eye(ITEMS)
    denoising, emphasised = (lowrank.Target(system, emphasised=one) for one in (False, True))
    assert np.allclose(denoising.in_data(eye), G @ C @ G, rtol=1e-10)
    assert np.allclose(
        denoising.in_data(eye), G - np.diag(GAMMA) + np.diag(GAMMA) @ C @ np.diag(GAMMA), rtol=1e-10
    )
    for target, full in ((denoising, DENOISING), (emphasised, EMPHASISED)):
        assert np.allclose(target.times(eye), full, atol=1e-12)
        assert np.allclose(target.in_data(eye), full.T @ K @ full, atol=1e-10)
        assert np.allclose(target.alone(eye), full.T @ full, atol=1e-12)


@pytest.mark.parametrize("ridge", [L2, 1000.0])
def test_where_penalties_outweigh_the_data_nothing_cancels(ridge):
    """Both ways to multiply with W* are the same matrix."""
    system = lowrank.System(TRAIN, P, ridge, Context(dtype=np.float64))
    assert system.penalised == (ridge == 1000.0)
    eye = np.eye(ITEMS)
    for emphasised in (False, True):
        found = []
        for system.penalised in (False, True):
            target = lowrank.Target(system, emphasised=emphasised)
            found.append([target.times(eye), target.in_data(eye), target.alone(eye)])
        for one, other in zip(*found, strict=True):
            assert np.allclose(one, other, rtol=1e-6, atol=1e-9 * np.abs(one).max())


@pytest.mark.parametrize("model", CLOSED)
@pytest.mark.parametrize("penalty", [1000.0, 10_000.0])
def test_single_precision_has_digits_left_of_a_small_matrix(model, penalty):
    name = "l2_effective" if model is DeqlLowRank else "l2"
    for k in (2, 5):
        chosen = model(k=k, p=P, **{name: penalty})
        single, double = (
            fitted(chosen, dtype=dtype)[0].base.weights() for dtype in (np.float32, np.float64)
        )
        assert np.abs(single - double).max() < 1e-5 * np.abs(double).max()


@pytest.mark.parametrize(
    ("low", "full"),
    [
        (LrDlae(k=ITEMS, p=P, l2=L2), lae.Dlae(p=P, l2=L2)),
        (LrEdlae1(k=ITEMS, p=P, l2=L2), lae.Edlae(p=P, l2=L2)),
        (LrEdlae2(k=ITEMS, p=P, l2=L2), lae.Edlae(p=P, l2=L2)),
        (EdlaeAdmm(k=ITEMS, p=P, l2=L2), lae.Edlae(p=P, l2=L2)),
        (DeqlLowRank(k=ITEMS, p=P, l2=2.0), lae.DeqlL2.of(p=P, a=1, b=1, l2=2.0)),
        (DeqlLowRank(k=ITEMS, p=P, l2_effective=2.0), lae.DeqlL2.of(p=P, b=1, l2_effective=2.0)),
    ],
)
def test_at_full_rank_each_is_its_full_model(low, full):
    (scorer,) = full.family.fit([full], TRAIN, Context(dtype=np.float64))
    assert np.allclose(matrix_of(low), scorer.weights(range(ITEMS)), atol=1e-9)


@pytest.mark.parametrize("k", [1, 4])
def test_low_rank_deql_minimises_the_expected_loss_at_equal_weights(k):
    """E‖R - (Δ ⊙ R) W‖² + λ ‖W‖², Δ keeping an entry with probability q."""
    p, q, l2 = 0.3, 0.7, 2.0
    ridge = p * q * np.diag(np.diag(G)) + l2 * np.eye(ITEMS)

    def expected(w: np.ndarray) -> tuple[float, np.ndarray]:
        value = ((R - q * R @ w) ** 2).sum() + np.sum(w * (ridge @ w))
        return value, 2 * (q * q * G + ridge) @ w - 2 * q * G

    found = matrix_of(DeqlLowRank(k=k, p=p, l2=l2))
    assert_least(expected, found, k)
    kept = np.random.default_rng(0).random((4000, *R.shape)) < q
    sampled = ((R - (kept * R) @ found) ** 2).sum((1, 2)).mean() + l2 * (found**2).sum()
    assert sampled == pytest.approx(expected(found)[0], rel=5e-3)
    lr_dlae = matrix_of(LrDlae(k=k, p=p, l2=l2 / q**2))
    assert np.allclose(found, lr_dlae / q, atol=1e-12)


@pytest.mark.parametrize(
    ("k", "omega"), [(1, 0.0), (2, 0.0), (2, 5.0), pytest.param(3, 0.0, marks=pytest.mark.slow)]
)
def test_admm_minimises_the_objective_it_states(k, omega):
    """Ranks far below the number of items, where the minimum is not at an infinite diagonal."""
    train, p, l2 = example(40, 12), 0.3, 2.0
    gram = train.toarray().astype(float).T @ train.toarray()
    objective = hollow_in(gram, p / (1 - p) * np.diag(gram) + l2)
    (scorer,) = fitted(EdlaeAdmm(k=k, p=p, l2=l2, omega=omega, tolerance=1e-5), train=train)
    found = (1 - p) * scorer.base.weights()
    value = objective(found)[0]
    assert scorer.trace[-1]["objective"] == pytest.approx(value, rel=1e-9)
    assert value == pytest.approx(lowest(objective, k, items=12), rel=1e-8)
    assert value < objective((1 - p) * matrix_of(LrEdlae1(k=k, p=p, l2=l2), train))[0]


def test_the_trace_tells_how_each_round_went():
    (scorer,) = fitted(EdlaeAdmm(k=2, p=P, l2=L2, tolerance=1e-4))
    moved = [max(step["change"], step["gap"]) for step in scorer.trace]
    assert moved[-1] <= 1e-4 < min(moved[:-1])
    assert scorer.trace[-1]["objective"] < scorer.trace[0]["objective"]


def test_rounds_that_run_out_are_an_error_with_advice():
    with pytest.raises(admm.NotSettled, match=r"after 3 rounds W still changes.*raise omega"):
        EdlaeAdmm(k=3, p=P, l2=L2, tolerance=1e-6, rounds=3).fit(TRAIN, Context())


def test_one_that_does_not_settle_leaves_the_others_alone():
    unsettled = EdlaeAdmm(k=3, p=P, l2=L2, tolerance=1e-6, rounds=3)
    group = [LrEdlae1(k=3, p=P, l2=L2), unsettled, EdlaeAdmm(k=2, p=P, l2=L2)]
    before, error, after = fitted(*group)
    assert isinstance(error, admm.NotSettled)
    for model, scorer in ((group[0], before), (group[2], after)):
        assert np.array_equal(scorer.base.weights(), matrix_of(model))


def test_one_inverse_and_one_set_of_directions_of_a_kind_serve_every_rank(monkeypatch):
    inverses, ranks = [], []
    invert, leading = lowrank.invert, eigen.leading
    monkeypatch.setattr(
        lowrank, "invert", lambda *args: inverses.append(args[1:3]) or invert(*args)
    )
    monkeypatch.setattr(
        eigen, "leading", lambda *args, **more: ranks.append(args[2]) or leading(*args, **more)
    )
    names = ["lr-dlae", "lr-edlae-1", "lr-edlae-2", "edlae-admm", "deql-lowrank[l2-effective=3]"]
    grid = models_from(names, sets=["p=0.4", "lr-dlae.l2=3", "lr-edlae-1.l2=3", "lr-edlae-2.l2=3",
                                    "edlae-admm.l2=3"], grids=["k=1,2"])  # fmt: skip
    assert len({model.family.key(model) for model in grid}) == 1
    together = fitted(*grid)
    assert inverses == [(0.4, 3.0)]
    assert ranks == [2, 2, 2]
    for model, scorer in zip(grid, together, strict=True):
        assert np.allclose(scorer.base.weights(), matrix_of(model), atol=1e-12)


def tastes() -> sparse.csr_array:
    """300 items, where few directions are found by a Krylov basis."""
    rng = np.random.default_rng(0)
    taste = rng.random((400, 12)) @ rng.random((12, 300)) ** 8
    return sparse.csr_array((taste > np.quantile(taste, 0.9)).astype(np.float32))


@pytest.mark.parametrize("model", CLOSED)
def test_from_products_alone_the_numbers_are_those_of_the_whole_matrix(model, monkeypatch):
    train = tastes()
    assert not eigen.in_full(300, 6)
    found = matrix_of(model(k=6), train=train)
    monkeypatch.setattr(eigen, "in_full", lambda n, k: True)
    assert np.allclose(found, matrix_of(model(k=6), train=train), atol=1e-6)


def test_directions_are_as_precise_as_the_inverse(monkeypatch):
    asked, leading = [], eigen.leading
    monkeypatch.setattr(
        eigen, "leading", lambda *a, **more: asked.append(more["tolerance"]) or leading(*a, **more)
    )
    for dtype in (np.float32, np.float64):
        LrEdlae1(k=6).fit(tastes(), Context(dtype=dtype))
    assert asked == [pytest.approx(2e-6, rel=0.1), eigen.TOLERANCE]


@pytest.mark.parametrize("model", [*CLOSED, EdlaeAdmm])
def test_single_and_double_precision_agree(model):
    assert MODELS.get(model.name) is model
    (single,) = fitted(model(k=2, p=P), dtype=np.float32)
    (double,) = fitted(model(k=2, p=P))
    assert single.base.items.dtype == np.float32
    assert np.allclose(single.base.weights(), double.base.weights(), atol=2e-3)


@pytest.mark.parametrize("model", [*CLOSED, EdlaeAdmm])
def test_every_model_keeps_the_contract(model):
    for settings in ({}, {"k": 2}):
        results = list(check_model(make(model, settings)))
        assert len(results) == len(CONTRACT.rules)
        assert not [result for result in results if result.problem]


@pytest.mark.parametrize("model", [*CLOSED, EdlaeAdmm])
def test_items_that_nobody_has_get_zeros_and_change_nothing_else(model):
    wide = sparse.csr_array(np.insert(R, [0, 4, ITEMS], 0.0, axis=1).astype(np.float32))
    known = np.flatnonzero(wide.sum(axis=0))
    for settings in [{"k": 2}] + [{"k": 2, "p": 0.5, "l2": 0.0}] * (model in CLOSED):
        found = matrix_of(model(**settings), train=wide)
        assert np.allclose(found[np.ix_(known, known)], matrix_of(model(**settings)), atol=1e-8)
        found[np.ix_(known, known)] = 0.0
        assert np.abs(found).max() < 1e-12


@pytest.mark.parametrize("model", CLOSED)
def test_directions_that_are_equally_good_are_taken_alike(model):
    """Two groups of users and items that do not meet have every direction twice."""
    twice = sparse.csr_array(sparse.block_diag([TRAIN] * 2)).astype(np.float32)
    expected = np.kron(np.eye(2), matrix_of(model(k=3)))
    assert np.allclose(matrix_of(model(k=6), train=twice), expected, atol=1e-8)
    parted = [matrix_of(model(k=5), train=twice) for _ in range(2)]
    assert np.array_equal(*parted)
    assert np.linalg.matrix_rank(parted[0]) == 5


def test_directions_that_are_not_found_are_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(eigen, "CYCLES", 1)
    monkeypatch.setattr(eigen, "basis_size", lambda n, k: k + 16)
    with pytest.raises(eigen.NotConverged, match=r"lower rank, or lower the penalties"):
        fitted(LrEdlae1(k=9), train=tastes())


def test_nothing_to_tie_the_diagonal_with_is_refused():
    with pytest.raises(UsageError, match="omega"):
        EdlaeAdmm(p=0, l2=0)


def test_two_penalties_are_refused():
    with pytest.raises(UsageError, match="not both"):
        DeqlLowRank(l2=1.0, l2_effective=2.0)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (LrDlae, {"k": 0}), (LrDlae, {"p": 1}), (LrEdlae1, {"p": -0.1}), (LrEdlae2, {"l2": -1}),
        (EdlaeAdmm, {"omega": -1}), (EdlaeAdmm, {"tolerance": 0}), (EdlaeAdmm, {"rounds": 0}),
        (DeqlLowRank, {"b": 1}),
    ],
)  # fmt: skip
def test_parameters_without_meaning_are_refused(model, settings):
    with pytest.raises(UsageError, match=rf"parameter.*{next(iter(settings))}"):
        make(model, settings)


def test_what_has_no_inverse_or_no_room_is_an_error_with_advice():
    twins = sparse.csr_array(np.ones((4, 3), dtype=np.float32))
    with pytest.raises(RecbenchError, match="l2"):
        fitted(LrDlae(p=0, l2=0), train=twins)
    with pytest.raises(Refused, match=r"200 directions of 9 items needs .* lower rank"):
        LrDlae().fit(TRAIN, Context(memory=500, dtype=np.float32))


def test_alternating_directions_are_the_same_on_any_number_of_threads():
    train = example(400, 300)
    assert not eigen.in_full(300, 20)
    found = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = EdlaeAdmm(k=20, p=P, l2=L2, omega=5.0, tolerance=0.1)
            found += fitted(model, train=train)
    weights = [scorer.base.weights() for scorer in found]  # one thread's product is not two's
    assert np.linalg.matrix_rank(weights[0]) == 20
    assert all(np.array_equal(weights[0], other) for other in weights[1:])


@pytest.mark.parametrize("cls", [LrDlae, LrEdlae1, LrEdlae2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_penalties_far_beyond_the_data_leave_the_best_directions(cls, dtype):
    """Also in single precision, where W* is a millionth of what I - C diagMat(t) is made of."""
    model = cls(k=4, l2=1e6)
    found = fitted(model, dtype=dtype)[0].base.weights()
    full = lae.Dlae(model.p, 1e6) if cls is LrDlae else lae.Edlae(model.p, 1e6)
    (whole,) = full.family.fit([full], TRAIN, Context(dtype=np.float64))
    wanted = np.asarray(whole.weights(range(ITEMS)))
    least = np.linalg.svd(wanted, compute_uv=False)[4:]
    assert np.linalg.norm(found - wanted) < 1.01 * np.linalg.norm(least)
