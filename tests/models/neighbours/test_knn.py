"""`item-knn` and `user-knn` against slow loops over the formulas."""

import numpy as np
import pytest
from scipy import sparse

import toys
from recbench.errors import Refused, UsageError
from recbench.linalg import topk
from recbench.models.context import Context
from recbench.models.neighbours.knn import ItemKnn, UserKnn
from recbench.models.save import fit, load
from recbench.models.scorers import Query
from recbench.registry import MODELS, build

CONTEXT = Context(threads=1, dtype=np.float64)
KINDS = [
    (similarity, weighting)
    for similarity in ("cosine", "jaccard", "conditional", "dot")
    for weighting in ("ones", "tf-idf", "bm25")
]


@pytest.fixture(scope="module")
def train():
    rng = np.random.default_rng(3)
    chance = rng.permutation(np.linspace(0.5, 0.05, 18))
    return sparse.csr_array((rng.random((30, 18)) < chance).astype(np.float32))


def weighed(documents, weighting, k1=1.2, b=0.75, known=None):
    """Documents by terms, one entry at a time; rarity and lengths are those of known documents."""
    known = documents if known is None else known
    have, mean = known.sum(axis=0), known.sum() / len(known)
    found = np.zeros(documents.shape)
    for d, t in zip(*np.nonzero(documents), strict=True):
        if weighting == "ones":
            found[d, t] = 1.0
        elif weighting == "tf-idf":
            found[d, t] = np.log(len(known) / max(have[t], 1))
        else:
            idf = np.log(1 + (len(known) - have[t] + 0.5) / (have[t] + 0.5))
            length = documents[d].sum() / mean
            found[d, t] = idf * (k1 + 1) / (1 + k1 * (1 - b + b * length))
    return found


def likeness(similarity, voter, voted, shrink, alpha=0.0):
    common, n, m = voter @ voted, voter @ voter, voted @ voted
    if common == 0:
        return 0.0
    return {
        "cosine": common / (np.sqrt(n * m) + shrink),
        "jaccard": common / (n + m - common + shrink),
        "conditional": common / (n * m**alpha + shrink),
        "dot": common,
    }[similarity]


def nearest(row, k, itself):
    """The k largest of a row that are above zero, the earlier of equal ones."""
    order = [j for j in np.lexsort((np.arange(len(row)), -row)) if j != itself and row[j] > 0]
    kept = np.zeros(len(row))
    kept[order[:k]] = row[order[:k]]
    return kept


def slow_items(train, k, similarity, weighting, shrink, keep, alpha):
    x = weighed(train.toarray().T.astype(float), weighting)
    n = len(x)
    w = np.array(
        [[likeness(similarity, x[i], x[j], shrink, alpha) for j in range(n)] for i in range(n)]
    )
    if keep == "target":
        return np.array([nearest(w[:, j], k, j) for j in range(n)]).T
    return np.array([nearest(w[i], k, i) for i in range(n)])


def slow_users(train, history, rows, k, similarity, weighting, shrink):
    known, given = train.toarray().astype(float), history.toarray().astype(float)
    x, y = weighed(known, weighting), weighed(given, weighting, known=known)
    votes = [
        nearest(np.array([likeness(similarity, v, u, shrink) for v in x]), k, row)
        for u, row in zip(y, rows, strict=True)
    ]
    return np.array(votes) @ known


@pytest.mark.parametrize("keep", ["target", "history"])
@pytest.mark.parametrize(("similarity", "weighting"), KINDS)
def test_votes_of_items_are_those_of_slow_loops(train, similarity, weighting, keep):
    alpha = {"alpha": 0.3} if similarity == "conditional" else {}
    model = ItemKnn.of(
        k=4, similarity=similarity, weighting=weighting, shrink=1.5, keep=keep, **alpha
    )
    found = model.fit(train, CONTEXT).base.weights.toarray()
    assert np.allclose(
        found, slow_items(train, 4, similarity, weighting, 1.5, keep, 0.3), rtol=1e-12
    )


@pytest.mark.parametrize(("similarity", "weighting"), KINDS)
def test_users_are_scored_as_by_slow_loops_whether_trained_on_or_not(train, similarity, weighting):
    model = UserKnn.of(k=5, similarity=similarity, weighting=weighting, shrink=0.5)
    scorer = model.fit(train, CONTEXT)
    rng = np.random.default_rng(0)
    strangers = sparse.csr_array((rng.random((4, 18)) < 0.3).astype(np.float32))
    history = sparse.csr_array(sparse.vstack([train[:6], strangers]))
    rows = np.array([0, 1, 2, 3, 4, 5, -1, -1, -1, -1], np.int32)
    expected = slow_users(train, history, rows, 5, similarity, weighting, 0.5)
    assert np.allclose(scorer.score(history, rows), expected, rtol=1e-12)


