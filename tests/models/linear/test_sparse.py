"""Linear autoencoders on supports: the dense models where nothing is left out."""

import numpy as np
import pytest
from scipy import sparse

import toys
from recbench.errors import DataError
from recbench.models.context import Context
from recbench.registry import MODELS, build

PAIRS = [
    ("ease", "l2=5"),
    ("dlae", "p=0.3,l2=5"),
    ("edlae", "p=0.4,l2=2"),
    ("rlae", "l2=3,xi=0.2"),
    ("rdlae", "p=0.3,l2=3,xi=0.4"),
    ("deql-l2", "p=0.4,b=0.3,l2-effective=4"),
]


@pytest.fixture(scope="module")
def train():
    return toys.two_tastes().matrix


def fitted(text, train, **context):
    return build(text, MODELS).fit(train, Context(**context))


@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_with_all_items_as_support_it_is_the_dense_model(name, settings, train):
    dense = fitted(f"{name}[{settings}]", train, dtype=np.dtype(np.float64))
    few = fitted(f"{name}-sparse[{settings},support=1000]", train, dtype=np.dtype(np.float64))
    assert np.abs(few.score(train) - dense.score(train)).max() < 1e-10


@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_the_wider_the_support_the_nearer_to_the_dense_model(name, settings, train):
    dense, unseen = fitted(f"{name}[{settings}]", train).score(train), train.toarray() == 0
    off = []
    for support in (2, 12, 25):
        found = fitted(f"{name}-sparse[{settings},support={support}]", train)
        assert found.facts["weights per item"] <= support + 1
        off.append(np.linalg.norm((found.score(train) - dense)[unseen]))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.2 * np.linalg.norm(dense[unseen])


def test_models_that_share_the_columns_are_fitted_together(train):
    texts = ["deql-l2-sparse[p=0.4,b=0.3]", "deql-l2-sparse[p=0.4,b=0.8]"]
    one, other = (build(text, MODELS) for text in texts)
    assert one.family.key(one) == other.family.key(other)
    both = one.family.fit([one, other], train, Context())
    assert both[0].base is both[1].base
    for text, scorer in zip(texts, both, strict=True):
        assert np.array_equal(scorer.score(train), fitted(text, train).score(train))
    wider = build("deql-l2-sparse[p=0.4,b=0.3,support=5]", MODELS)
    assert wider.family.key(wider) != one.family.key(one)


def test_without_a_penalty_rounding_may_leave_no_solution():
    train = sparse.csr_array(np.ones((4, 3), np.float32))
    with pytest.raises(DataError, match="ease-sparse: rounding breaks the equations; raise l2"):
        fitted("ease-sparse[l2=0]", train)
