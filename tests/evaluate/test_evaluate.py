import numpy as np
import pytest
from scipy import sparse

from recbench.evaluate.evaluate import evaluate, rank
from recbench.evaluate.metrics import parse_metric
from recbench.models.popularity import Constant
from recbench.models.scorers import ItemItem, Scorer
from recbench.splits.types import Part


def part_of(history: np.ndarray, target: np.ndarray) -> Part:
    users = np.arange(len(history), dtype=np.int32)
    shown, held = (sparse.csr_array(block.astype(np.float32)) for block in (history, target))
    return Part(history=shown, target=held, users=users, train_rows=users)


HISTORY = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
TARGET = np.array([[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]])
PART = part_of(HISTORY, TARGET)
TRAIN = sparse.csr_array(HISTORY.astype(np.float32))


def values(scores: list[float], *metrics: str) -> dict[str, list[float]]:
    scorer = Scorer(Constant(np.array(scores, dtype=np.float32)))
    (found,) = evaluate([scorer], PART, TRAIN, [parse_metric(text) for text in metrics])
    return {name: np.atleast_1d(value).tolist() for name, value in found.items()}


def test_values_are_per_user_in_the_order_of_the_part():
    assert values([9, 5, 4, 3, 2, 1], "recall@2", "hit@1") == {
        "recall@2": [1.0, 0.0],
        "hit@1": [1.0, 0.0],
    }


@pytest.mark.parametrize("others", [[], ["recall@3"], ["recall@10"], ["ndcg-ngcf@2"]])
def test_a_constant_scorer_gets_nothing_whatever_else_is_asked(others):
    assert values([0.0] * 6, "recall@2", *others)["recall@2"] == [0.0, 0.0]


@pytest.mark.parametrize("others", [[], ["recall@3"], ["recall@5"], ["recall@100"]])
def test_ties_at_the_top_are_judged_by_each_cutoff_alone(others):
    """Items 1 to 3 tie: the first two of three ties tell nothing, the first three do."""
    found = values([9, 5, 5, 5, 2, 1], "recall@2", *others)
    assert found["recall@2"] == [0.0, 0.0]
    if "recall@3" in others:
        assert found["recall@3"][0] == 1.0


def test_a_single_candidate_is_a_recommendation():
    part = part_of(np.array([[1, 0]]), np.array([[0, 1]]))
    scorer = Scorer(Constant(np.zeros(2, dtype=np.float32)))
    (found,) = evaluate([scorer], part, part.history, [parse_metric("recall@1")])
    assert found["recall@1"].tolist() == [1.0]


def test_a_cutoff_beyond_all_items_asks_for_all_items():
    scorer = Scorer(Constant(np.arange(6, dtype=np.float32)))
    (top,) = rank([scorer], PART, 1_000_000)
    assert top.items.shape == (2, 7)
    assert values([1, 2, 3, 4, 5, 6], "recall@1000000")["recall@1000000"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("history", "scores", "found"),
    [
        ([0, 1, 1, 0, 0], [3, 9, 9, 2, 1], 1.0),
        ([0, 1, 1, 0, 0], [3, 9, 9, 3, 1], 1.0),
        ([0, 1, 1, 1, 0], [3, 9, 9, 9, 1], 1.0),
        ([0, 1, 1, 1, 1], [3, 9, 9, 9, 9], 1.0),
        ([0, 1, 1, 1, 0], [3, 9, 9, 9, 3], 0.0),
    ],
    ids=["three left", "two of three tie", "two left", "one left", "two left and they tie"],
)
def test_a_list_that_ran_out_is_not_a_tie(history, scores, found):
    """Behind the last candidate there is nothing, and nothing is no rival."""
    part = part_of(np.array([history]), np.array([[1, 0, 0, 0, 0]]))
    scorer = Scorer(Constant(np.array(scores, dtype=np.float32)))
    for k in (3, 4, 5):
        metric = parse_metric(f"recall@{k}")
        (values,) = evaluate([scorer], part, part.history, [metric])
        assert values[metric.text].tolist() == [found]


def test_novelty_is_measured_by_the_users_of_the_train_matrix():
    """Of whom there are eight here, and not the two that are recommended to."""
    train = np.zeros((8, 6), dtype=np.float32)
    train[:4, 1] = train[0, 2] = 1
    scorer = Scorer(Constant(np.array([0, 5, 4, 3, 2, 1], dtype=np.float32)))
    metric = parse_metric("novelty@1")
    (found,) = evaluate([scorer], PART, sparse.csr_array(train), [metric])
    assert found["novelty@1"].tolist() == [np.log2(8 / 4), np.log2(8 / 1)]


def test_scorers_of_one_base_give_what_they_give_alone():
    weights = np.random.default_rng(0).random((6, 6))
    base, scale = ItemItem(weights), np.linspace(-1, 1, 6)
    metrics = [parse_metric("ndcg@3"), parse_metric("coverage@2")]
    scorers = [Scorer(base), Scorer(base, scale), Scorer(ItemItem(weights.T.copy())), Scorer(base)]
    together = evaluate(scorers, PART, TRAIN, metrics)
    for scorer, found in zip(scorers, together, strict=True):
        (alone,) = evaluate([scorer], PART, TRAIN, metrics)
        for metric in metrics:
            assert np.array_equal(found[metric.text], alone[metric.text])