def test_a_user_is_no_neighbour_of_his_own_but_a_stranger_like_him_has_him_first(train):
    scorer = UserKnn.of(k=1).fit(train, CONTEXT)
    crowd, seven = scorer.base.crowd, train[[7]]
    assert crowd.nearest(seven, np.array([7], np.int32), 1).items[0, 0] != 7
    assert crowd.nearest(seven, np.array([-1], np.int32), 1).items[0, 0] == 7


@pytest.mark.parametrize("model", [ItemKnn, UserKnn])
def test_a_grid_over_k_is_one_search(train, model, monkeypatch):
    models = [model.of(k=k) for k in (3, 7, 1, 1000)]
    assert len({model.family.key(one) for one in models}) == 1
    assert model.family.key(models[0]) != model.family.key(model.of(k=3, shrink=1))
    rows = np.arange(30, dtype=np.int32)
    query = Query(train, rows, train, 5)
    alone = [one.fit(train, CONTEXT).base.top(query)[0] for one in models]
    searches, search = [], topk.top_alike
    monkeypatch.setattr(topk, "top_alike", lambda *given: searches.append(1) or search(*given))
    scorers = model.family.fit(models, train, CONTEXT)
    if model is UserKnn:
        together = scorers[0].base.tops(scorers, query)
    else:
        together = [scorer.base.top(query)[0] for scorer in scorers]
    assert len(searches) == 1
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.items, other.items)
        assert np.array_equal(one.scores, other.scores)


def test_users_are_ranked_in_blocks_with_the_same_lists(train, monkeypatch):
    base = UserKnn.of(k=3).fit(train, CONTEXT).base
    rows = np.arange(30, dtype=np.int32)
    (whole,) = base.top(Query(train, rows, train, 5))
    monkeypatch.setattr(topk, "BLOCK_BYTES", 12 * 3 * 4)
    told = []
    (blocks,) = base.top(Query(train, rows, train, 5), progress=lambda *now: told.append(now))
    assert len(told) == 8
    assert told[-1] == (30, 30)
    assert np.array_equal(whole.items, blocks.items)


def test_of_equally_near_items_the_lower_one_votes():
    same = sparse.csr_array(np.ones((4, 5), np.float32))
    weights = ItemKnn.of(k=2).fit(same, CONTEXT).base.weights.toarray()
    assert [np.flatnonzero(weights[:, j]).tolist() for j in range(5)] == [
        [1, 2], [0, 2], [0, 1], [0, 1], [0, 1],
    ]  # fmt: skip


def test_under_cosine_the_lengths_of_bm25_cancel(train):
    one, other = (
        ItemKnn.of(weighting="bm25", k1=k1, b=b).fit(train, CONTEXT).base.weights.toarray()
        for k1, b in ((1.2, 0.75), (3.0, 0.1))
    )
    assert np.allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("model", ["item-knn[k=5]", "user-knn[k=5,weighting=bm25,shrink=2]"])
def test_fitted_models_come_back_from_disk(tmp_path, model):
    made = fit(model, toys.two_tastes(), CONTEXT)
    made.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.recommend([0, 2, 4], 5) == made.recommend([0, 2, 4], 5)
    assert list(read.for_users(["u003"], 4)) == list(made.for_users(["u003"], 4))


def test_what_does_not_fit_in_memory_is_refused(train):
    for model in (ItemKnn(), UserKnn()):
        with pytest.raises(Refused, match="GB free; take "):
            model.fit(train, Context(memory=100))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("item-knn[k=0]", "'k' is 0, it must be a number in"),
        ("item-knn[similarity=cosin]", "did you mean 'cosine'"),
        ("item-knn[alpha=0.5]", "'alpha' is of similarity=conditional, not of similarity=cosine"),
        (
            "user-knn[k1=2]",
            "'k1' is of weighting=bm25, not of weighting=ones; leave it out, or set",
        ),
        ("user-knn[b=0.5,weighting=tf-idf]", "'b' is of weighting=bm25, not of weighting=tf-idf"),
        ("user-knn[alpha=0.5]", "unknown parameter of user-knn 'alpha'"),
    ],
)
def test_wrong_words_are_told(text, told):
    with pytest.raises(UsageError, match=told):
        build(text, MODELS)
