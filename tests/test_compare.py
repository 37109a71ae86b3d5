import numpy as np
import pandas as pd
import pytest
from scipy import stats

from recbench.compare import (
    bootstrap_interval,
    compare,
    find,
    holm,
    permutation_p,
)
from recbench.errors import DataError, UsageError
from recbench.results import Campaign
from toys import trial


def per_user(seed: int, users: int = 400, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    history = np.arange(users) % 17 + 1
    base = np.random.default_rng(99).random(users)  # what makes a user easy or hard
    values = np.clip(base + rng.normal(shift, 0.1, users), 0, 1)
    return pd.DataFrame(
        {"user": np.arange(users), "history": history, "targets": 1, "ndcg@20": values}
    )


def differences(shift: float = 0.02, users: int = 300) -> np.ndarray:
    return np.random.default_rng(5).normal(shift, 0.1, (users, 1))


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
    monkeypatch.setattr("recbench.compare.BLOCK", 1000)
    parts = bootstrap_interval(d, resamples=5000)
    assert np.allclose(whole, parts, atol=2e-3)


def test_without_a_difference_it_rejects_as_often_as_it_says():
    """Type-I error at 5 %: 400 samples of symmetric noise, well inside 4 standard errors."""
    rng = np.random.default_rng(0)
    noise = rng.standard_t(3, size=(60, 400))
    rejected = np.mean(permutation_p(noise, resamples=999) <= 0.05)
    assert rejected <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_a_real_difference_is_found_and_its_direction_named():
    (verdict, *_) = compare(per_user(1, shift=0.05), per_user(2), resamples=2000)
    assert verdict.words == "A is better"
    assert verdict.low > 0
    assert verdict.wins + verdict.ties + verdict.losses == verdict.users == 400
    (verdict, *_) = compare(per_user(1), per_user(2, shift=0.05), resamples=2000)
    assert verdict.words == "B is better"


def test_no_difference_is_not_decisive():
    a = per_user(1)
    verdicts = compare(a, a, resamples=500)
    assert {v.words for v in verdicts} == {"not decisive"}
    assert {(v.p, v.effect, v.low, v.high) for v in verdicts} == {(1.0, 0.0, 0.0, 0.0)}


def test_users_are_judged_by_the_length_of_their_history():
    verdicts = compare(per_user(1), per_user(2), resamples=200)
    everyone, light, heavy = (v.users for v in verdicts)
    assert everyone == 400 == light + heavy
    assert "9" in verdicts[1].group


def test_holms_correction():
    from dataclasses import replace

    a = per_user(1)
    (one, *_) = compare(a, a, resamples=100)
    corrected = holm([replace(one, p=p) for p in (0.04, 0.01, 0.03)])
    assert [v.p_holm for v in corrected] == pytest.approx([0.06, 0.03, 0.06])


def test_other_users_or_other_metrics_cannot_be_compared():
    a = per_user(1)
    with pytest.raises(DataError, match="different users"):
        compare(a, per_user(2, users=399))
    with pytest.raises(DataError, match="different users"):
        compare(a, a.assign(user=a["user"] + 1))
    with pytest.raises(UsageError, match="no metric in common"):
        compare(a, a.rename(columns={"ndcg@20": "hit@1"}))


def test_trials_are_found_by_model_text_or_id(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    for row in (
        trial(1, 0.1),
        trial(2, 0.3),
        trial(1, 0.5, part="test"),
        trial(2, 0.4, part="test"),
    ):
        campaign.record(row)
    assert find(campaign, "ease", "ndcg@20").trial == "t2"
    assert find(campaign, "t1", "ndcg@20").trial == "t1"
    assert find(campaign, "ease[l2=1]", "ndcg@20").trial == "t1"
    with pytest.raises(UsageError, match="did you mean 'ease'"):
        find(campaign, "eas", "ndcg@20")
