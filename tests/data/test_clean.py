"""Preparing rows, against loops that do what the definitions say and nothing else."""

import operator
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data import ids as codes
from recbench.data.clean import prepare
from recbench.data.interactions import Interactions
from recbench.data.recipe import Filter, Recipe
from recbench.errors import DataError, UsageError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SIGNS = {">": operator.gt, ">=": operator.ge, "=": operator.eq}


def interactions(rows, **columns):
    """Interactions of (user, item, value) rows."""
    user, item, value = zip(*rows, strict=True)
    table = {"user": user, "item": item, "value": pa.array(value, pa.float64()), **columns}
    return Interactions(pa.table(table))


def pairs_of(data):
    """The rows of a dataset with original ids."""
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    return [(users[u], items[i]) for u, i in zip(data.user, data.item, strict=True)]


def slow_filter(pairs, rule):
    """Filter by literal loops."""
    if rule.mode == "fixpoint":
        while True:
            left = slow_filter(pairs, Filter(rule.users, rule.items, "pass", "at-once"))
            if left == pairs:
                return left
            pairs = left
    user = Counter(u for u, _ in pairs)
    item = Counter(i for _, i in pairs)
    if rule.order == "items-first":
        user = Counter(u for u, i in pairs if item[i] >= rule.items)
    if rule.order == "users-first":
        item = Counter(i for u, i in pairs if user[u] >= rule.users)
    return [(u, i) for u, i in pairs if user[u] >= rule.users and item[i] >= rule.items]


def slow_prepare(rows, recipe):
    """Prepare by literal loops."""
    if recipe.positive is not None:
        sign, bound = recipe.positive
        rows = [row for row in rows if SIGNS[sign](row[2], bound)]
    pairs = [row[:2] for row in rows]
    if recipe.graph:
        if len({type(node) for pair in pairs for node in pair}) == 2:
            pairs = [(str(u), str(i)) for u, i in pairs]
        pairs = [(u, i) for u, i in pairs if u != i]
    if recipe.graph == "undirected":
        pairs += [(i, u) for u, i in pairs]
    if recipe.dedup:
        pairs = list(dict.fromkeys(pairs))
    for rule in recipe.filters:
        pairs = slow_filter(pairs, rule)
    return list(dict.fromkeys(pairs))


small = st.integers(0, 5)
ids = st.one_of(
    st.just(lambda n: n),
    st.just(lambda n: 7 - 3 * n),
    st.just(lambda n: (n - 2) * 10**12),
    st.just(lambda n: ["9", "10", "Z", "a", "é", "\U0001f600"][n]),
)
some_rows = st.builds(
    lambda rows, user, item: [(user(u), item(i), v) for u, i, v in rows],
    st.lists(st.tuples(small, small, st.integers(1, 3)), min_size=1, max_size=40),
    ids,
    ids,
)
minimum = st.integers(0, 4)
rules = st.builds(
    Filter,
    minimum,
    minimum,
    st.sampled_from(["fixpoint", "pass"]),
    st.sampled_from(["items-first", "users-first", "at-once"]),
)
recipes = st.builds(
    Recipe,
    st.none() | st.tuples(st.sampled_from(list(SIGNS)), st.integers(1, 3)),
    st.booleans(),
    st.lists(rules, max_size=2).map(tuple),
    st.sampled_from([None, "directed", "undirected"]),
)
block_sizes = st.sampled_from([2, 3, 1 << 20])


