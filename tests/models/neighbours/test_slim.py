"""`slim` against scikit-learn's elastic net, and what is its own."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import toys
from recbench.errors import Refused, UsageError
from recbench.models.context import Context
from recbench.models.neighbours.slim import Slim
from recbench.models.save import fit, load
from recbench.registry import MODELS, build

CONTEXT = Context(threads=1, dtype=np.float64)


@pytest.fixture(scope="module")
def train():
    """Items whose numbers say nothing of their popularity."""
    rng = np.random.default_rng(5)
    chance = rng.permutation(np.linspace(0.5, 0.03, 25))
    return sparse.csr_array((rng.random((80, 25)) < chance).astype(np.float32))


def weights(scorer):
    return scorer.base.weights.toarray()


@pytest.mark.slow  # importing scikit-learn takes a second
@pytest.mark.filterwarnings("ignore:Objective did not converge")  # of a column of zeros
@pytest.mark.parametrize(("alpha", "ratio"), [(0.005, 0.001), (0.02, 0.5), (0.001, 1.0)])
def test_weights_are_those_of_scikit_learn(train, alpha, ratio):
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not here")
    model = Slim(alpha=alpha, l1_ratio=ratio, tolerance=1e-9)
    found, dense = weights(model.fit(train, CONTEXT)), train.toarray().astype(np.float64)
    for j in range(25):
        others = dense.copy()
        others[:, j] = 0.0
        peer = linear_model.ElasticNet(
            alpha=alpha, l1_ratio=ratio, positive=True, fit_intercept=False, tol=1e-10,
            max_iter=100_000,
        ).fit(others, dense[:, j])  # fmt: skip
        assert np.allclose(found[:, j], peer.coef_, atol=1e-6)


def test_penalties_may_be_given_by_themselves(train):
    users = train.shape[0]
    given = Slim(l1=users * 0.01 * 0.2, l2=users * 0.01 * 0.8)
    same = Slim(alpha=0.01, l1_ratio=0.2)
    assert np.array_equal(weights(given.fit(train, CONTEXT)), weights(same.fit(train, CONTEXT)))


def test_a_grid_is_one_gram_and_gives_what_each_gives_alone(train, monkeypatch):
    from recbench.linalg import pairs

    grams, gram = [], pairs.gram
    monkeypatch.setattr(pairs, "gram", lambda *given: grams.append(1) or gram(*given))
    models = [Slim(alpha=a, l1_ratio=r) for a in (0.001, 0.1) for r in (1e-6, 0.5)]
    models.append(Slim(l2=3.0))
    assert len({Slim.family.key(model) for model in models}) == 1
    together = Slim.family.fit(models, train, CONTEXT)
    assert len(grams) == 1
    for model, scorer in zip(models, together, strict=True):
        assert np.allclose(weights(scorer), weights(model.fit(train, CONTEXT)), atol=1e-6)


def test_the_largest_weights_of_a_column_are_kept(train):
    whole = weights(Slim().fit(train, CONTEXT))
    few = weights(Slim(keep=3).fit(train, CONTEXT))
    for j in range(25):
        best = np.argsort(-whole[:, j], kind="stable")[:3]
        expected = np.zeros(25)
        expected[best] = whole[best, j]
        assert np.array_equal(few[:, j], expected)


def test_what_is_not_settled_is_a_fact_and_nothing_otherwise(train):
    cut = Slim(alpha=1e-6, sweeps=1).fit(train, CONTEXT)
    assert cut.plain_facts()["columns not settled"] > 0
    facts = Slim().fit(train, CONTEXT).plain_facts()
    assert set(facts) == {"weights per item"}
    assert facts["weights per item"] == Slim().fit(train, CONTEXT).base.weights.nnz / 25


def test_a_fitted_model_comes_back_from_disk(tmp_path):
    made = fit("slim[l2=5]", toys.two_tastes(), CONTEXT)
    made.save(tmp_path / "model")
    assert load(tmp_path / "model").recommend([0, 2, 4], 5) == made.recommend([0, 2, 4], 5)


def test_what_does_not_fit_in_memory_is_refused(train):
    with pytest.raises(Refused, match=r"the products of 25 items needs .* take a higher k-core"):
        Slim().fit(train, replace(CONTEXT, memory=100))
    taken = Slim().fit(train, CONTEXT).base.weights.nnz
    with pytest.raises(Refused, match="the weights of 25 items needs"):
        Slim().fit(train, replace(CONTEXT, memory=25 * 25 * 8 + 12 * taken))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("slim[l1=1]", "'l1' goes with 'l2'; give l2 as well"),
        ("slim[l2=1,alpha=0.1]", "give 'alpha' and 'l1-ratio', or 'l1' and 'l2', not both"),
        ("slim[l1-ratio=2]", "'l1-ratio' is 2, it must be a number in \\[0, 1\\]"),
        ("slim[alpha=-1]", "'alpha' is -1, it must be a number in"),
        ("slim[keep=some]", "'keep' needs a whole number, not 'some'"),
    ],
)
def test_wrong_words_are_told(text, told):
    with pytest.raises(UsageError, match=told):
        build(text, MODELS)
