import numpy as np
import pytest
from scipy import stats

from recbench.report.stats import bootstrap_interval, holm, pairwise_p, permutation_p


def differences(shift: float = 0.02, users: int = 300) -> np.ndarray:
    return np.random.default_rng(5).normal(shift, 0.1, (users, 1))


@pytest.mark.slow
def test_the_permutation_test_agrees_with_scipy():
    d = differences(0.01)
    ours = permutation_p(d, resamples=20_000)[0]
    theirs = stats.permutation_test(
        (d[:, 0], np.zeros(len(d))), lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples", n_resamples=20_000, rng=1, vectorized=True,
    ).pvalue  # fmt: skip
    error = 4 * np.sqrt(theirs * (1 - theirs) / 20_000 * 2)
    assert abs(ours - theirs) < error


def test_the_permutation_test_is_exact_where_every_assignment_can_be_listed():
    d = np.array([[0.3], [0.1], [0.2], [-0.1]])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1)
    exact = np.mean(np.abs(signs.T @ d[:, 0]) >= abs(d.sum()) - 1e-12)
    assert permutation_p(d, resamples=50_000)[0] == pytest.approx(exact, abs=0.01)


def test_no_p_is_smaller_than_the_draws_allow():
    """The assignment that was seen is one of 100: as extreme as that, no coins fall."""
    better = np.full((60, 1), 0.1)
    assert permutation_p(better, resamples=99).tolist() == [0.01]
    pairs = pairwise_p(np.stack([better, 0 * better], axis=1), resamples=99)
    assert pairs[1, 0].tolist() == pairs[0, 1].tolist() == [0.01]
    assert permutation_p(0 * better, resamples=99).tolist() == [1.0]


def test_the_interval_agrees_with_scipy():
    d = differences()
    low, high = bootstrap_interval(d, resamples=20_000)
    theirs = stats.bootstrap(
        (d[:, 0],), np.mean, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert low[0] == pytest.approx(theirs.low, abs=0.03 * width)
    assert high[0] == pytest.approx(theirs.high, abs=0.03 * width)


def test_resampling_in_blocks_changes_nothing_but_the_draws(monkeypatch):
    d = differences()
    whole = bootstrap_interval(d, resamples=5000)
    monkeypatch.setattr("recbench.report.stats.BLOCK", 1000)
    parts = bootstrap_interval(d, resamples=5000)
    assert np.allclose(whole, parts, atol=2e-3)


def test_without_a_difference_it_rejects_as_often_as_it_says():
    """Type-I error at 5 %: 400 samples of symmetric noise, well inside 4 standard errors."""
    rng = np.random.default_rng(0)
    noise = rng.standard_t(3, size=(60, 400))
    rejected = np.mean(permutation_p(noise, resamples=999) <= 0.05)
    assert rejected <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_holms_correction():
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])
    assert holm(np.array([0.9, 0.6])) == pytest.approx([1.0, 1.0])


def test_every_two_models_are_tested_as_if_alone():
    values = np.random.default_rng(3).random((200, 4, 2))
    values[:, 1] += 0.05
    p = pairwise_p(values, seed=7, resamples=5000)
    for i in range(4):
        for j in range(i):
            alone = permutation_p(values[:, i] - values[:, j], seed=7, resamples=5000)
            assert p[i, j] == pytest.approx(alone, abs=0.03)
            assert np.array_equal(p[i, j], p[j, i])
    assert (np.diagonal(p) == 1).all()


def test_users_without_a_value_are_not_in_the_sample():
    """The columns of a ragged table against the same columns cut to their own users."""
    d = np.random.default_rng(2).normal(0.02, 0.1, (500, 2))
    d[100:, 1] = np.nan
    low, high = bootstrap_interval(d, resamples=20_000)
    own = stats.bootstrap(
        (d[:100, 1],), np.mean, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    width = own.high - own.low
    assert low[1] == pytest.approx(own.low, abs=0.04 * width)
    assert high[1] == pytest.approx(own.high, abs=0.04 * width)
    p = permutation_p(d, resamples=20_000)[1]
    alone = permutation_p(d[:100, 1:], seed=1, resamples=20_000)[0]
    assert p == pytest.approx(alone, abs=4 * np.sqrt(2 * alone / 20_000))


@pytest.mark.parametrize("users", [1, 2, 7, 40])
def test_few_users_are_drawn_with_replacement_too(users):
    """The spread of resampled means is that of draws with replacement: s / sqrt(n)."""
    d = np.random.default_rng(users).normal(size=(users, 1))
    low, high = bootstrap_interval(d, resamples=20_000)
    theirs = np.random.default_rng(0).choice(d[:, 0], (20_000, users)).mean(axis=1)
    expected = np.quantile(theirs, [0.025, 0.975])
    room = 0.06 * (expected[1] - expected[0]) + 1e-12
    assert [low[0], high[0]] == pytest.approx(expected, abs=room)
