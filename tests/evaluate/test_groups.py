import numpy as np
import pytest
from scipy import sparse

from recbench.evaluate.groups import by_group, head_and_tail
from recbench.evaluate.metrics import parse_metric
from recbench.evaluate.ranking import build_ranking
from recbench.splits.types import Part


def test_the_head_has_half_of_the_interactions_in_the_fewest_items():
    train = sparse.csr_array(
        np.array([[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 1, 0]])
    )
    groups = head_and_tail(train)  # popularity 4, 1, 2, 1, 0 of 8
    assert groups["head"].tolist() == [True, False, False, False, False]
    assert (groups["tail"] == ~groups["head"]).all()


def slow_recall(items, wanted, k):
    return sum(item in wanted for item in items[:k]) / len(wanted) if wanted else np.nan


@pytest.mark.parametrize("k", [1, 3, 5])
def test_metrics_of_a_group_count_its_items_alone(k):
    rng = np.random.default_rng(k)
    users, n = 40, 12
    target = sparse.csr_array((rng.random((users, n)) < 0.25).astype(np.float32))
    target = sparse.csr_array(
        target.toarray() + np.eye(users, n, dtype=np.float32) > 0, dtype=np.float32
    )
    rows = np.flatnonzero(target.sum(axis=1))
    target = target[rows]
    items = np.array([rng.permutation(n)[:5] for _ in rows], dtype=np.int32)
    items[0, 2:] = -1
    groups = {"odd": np.arange(n) % 2 == 1, "even": np.arange(n) % 2 == 0}
    part = Part(
        sparse.csr_array(target.shape), target, rows.astype(np.int32), rows.astype(np.int32)
    )
    ranking = build_ranking(items, target, np.ones(n, dtype=np.int64), 5)
    metrics = [parse_metric(f"recall@{k}"), parse_metric(f"novelty@{k}")]
    found = by_group(ranking, part, metrics, groups)
    assert set(found) == {f"odd:recall@{k}", f"even:recall@{k}"}, "novelty is not of held-out items"
    for name, parity in (("odd", 1), ("even", 0)):
        wanted = [{i for i in target[[u]].indices if i % 2 == parity} for u in range(len(rows))]
        slow = [slow_recall(items[u].tolist(), wanted[u], k) for u in range(len(rows))]
        assert found[f"{name}:recall@{k}"] == pytest.approx(np.array(slow), nan_ok=True)
