"""Users who were not trained on: against a refit with them, and against the best there is."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from recbench.models.context import Context
from recbench.models.contract import example
from recbench.registry import MODELS, build

NEW = 20
SETTINGS = "epochs=80,decay-at=40+60,factors=4,init=0.1,rate=0.05"


@pytest.fixture(scope="module")
def train():
    """300 users with four tastes, more or less of each, and items that are more or less liked."""
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((300, 4)), rng.standard_normal((120, 4))
    scores = 0.8 * users @ items.T + 0.7 * rng.standard_normal(120) - 2.2
    return sparse.csr_array((rng.random(scores.shape) < expit(scores)).astype(np.float32))


def fitted(text, train):
    name, _, rest = text.partition("[")
    return build(f"{name}[{rest.removesuffix(']')},{SETTINGS}]", MODELS).fit(train, Context())


def strangers(scorer, history):
    return scorer.base.users(history, np.full(history.shape[0], -1, np.int32))


def overlap(one, other, history):
    """How many of the best 20 that users do not have are the same, by two scores."""
    has = history.toarray() > 0
    best = [np.argsort(-np.where(has, -np.inf, scores), axis=1)[:, :20] for scores in (one, other)]
    return np.mean([len(set(a) & set(b)) / 20 for a, b in zip(*best, strict=True)])


def cosines(one, other):
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / lengths


@pytest.mark.parametrize(
    ("text", "vectors", "again", "refit"),
    [
        ("mf[loss=softmax,l2=0.05]", 0.998, 0.95, 0.75),
        pytest.param("mf[loss=bce,l2=0.05]", 0.998, 0.95, 0.8, marks=pytest.mark.slow),
        pytest.param("mf[loss=uib,l2=0.05]", 0.998, 0.95, 0.8, marks=pytest.mark.slow),
        pytest.param(
            "mf[loss=softmax,score=distance,l2=0.02]", 0.998, 0.95, 0.65, marks=pytest.mark.slow
        ),
        ("lightgcn[loss=softmax,layers=2,l2=0.02]", 0.95, 0.75, 0.7),
        pytest.param(
            "sgl-ed[layers=2,l2=0.02,contrast=0.01,negatives=shared,drawn=200]",
            0.95,
            0.75,
            0.6,
            marks=pytest.mark.slow,
        ),
        pytest.param("youtubenet[drawn=200]", 0.999999, 1.0, 0.8, marks=pytest.mark.slow),
        pytest.param(
            "simplex[own=0,drawn=200,loss=softmax]", 0.999999, 1.0, 0.5, marks=pytest.mark.slow
        ),
    ],
)
def test_a_stranger_is_nearly_who_he_would_have_been(train, text, vectors, again, refit):
    """`vectors`: the median cosine of those of users who were there and of the same folded in.
    `again`, `refit`: of their best 20 items, how many are the same, folded into the fit that had
    them, and into one that had not.
    """
    rows, history = np.arange(NEW, dtype=np.int32), train[:NEW]
    whole, part = fitted(text, train), fitted(text, train[NEW:])
    alike = cosines(whole.base.users.trained[:NEW], strangers(whole, history))
    assert np.median(alike) > vectors
    known = whole.score(history, rows)
    assert overlap(known, whole.score(history), history) >= again
    assert overlap(known, part.score(history), history) > refit


def test_he_is_where_his_loss_is_least(train):
    """Of softmax with a penalty, which is convex in his vector."""
    scorer, l2 = fitted("mf[loss=softmax,l2=0.05]", train), 0.05
    items = scorer.base.items.astype(np.float64)
    for row, found in enumerate(strangers(scorer, train[:NEW])):
        mine = train[[row]].toarray()[0] > 0

        def loss(p, mine=mine):
            s = items @ p
            return mine.sum() * (np.log(np.exp(s).sum()) + l2 / 2 * p @ p) - s[mine].sum()

        best = minimize(loss, np.zeros(4), tol=1e-10)
        assert loss(found) - best.fun < 1e-3 * mine.sum()
        assert cosines(found[None], best.x[None])[0] > 0.995


def test_by_cosine_he_is_as_well_off_as_those_who_were_trained(train):
    """Nothing is convex there, so that is of all of them together."""
    scorer = fitted("mf[loss=mine[t=0.3],l2=0]", train)
    items = scorer.base.items.astype(np.float64)
    has = train[:NEW].toarray() > 0

    def losses(users):
        s = users @ items.T / 0.3
        return has.sum(axis=1) * np.log(np.exp(s).mean(axis=1)) - (has * s).sum(axis=1)

    trained = losses(scorer.base.users.trained[:NEW].astype(np.float64))
    found = losses(strangers(scorer, train[:NEW]).astype(np.float64))
    assert found.sum() <= trained.sum()


def test_trained_users_and_strangers_may_come_together():
    train = example()
    scorer = build("mf[epochs=3]", MODELS).fit(train, Context())
    rows = np.array([7, -1, 0], np.int32)
    found = scorer.base.users(train[[7, 2, 0]], rows)
    assert np.array_equal(found[[0, 2]], scorer.base.users.trained[[7, 0]])
    assert np.allclose(found[1], strangers(scorer, train[[2]])[0], rtol=1e-4)


@pytest.mark.parametrize("loss", ["softmax", "bpr", "sml", "infonce-debiased"])
def test_a_stranger_does_not_depend_on_his_company(loss):
    train = example()
    scorer = build(f"mf[loss={loss},epochs=3]", MODELS).fit(train, Context(dtype=np.float64))
    together, alone = strangers(scorer, train[:9]), strangers(scorer, train[[4]])
    assert np.allclose(together[4], alone[0], rtol=1e-6, atol=1e-9)
