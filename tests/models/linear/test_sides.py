"""Whatever goes through the inverse is the same from the side of the items and of the users."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.campaign.search.grammar import models_from
from recbench.errors import RecbenchError
from recbench.evaluate.evaluate import evaluate
from recbench.evaluate.metrics import parse_metric
from recbench.linalg.types import Indices
from recbench.models.context import Context
from recbench.models.linear import inverse
from recbench.models.linear.lae import LinearAutoencoders
from recbench.models.linear.lowrank import LowRankAutoencoders
from recbench.models.linear.userside import UserSide
from recbench.models.save import People, Recommender, load
from recbench.models.scorers import Query
from recbench.registry import MODELS
from recbench.splits.types import Part

USERS, ITEMS = 40, 60
COSTS = {"items": {"items": 0.0, "users": 1.0}, "users": {"items": 1.0, "users": 0.0}}
FAMILIES = (LinearAutoencoders, LowRankAutoencoders)


def family(name):
    """What fits the models of that name."""
    return MODELS.get(name).family


MEMBERS = sorted(name for name in MODELS.names() if isinstance(family(name), FAMILIES))
SETTINGS = {
    "ease": ["ease[l2=3]", "ease[l2=30]"],
    "edlae-admm": ["edlae-admm[k=8,omega=10,tolerance=1e-05]"],
    "deql": ["deql[p=0.4,b=0.5]", "deql[p=0.4,b=1.5]"],
    "rlae": ["rlae[l2=3,xi=0.1]", "rlae[l2=3,xi=0.6]"],
} | {name: [f"{name}[k=8]", f"{name}[k=30]"] for name in MEMBERS if "lowrank" in name or
     name.startswith("lr-")}  # fmt: skip
"""A few settings that share an inverse, where defaults are not it."""


def train() -> sparse.csr_array:
    """One user and one item without interactions, and one item that most users have."""
    rng = np.random.default_rng(5)
    tastes = np.equal.outer(np.arange(USERS) % 3, np.arange(ITEMS) % 3)
    dense = rng.random((USERS, ITEMS)) < np.where(tastes, 0.4, 0.05)
    dense[:30, 7] = True
    dense[3] = dense[:, 5] = False
    return sparse.csr_array(dense.astype(np.float32))


def query(k: int = 10) -> Query:
    """The users, of whom one comes with another history, and strangers: one has nothing."""
    matrix = train()
    others = sparse.csr_array(matrix[[0, 1, 2, 3]][:, ::-1])
    history = sparse.csr_array(sparse.vstack([matrix, others]))
    rows: Indices = np.concatenate([np.arange(USERS), np.full(4, -1)]).astype(np.int32)
    rows[9] = 10
    return Query(history, rows, history, k)


def fitted(monkeypatch, side, texts, dtype=np.float64, **context):
    monkeypatch.setattr(inverse, "_costs", lambda *_: COSTS[side])
    models = models_from(texts)
    ctx = Context(dtype=dtype, **context)
    groups = {model.family.key(model): [] for model in models}
    for model in models:
        groups[model.family.key(model)].append(model)
    return [one for some in groups.values() for one in some[0].family.fit(some, train(), ctx)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MEMBERS)
def test_scores_and_lists_are_those_of_the_other_side(monkeypatch, name, dtype):
    asked, everybody = query(), []
    for side in COSTS:
        scorers = fitted(monkeypatch, side, SETTINGS.get(name, [name]), dtype)
        seen = asked.history.toarray() > 0
        tops = [one.base.top(asked, [one.scale])[0] for one in scorers]
        scores = [one.score(asked.history, asked.rows) for one in scorers]
        everybody.append(([np.where(seen, 0, block) for block in scores], tops))
    (items, item_tops), (users, user_tops) = everybody
    for one, other, top, other_top in zip(items, users, item_tops, user_tops, strict=True):
        size = np.abs(one).max()
        assert np.abs(one - other).max() < 1e-5 * size
        assert np.allclose(top.scores, other_top.scores, atol=1e-5 * size)
        # Where scores are as near as that, the order may be either.
        clear = np.diff(top.scores, axis=1, append=-np.inf) < -1e-4 * size
        apart = clear & np.roll(clear, 1, axis=1)
        assert np.array_equal(top.items[apart], other_top.items[apart])
        assert apart.mean() > 0.5


@pytest.mark.parametrize("name", [n for n in MEMBERS if isinstance(family(n), LinearAutoencoders)])
def test_weights_are_those_of_the_other_side(monkeypatch, name):
    pairs = [
        fitted(monkeypatch, side, SETTINGS.get(name, [name]))[0].weights([0, 5, 59, 7])
        for side in COSTS
    ]
    assert np.allclose(*pairs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_metrics_agree_to_four_digits_in_single_precision(monkeypatch, p):
    """Half of the users were not trained on; the penalty is as low as it is searched for."""
    dense = np.random.default_rng(0).random((300, 400)) < np.linspace(0.01, 0.3, 400) ** 2
    first = np.random.default_rng(1).random(dense.shape) < 0.5
    target, history = (
        sparse.csr_array((dense & mask).astype(np.float32)) for mask in (first, ~first)
    )
    rows = np.where(np.arange(300) % 2, -1, np.arange(300)).astype(np.int32)
    kept = np.flatnonzero(np.diff(target.indptr)).astype(np.int32)
    part = Part(history[kept], target[kept], kept, rows[kept])
    found = []
    for side in COSTS:
        monkeypatch.setattr(inverse, "_costs", lambda *_, side=side: COSTS[side])
        models = models_from([f"edlae[p={p},l2=1]", f"rdlae[p={p},l2=1,xi=0.2]"])
        scorers = models[0].family.fit(models, history, Context())
        found.append(evaluate(scorers, part, history, [parse_metric("ndcg@20")]))
    for one, other in zip(*found, strict=True):
        assert one["ndcg@20"].mean() > 0.01
        assert one["ndcg@20"].mean() == pytest.approx(other["ndcg@20"].mean(), abs=5e-5)


def test_the_side_is_that_which_takes_less(monkeypatch):
    """Users and items without interactions do not count."""
    wide = sparse.csr_array(sparse.hstack([train(), train()]))
    tall = sparse.csr_array(sparse.vstack([train(), train(), train()]))
    idle = sparse.csr_array((300, ITEMS), dtype=np.float32)
    unwanted = sparse.csr_array((3 * USERS, 300), dtype=np.float32)
    for matrix, side, size in (
        (wide, "users", USERS - 1), (tall, "items", ITEMS - 1),
        (sparse.csr_array(sparse.vstack([wide[:, :ITEMS], idle])), "users", USERS - 1),
        (sparse.csr_array(sparse.hstack([unwanted, tall])), "items", ITEMS - 1),
    ):  # fmt: skip
        monkeypatch.setattr(inverse, "SPARSE", 0)  # so small, sums would count for most
        found = inverse.invert(matrix, 0.5, 3.0, Context())
        assert isinstance(found.base, UserSide) == (side == "users")
        assert found.matrix.tiles.n == size
        cost = inverse.operations(matrix, 0.5, 3.0, Context())
        assert cost == size**3
        model = models_from(["edlae[p=0.5,l2=3]"])
        assert model[0].family.operations(model, matrix, Context()) == cost


@pytest.mark.parametrize(
    ("ridge", "dtype", "strangers", "side"),
    [
        (10.0, np.float32, 0, "users"),
        (0.05, np.float32, 0, "items"),
        (0.05, np.float64, 0, "users"),
        (10.0, np.float32, 30, "items"),
        (10.0, np.float64, 30, "users"),
    ],
)
def test_what_is_solved_for_speaks_against_the_users(monkeypatch, ridge, dtype, strangers, side):
    """Columns that need their digits, and users to rank for who are not trained on."""
    monkeypatch.setattr(inverse, "SPARSE", 0)
    found = inverse.invert(train(), 0.0, ridge, Context(dtype=dtype, strangers=strangers))
    assert isinstance(found.base, UserSide) == (side == "users")


def test_without_a_penalty_there_is_only_the_side_of_the_items():
    everything = sparse.csr_array(np.eye(3, 5, dtype=np.float32) + np.eye(3, 5, 2, np.float32))
    with pytest.raises(RecbenchError, match="raise l2"):
        inverse.invert(everything, 0.0, 0.0, Context())


def test_threads_do_not_change_a_bit(monkeypatch):
    asked, found = query(), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            (scorer,) = fitted(monkeypatch, "users", ["ease[l2=3]"], np.float32)
            (top,) = scorer.base.top(asked, [scorer.scale])
            found.append((top.items, top.scores, scorer.scale, scorer.weights([1, 7])))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("side", COSTS)
def test_a_saved_model_recommends_as_before(monkeypatch, tmp_path, side):
    """Also with the item that nobody has, to users of the data, to others, and to an item."""
    (scorer,) = fitted(monkeypatch, side, ["ease[l2=3]"])
    items, users = pa.array(np.arange(ITEMS)), pa.array(np.arange(USERS))
    model = Recommender("ease[l2=3]", scorer, items, people=People(users, train()))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again.scorer.base) is type(scorer.base)
    assert [*model.for_users()] == [*again.for_users()]
    assert model.recommend([1, 5, 7]) == again.recommend([1, 5, 7])
    assert model.neighbours(7) == again.neighbours(7)
    column = scorer.weights(range(ITEMS))[7]
    best = np.argsort(-np.delete(column, 7), kind="stable")[:10]
    assert [item for item, _ in model.neighbours(7)] == np.delete(np.arange(ITEMS), 7)[
        best
    ].tolist()
