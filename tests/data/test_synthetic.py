"""Made-up interactions: exactly what was asked for, the same for a seed, and worth modelling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data import synthetic
from recbench.data.open import sizes_of
from recbench.data.synthetic import Synthetic, generate, parse
from recbench.errors import UsageError


@st.composite
def specs(draw):
    """Small datasets, as thin and as dense as they come."""
    users, items = draw(st.integers(1, 60)), draw(st.integers(1, 40))
    interactions = draw(st.integers(max(users, items), users * items))
    skew = draw(st.sampled_from([0.0, 1.0, 3.0]))
    return Synthetic(users, items, interactions, skew, draw(st.integers(0, 3)))


@settings(max_examples=50, deadline=None)
@given(specs())
def test_it_is_exactly_as_large_as_asked(spec):
    data = generate(spec, threads=1)
    pairs = data.user.astype(np.int64) * spec.items + data.item
    assert np.all(np.diff(pairs) > 0)  # unique, ordered by user, then item
    assert len(pairs) == spec.interactions
    assert np.bincount(data.user, minlength=spec.users).min() >= min(
        synthetic.FEWEST, spec.interactions // spec.users
    )
    assert np.array_equal(np.unique(data.item), np.arange(spec.items))
    assert data.user_ids.to_pylist() == list(range(spec.users))
    assert data.item_ids.to_pylist() == list(range(spec.items))


def test_threads_do_not_change_it(monkeypatch):
    monkeypatch.setattr(synthetic, "BLOCK", 500)
    spec = Synthetic(300, 80, 6_000)
    one, many = generate(spec, threads=1), generate(spec, threads=4)
    assert np.array_equal(one.item, many.item)
    assert one.fingerprint == many.fingerprint


def test_a_seed_is_a_dataset_for_good():
    spec = "synthetic:users=200,items=50,interactions=2000,skew=1,seed=7"
    digest = "e0e94e8863d00530f048cfdec6f0497ab6bf4e27286be5f36f7ad5ca6888b7b6"
    assert generate(parse(spec)).fingerprint == digest, "then raise Synthetic.revision as well"
    assert generate(parse(spec.replace("seed=7", "seed=8"))).fingerprint != digest


def head_share(skew):
    """The share of interactions on the most popular tenth of the items."""
    spec = Synthetic(500, 200, 8_000, skew)
    counts = np.sort(np.bincount(generate(spec).item))[::-1]
    return counts[:20].sum() / counts.sum()


def test_more_skew_makes_the_head_heavier():
    shares = [head_share(skew) for skew in (0.0, 0.5, 1.0, 2.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[2] > 0.3


def test_users_differ_a_lot_in_activity():
    counts = np.bincount(generate(Synthetic(1_000, 500, 40_000)).user)
    assert counts.min() == synthetic.FEWEST
    assert np.median(counts) < 0.7 * counts.mean()
    assert counts.max() > 5 * counts.mean()


def recall_at_20(score, seen, target):
    score = np.where(seen, -np.inf, score)
    top = np.argpartition(-score, 20, axis=1)[:, :20]
    return (np.take_along_axis(target, top, 1).sum(1) / target.sum(1)).mean()


def test_tastes_can_be_learnt():
    """EASE finds clearly more than popularity does."""
    data = generate(Synthetic(1_500, 300, 45_000))
    matrix = data.matrix.toarray()
    held_out = (np.random.RandomState(0).random_sample(matrix.shape) < 0.2) & (matrix > 0)
    held_out &= held_out.sum(1, keepdims=True) > 0
    train = matrix * ~held_out
    inverse = np.linalg.inv(train.T @ train + 100 * np.eye(data.n_items))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    users = held_out.any(1)
    seen, target = train[users] > 0, held_out[users]
    popular = recall_at_20(np.tile(train.sum(0), (len(seen), 1)), seen, target)
    assert recall_at_20((train @ weights)[users], seen, target) > 1.25 * popular


def test_its_text_is_what_was_typed():
    spec = parse("synthetic: users=1e3 ,items=50,interactions=2_000")
    assert spec == Synthetic(1_000, 50, 2_000)
    assert spec.text == "synthetic:users=1000,items=50,interactions=2000,skew=1,seed=0"
    assert parse(spec.text) == spec
    assert parse("synthetic:") == parse("synthetic") == Synthetic()
    assert generate(spec).name == spec.text


def test_it_can_be_as_large_as_a_dataset_of_the_catalogue():
    spec = parse("synthetic:like=msd,seed=3", sizes_of)
    assert spec == Synthetic(571_355, 41_140, 33_633_450, seed=3)
    assert parse("synthetic:like=msd,users=600000", sizes_of).users == 600_000
    with pytest.raises(UsageError, match="did you mean 'msd'"):
        parse("synthetic:like=msdd", sizes_of)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("synthetic:user=5", "did you mean 'users'"),
        ("synthetic:users", "'users' in 'synthetic:users' is not name=value"),
        ("synthetic:users=many", "'users' needs a whole number, not 'many'"),
        ("synthetic:skew=9", r"'skew' is 9, it must be a number in \[0, 3\]"),
        ("synthetc:users=5", "starts with 'synthetic:'"),
        ("synthetic:users=2,items=2,interactions=5", "ask for at most 4"),
        ("synthetic:users=9,items=2,interactions=8", "ask for at least 9"),
    ],
)
def test_what_cannot_be_generated_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)
