"""Every metric of recbench does what all must; each of these breaks one rule."""

import numpy as np
import pytest

from recbench.evaluate.contract import CONTRACT, check_metric
from recbench.evaluate.metrics import METRICS, parse_metric


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_keeps_the_contract(name):
    results = list(check_metric(METRICS.get(name)))
    assert [f"{one.check}: {one.problem}" for one in results if one.problem] == []
    assert len(results) == len(CONTRACT.rules)


def recall(ranking, k):
    return parse_metric(f"recall@{k}")(ranking)


def endless(ranking, k):
    with np.errstate(divide="ignore", invalid="ignore"):
        return ranking.hit_counts(k) / (ranking.items_at(k) >= 0).sum(axis=1)


def of_somebody(ranking, k):
    return ranking.hit_counts(k)[:4]


def moody(ranking, k, draw=np.random.default_rng(1)):  # noqa: B008 - that is the mistake
    return draw.random(len(ranking))


def writing(ranking, k):
    ranking.hits[:, 0] = True
    return recall(ranking, k)


def relative(ranking, k):
    return recall(ranking, k) / max(recall(ranking, k).max(), 0.1)


def curious(ranking, k):
    return ranking.hits.mean(axis=1)


def errors(ranking, k):
    return 1 - recall(ranking, k)


@pytest.mark.parametrize(
    ("metric", "check", "says"),
    [
        (endless, "A finite number", "gave values that are not finite"),
        (of_somebody, "A finite number", "gave shape (4,) for 30 users"),
        (moody, "The same lists", "asked twice, it gives other numbers"),
        (writing, "The same lists", "`ranking.hits` was changed"),
        (relative, "The number of a user", "alone"),
        (curious, "What stands below", "ranks beyond 3 change it; say how many it looks at"),
        (errors, "More of it is better", "says `chooses = False`"),
    ],
)
def test_what_breaks_a_rule_is_told_which(metric, check, says):
    failed = {one.check: one.problem for one in check_metric(metric) if one.problem}
    (problem,) = [text for name, text in failed.items() if name.startswith(check)]
    assert says in problem
