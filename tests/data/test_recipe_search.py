"""The recipe search, against preparing with every recipe of the grid."""

from dataclasses import replace
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.clean import prepare
from recbench.data.interactions import Interactions
from recbench.data.recipe import Filter, Recipe
from recbench.data.recipe_search import Grid, search_recipes
from recbench.errors import DataError, UsageError

GRID = Grid(users=(0, 2, 3), items=(0, 2, 4))
ORDERS = ("items-first", "users-first", "at-once")


def interactions(rows):
    user, item, value = zip(*rows, strict=True)
    return Interactions(
        pa.table({"user": user, "item": item, "value": pa.array(value, pa.float64())})
    )


def counts_of(rows, recipe):
    """What a recipe gives; nothing where it leaves nothing."""
    try:
        data = prepare(interactions(rows), recipe, "toy")
    except DataError:
        return (0, 0, 0)
    return (data.n_users, data.n_items, len(data))


def whole_grid(rows):
    """Every recipe the search may name, spelled out."""
    values = sorted({value for *_, value in rows})
    thresholds = [None, *((">=", float(value)) for value in values[1:])]
    for positive, users, items in product(thresholds, GRID.users, GRID.items):
        kept = [row[:2] for row in rows if positive is None or row[2] >= positive[1]]
        for dedup in {True, len(set(kept)) == len(kept)}:
            core = Recipe(positive, dedup, (Filter(users, items),) if users or items else ())
            yield core
            if users and items:
                for order in ORDERS:
                    yield replace(core, filters=(Filter(users, items, "pass", order),))


small = st.integers(0, 4)
some_rows = st.lists(st.tuples(small, small, st.integers(1, 3)), min_size=1, max_size=40)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(some_rows, st.randoms(use_true_random=False))
def test_exactly_the_recipes_that_hit_are_found(rows, random):
    recipes = list(whole_grid(rows))
    results = {recipe: counts_of(rows, recipe) for recipe in recipes}
    target = random.choice([counts for counts in results.values() if counts[2]])
    found = search_recipes(interactions(rows), target, GRID)
    assert {match.recipe for match in found} == {r for r in recipes if results[r] == target}
    assert all((m.users, m.items, m.interactions, m.distance) == (*target, 0) for m in found)


@settings(max_examples=30, deadline=None)
@given(some_rows)
def test_the_nearest_say_what_their_recipes_give(rows):
    target = (3, 3, 1_000)  # more than there are
    found = search_recipes(interactions(rows), target, GRID, nearest=4)
    assert 1 <= len(found) <= 4
    assert [m.distance for m in found] == sorted(m.distance for m in found)
    for match in found:
        assert match.distance > 0
        assert (match.users, match.items, match.interactions) == counts_of(rows, match.recipe)


ROWS = [(u, i, 1 + (u + i) % 3) for u in range(12) for i in range(8) if (u * i) % 5 != 1]


def test_a_near_miss_comes_first():
    users, items, rows = counts_of(ROWS, Recipe(filters=(Filter(7, 10),)))
    found = search_recipes(interactions(ROWS), (users, items, rows + 1))
    assert (found[0].users, found[0].items, found[0].interactions) == (users, items, rows)
    assert found[0].distance == pytest.approx(1 / (rows + 1))


def test_own_thresholds_and_no_values():
    rows = interactions(ROWS)
    assert counts_of(ROWS, Recipe(positive=("=", 2.0))) != counts_of(ROWS, Recipe())
    grid = Grid((0,), (0,), thresholds=[("=", 2.0)])
    found = search_recipes(rows, counts_of(ROWS, Recipe(("=", 2.0))), grid)
    assert [match.recipe for match in found] == [Recipe(("=", 2.0))]
    without = Interactions(rows.table.drop_columns(["value"]))
    found = search_recipes(without, counts_of(ROWS, Recipe()), Grid((0,), (0,)))
    assert [match.recipe for match in found] == [Recipe()]


def test_it_reports_how_far_it_is():
    seen = []
    search_recipes(interactions(ROWS), (1, 1, 1), GRID, progress=lambda *step: seen.append(step))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_simplest_of_equal_recipes_comes_first():
    found = search_recipes(interactions(ROWS), counts_of(ROWS, Recipe()))
    assert found[0].recipe == Recipe()
    assert len(found) > 1


def test_minima_may_come_in_any_order_but_not_below_nothing():
    assert Grid((5, 2, 5), (0,)).users == (2, 5)
    with pytest.raises(UsageError, match="minima for items"):
        Grid((0,), (-1, 3))