def with_blocks(size, call):
    """Call with a small block size: a hundred rows are then many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "BLOCK", size)
        return call()


@settings(max_examples=100, deadline=None)
@given(some_rows, recipes, block_sizes)
def test_preparing_is_what_the_literal_loops_do(rows, recipe, block):
    expected = slow_prepare(rows, recipe)
    if not expected:
        with pytest.raises(DataError):
            with_blocks(block, lambda: prepare(interactions(rows), recipe, "toy"))
        return
    data = with_blocks(block, lambda: prepare(interactions(rows), recipe, "toy"))
    assert pairs_of(data) == expected
    for found, position in ((data.user_ids, 0), (data.item_ids, 1)):
        wanted = {pair[position] for pair in expected}
        assert found.to_pylist() == sorted(
            wanted, key=lambda n: n if isinstance(n, int) else n.encode()
        )


@settings(max_examples=50, deadline=None)
@given(some_rows, minimum, minimum, st.randoms())
def test_a_core_is_idempotent_and_does_not_depend_on_any_order(rows, users, items, random):
    recipe = Recipe(filters=(Filter(users, items),))
    try:
        data = prepare(interactions(rows), recipe, "toy")
    except DataError:
        return
    again = [(*pair, 1) for pair in pairs_of(data)]
    assert prepare(interactions(again), recipe, "toy").fingerprint == data.fingerprint
    random.shuffle(rows)
    assert prepare(interactions(rows), recipe, "toy").fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("order", "left"),
    [
        ("items-first", [("a", "x"), ("a", "y")]),
        ("users-first", [("a", "x"), ("b", "x")]),
        ("at-once", [("a", "x"), ("a", "y"), ("b", "x")]),
    ],
)
def test_the_three_orders_of_a_single_pass_differ(order, left):
    rows = [("a", "x", 1), ("a", "y", 1), ("b", "x", 1), ("b", "z", 1), ("c", "y", 1)]
    recipe = Recipe(filters=(Filter(2, 2, "pass", order),))
    assert pairs_of(prepare(interactions(rows), recipe, "toy")) == left


@pytest.mark.shared
@pytest.mark.parametrize(
    ("least", "counts"),
    [
        (5, (24_303, 10_672, 231_780)),
        (6, (15_004, 7_649, 172_434)),
        (8, (6_507, 4_120, 98_061)),
        (10, (2_816, 2_141, 52_158)),
        (12, (964, 819, 20_198)),
        (14, None),
    ],
)
def test_the_known_cores_of_video_games(least, counts):
    path = SHARED / "video_games_sasrec.txt"
    if not path.exists():
        pytest.skip("the real data does not stand beside the repository")
    user, item = np.fromstring(path.read_text(), dtype=np.int64, sep=" ").reshape(-1, 2).T
    rows = Interactions(pa.table({"user": user, "item": item}))
    recipe = Recipe(filters=(Filter(least, least),))
    if counts is None:
        with pytest.raises(DataError, match="31,013 users x 23,715 items, 287,107 interactions"):
            prepare(rows, recipe, "games")
        return
    data = prepare(rows, recipe, "games")
    assert (data.n_users, data.n_items, len(data)) == counts


def test_the_first_row_of_a_pair_stays_with_its_time():
    rows = [(1, 1, 1), (2, 1, 1), (1, 1, 3), (1, 2, 1), (2, 1, 2)]
    data = prepare(interactions(rows, time=[50, 40, 30, 20, 10]), Recipe(), "toy")
    assert pairs_of(data) == [(1, 1), (2, 1), (1, 2)]
    assert data.time.tolist() == [50, 40, 20]


def test_repeats_count_for_filters_only_without_dedup():
    rows = [(1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 3, 1)]
    recipe = Recipe(dedup=False, filters=(Filter(users=2),))
    assert pairs_of(prepare(interactions(rows), recipe, "toy")) == [(1, 1), (2, 1), (2, 2), (2, 3)]
    assert (
        1
        not in prepare(
            interactions(rows), Recipe(filters=(Filter(users=2),)), "toy"
        ).user_ids.to_pylist()
    )


def test_an_unknown_value_is_not_positive():
    rows = [(1, 1, 5.0), (1, 2, None), (1, 3, float("nan"))]
    data = prepare(interactions(rows), Recipe(positive=(">=", -1e9)), "toy")
    assert pairs_of(data) == [(1, 1)]


def test_narrow_columns_are_the_same_numbers():
    """A bound just above what single precision makes of 0.3 is not rounded down to it."""
    columns = {
        "user": pa.array([7, 5, 7], pa.int32()),
        "item": pa.array([1, 10**9, 2], pa.int32()),
        "value": pa.array([0.25, 0.3, 0.5], pa.float32()),
    }
    bound = float(np.nextafter(np.float64(np.float32(0.3)), 1))
    data = prepare(Interactions(pa.table(columns)), Recipe(positive=(">=", bound)), "toy")
    assert pairs_of(data) == [(7, 2)]
    assert data.user_ids.type == data.item_ids.type == pa.int64()
    wide = {"user": columns["user"], "item": columns["item"].cast(pa.int64())}
    links = prepare(Interactions(pa.table(wide)), Recipe(graph="undirected"), "toy")
    assert len(links) == 6


def test_one_user_and_one_item_are_data():
    data = prepare(interactions([("u", "i", 1)]), Recipe(filters=(Filter(1, 1),)), "toy")
    assert (data.n_users, data.n_items, len(data)) == (1, 1, 1)


def test_dictionaries_that_differ_by_chunk_and_repeat_a_word():
    index = pa.array([0, 1, 2], pa.int32())
    chunks = [
        pa.DictionaryArray.from_arrays(index, pa.array(["b", "a", "b"])),
        pa.DictionaryArray.from_arrays(index, pa.array(["c", "b", "a"])),
    ]
    for column in (pa.chunked_array(chunks), pa.chunked_array(chunks[:1])):
        rows = Interactions(pa.table({"user": column, "item": list(range(len(column)))}))
        data = prepare(rows, Recipe(), "toy")
        assert data.user_ids.to_pylist() == sorted(set(column.to_pylist()))
        assert [user for user, _ in pairs_of(data)] == column.to_pylist()


def test_large_strings_become_plain_ones():
    rows = pa.table({"user": pa.array(["b", "a"], pa.large_string()), "item": [1, 1]})
    assert prepare(Interactions(rows), Recipe(), "toy").user_ids.type == pa.string()


def test_the_provenance_tells_what_was_done():
    rows = [(1, 1, 5), (1, 1, 4), (1, 2, 1), (2, 1, 5), (2, 3, 5)]
    recipe = Recipe((">", 3.5), filters=(Filter(0, 2),))
    data = prepare(interactions(rows), recipe, "toy", {"file": "x.csv"})
    assert data.provenance == {
        "file": "x.csv",
        "recipe": "value>3.5; distinct; users>=0,items>=2",
        "rows": {"read": 5, "positive": 4, "distinct": 3, "filtered": 2},
    }


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        (Recipe(), "distinct"),
        (Recipe(("=", 5.0), dedup=False), "value=5; distinct"),
        (Recipe(("=", 5.0), graph="directed"), "value=5; directed links; distinct"),
        (
            Recipe(filters=(Filter(20, 200, "pass"), Filter(5, 5))),
            "distinct; users>=20,items>=200 once items-first; users>=5,items>=5",
        ),
        (
            Recipe(dedup=False, filters=(Filter(1, 2, "pass", "at-once"),)),
            "users>=1,items>=2 once at-once; distinct",
        ),
    ],
)
def test_a_recipe_as_text(recipe, text):
    assert recipe.text == text


def test_a_repeat_within_a_part_goes_and_one_across_parts_is_refused():
    rows = [(1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 1)]
    parts = pa.array([0, 0, 0, 2], pa.int8())
    data = prepare(interactions(rows, part=parts), Recipe(), "toy")
    assert data.part.tolist() == [0, 0, 2]
    rows.append((2, 2, 1))
    parts = pa.array([0, 0, 0, 2, 0], pa.int8())
    with pytest.raises(DataError, match="user 2 and item 2 are in both test and train"):
        prepare(interactions(rows, part=parts), Recipe(), "toy")


def test_filters_apply_to_parts_too():
    rows = [(1, 1, 1), (1, 2, 1), (2, 1, 1)]
    parts = pa.array([0, 2, 0], pa.int8())
    data = prepare(interactions(rows, part=parts), Recipe(filters=(Filter(users=2),)), "toy")
    assert data.part.tolist() == [0, 2]


def test_a_filter_that_leaves_nothing_says_what_there_was():
    rows = [(1, 1, 1), (1, 2, 1), (2, 1, 1)]
    recipe = Recipe(filters=(Filter(users=2), Filter(items=3)))
    with pytest.raises(DataError, match="items>=3 leaves nothing of 1 users x 2 items, 2 inter"):
        prepare(interactions(rows), recipe, "toy")


def test_a_threshold_that_leaves_nothing_says_what_values_there_are():
    with pytest.raises(DataError, match=r"none of 2 rows has value > 3; values go from 1.0 to 2.0"):
        prepare(interactions([(1, 1, 1), (2, 2, 2)]), Recipe(positive=(">", 3)), "toy")


def test_a_threshold_needs_values():
    rows = Interactions(pa.table({"user": [1], "item": [1]}))
    with pytest.raises(DataError, match="rows have no value"):
        prepare(rows, Recipe(positive=(">", 3)), "toy")


def test_no_rows_are_no_dataset():
    rows = pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())})
    with pytest.raises(DataError, match="no interactions"):
        prepare(Interactions(rows), Recipe(), "toy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(positive=("<", 3)), "unknown operator '<'"),
        (lambda: Filter(users=-1), "minimum for users is -1"),
        (lambda: Filter(mode="fixpont"), "did you mean 'fixpoint'"),
        (lambda: Filter(order="item-first"), "did you mean 'items-first'"),
    ],
)
def test_what_is_no_recipe_is_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()
