from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from recbench.campaign.folder import Campaign
from recbench.errors import DataError, UsageError
from recbench.report.compare import compare, compare_sides, find, view
from toys import trial


def per_user(seed: int, users: int = 400, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    history = np.arange(users) % 17 + 1
    base = np.random.default_rng(99).random(users)  # what makes a user easy or hard
    values = np.clip(base + rng.normal(shift, 0.1, users), 0, 1)
    return pd.DataFrame(
        {"user": np.arange(users), "history": history, "targets": 1, "ndcg@20": values}
    )


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
    everyone, light, heavy = verdicts
    assert [v.group for v in verdicts] == ["all", "light", "heavy"]
    assert everyone.users == 400 == light.users + heavy.users
    table = per_user(1)
    assert light.a == pytest.approx(table.loc[table["history"] <= 9, "ndcg@20"].mean())


def test_groups_of_items_are_judged_over_the_users_who_have_some():
    a, b = per_user(1), per_user(2)
    for side, shift in ((a, 0.2), (b, 0.0)):
        side["tail:ndcg@20"] = np.where(side["user"] < 100, side["ndcg@20"] + shift, np.nan)
        side["head:ndcg@20"] = np.where(side["user"] < 5, 1.0, np.nan)
    *_, tail = compare(a, b, resamples=500)
    assert (tail.group, tail.metric, tail.users) == ("tail", "ndcg@20", 100)
    assert tail.words == "A is better"
    assert tail.low < tail.difference < tail.high
    assert "head" not in {v.group for v in compare(a, b, resamples=500)}, "5 users tell nothing"


def test_a_group_is_judged_as_if_it_had_been_asked_for_alone():
    a, b = per_user(1, shift=0.01), per_user(2)
    (*_, heavy), rows = compare(a, b, resamples=20_000), a["history"] > 9
    (alone, *_) = compare(
        *(side[rows].reset_index(drop=True) for side in (a, b)), seed=1, resamples=20_000
    )
    assert heavy.difference == pytest.approx(alone.difference)
    assert heavy.effect == pytest.approx(alone.effect)
    assert heavy.p == pytest.approx(alone.p, abs=4 * np.sqrt(alone.p / 20_000))
    width = alone.high - alone.low
    assert heavy.low == pytest.approx(alone.low, abs=0.04 * width)
    assert heavy.high == pytest.approx(alone.high, abs=0.04 * width)


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
    assert [row.trial for row in find(campaign, "ease", "ndcg@20")] == ["t2"]
    assert [row.trial for row in find(campaign, "t1", "ndcg@20")] == ["t1"]
    assert [row.trial for row in find(campaign, "ease[l2=1]", "ndcg@20")] == ["t1"]
    with pytest.raises(UsageError, match="did you mean 'ease'"):
        find(campaign, "eas", "ndcg@20")


@pytest.fixture
def seeds(tmp_path) -> Campaign:
    """A model run with two seeds, one run once, and one on another split."""
    campaign = Campaign(tmp_path)
    campaign.create()
    values = [per_user(number) for number in range(3)]
    rows = [
        replace(trial(number, 0.5, seed=number), model="als" if number < 2 else "ease")
        for number in range(3)
    ]
    rows.append(replace(trial(3, 0.5), model="other", split="weak"))
    for row, frame in zip(rows, [*values, values[0]], strict=True):
        for part in ("valid", "test"):
            campaign.record(replace(row, part=part), pa.Table.from_pandas(frame))
    return campaign


def test_seeds_are_averaged_user_by_user(seeds):
    a, b = (find(seeds, name, "ndcg@20") for name in ("als", "ease"))
    assert [row.seed for row in a] == [0, 1]
    (everyone, *_) = compare_sides(seeds, a, b, resamples=200)
    means = [per_user(number)["ndcg@20"] for number in range(3)]
    both = (means[0] + means[1]) / 2
    assert everyone.a == pytest.approx(both.mean())
    assert everyone.wins == (both > means[2]).sum()
    assert "mean of 2 seeds" in view([everyone], a, b).title


def test_other_splits_are_not_compared(seeds):
    with pytest.raises(UsageError, match="toy, strong and toy, weak"):
        compare_sides(seeds, find(seeds, "ease", "ndcg@20"), find(seeds, "other", "ndcg@20"))


def test_what_could_be_two_things_asks_for_the_id(seeds):
    seeds.record(replace(trial(9, 0.6, part="test"), model="ease", dataset="b", text="ease[l2=2]"))
    with pytest.raises(UsageError, match=r"give the id: .*t2 \(toy.*t9 \(b"):
        find(seeds, "ease[l2=2]", "ndcg@20")
    assert find(seeds, "ease[l2=2]", "ndcg@20", dataset="b")[0].trial == "t9"


def test_deleted_per_user_values_are_one_sentence(seeds):
    (row,) = find(seeds, "ease", "ndcg@20")
    seeds.per_user_path(row).unlink()
    with pytest.raises(DataError, match=r"are gone .*--force"):
        compare_sides(seeds, [row], find(seeds, "als", "ndcg@20"))


def test_a_trial_is_not_compared_with_itself(seeds):
    row = find(seeds, "ease", "ndcg@20")
    with pytest.raises(UsageError, match=r"A and B are both ease\[l2=2\]; compare two"):
        compare_sides(seeds, row, find(seeds, "ease[l2=2]", "ndcg@20"))


def test_too_few_users_and_equal_histories_are_asked_about_once():
    few = pd.DataFrame({"user": range(4), "history": [1, 2, 3, 4], "m@5": [0.1, 0.2, 0.3, 0.4]})
    assert [one.group for one in compare(few, few)] == ["all"]
    same = pd.DataFrame({"user": range(50), "history": 7, "m@5": np.linspace(0, 1, 50)})
    assert [one.group for one in compare(same, same)] == ["all"]
