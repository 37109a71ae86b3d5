import random
import statistics
from itertools import islice

import pytest

from recbench.campaign.search.grammar import dimension, spaces_from
from recbench.campaign.search.space import Choice, Space, Span
from recbench.errors import UsageError
from recbench.models.linear.lae import DeqlL2, Ease
from recbench.params import Param, params_of

NUMBER = Param("l2", float, 1.0, "a number", low=0, log=True)
PLAIN = Param("x", float, 1.0, "a number", low=0, high=1, open_high=True)
WHOLE = Param("k", int, 1, "a whole number", low=1)
WORD = Param("how", str, "a", "a word", choices=("a", "b"))


@pytest.mark.parametrize(
    ("param", "text", "expected"),
    [
        (PLAIN, "0.1:0.9", Span(0.1, 0.9)),
        (PLAIN, "0.1:0.9:log", Span(0.1, 0.9, log=True)),
        (NUMBER, "1:100", Span(1, 100, log=True)),
        (WHOLE, "1:100", Span(1, 100, whole=True)),
        (WHOLE, "1:100:log", Span(1, 100, log=True, whole=True)),
        (NUMBER, "1:100:log3", Choice((1.0, 10.0, 100.0))),
        (PLAIN, "0.1:0.3:0.1", Choice((0.1, 0.2, 0.3))),
        (PLAIN, "0.5", Choice((0.5,))),
        (WORD, "a,b", Choice(("a", "b"))),
    ],
)
def test_a_grid_as_what_a_search_draws_from(param, text, expected):
    assert dimension(text, param) == expected


@pytest.mark.parametrize(
    ("param", "text", "says"),
    [
        (PLAIN, "0.1:1", "must be a number in [0, 1)"),
        (PLAIN, "0:0.5:log", "must start above 0"),
        (NUMBER, "0:5", "must start above 0"),
        (PLAIN, "0.5:0.1", "must rise"),
        (WHOLE, "1:2.5", "needs a whole number"),
        (WORD, "a:b", "takes a list, not a range"),
        (PLAIN, "0.1:", "a range is"),
    ],
)
def test_a_wrong_range_is_one_sentence(param, text, says):
    with pytest.raises(UsageError) as caught:
        dimension(text, param)
    assert says in str(caught.value)


def drawn(space: Space, count: int, seed: int = 0) -> list[str]:
    return [model.text for _, model in islice(space.draws(seed), count)]


def test_draws_are_a_function_of_the_seed_and_none_comes_twice():
    space = Space(Ease, {}, {"l2": Span(1, 1000, log=True)})
    texts = drawn(space, 200)
    assert len(set(texts)) == 200
    assert drawn(space, 50) == texts[:50]
    assert not {*drawn(space, 50, seed=1)} & {*texts}


def test_draws_follow_from_the_words_that_were_typed():
    """Were this otherwise, a finished search would not be found again by a later version."""
    space = Space(Ease, {}, {"l2": Span(1, 1000, log=True)})
    numbers = random.Random("7 ease l2=1:1000:log")
    expected = [f"ease[l2={1000 ** numbers.random():.6g}]" for _ in range(3)]
    assert drawn(space, 3, seed=7) == expected


def test_a_model_is_drawn_the_same_whatever_else_is_searched():
    grids = ["l2=1:100"]
    alone, beside = spaces_from(["ease"], (), grids)[0], spaces_from(["edlae", "ease"], (), grids)
    assert drawn(alone, 5) == drawn(beside[1], 5)


def test_a_logarithmic_range_is_even_in_the_logarithm():
    span = Span(1, 10_000, log=True)
    values = [span.at((n + 0.5) / 1001) for n in range(1001)]
    assert statistics.median(values) == pytest.approx(100)
    assert (min(values), max(values)) == pytest.approx((1, 10_000), rel=0.01)


def test_whole_numbers_are_equally_likely_up_to_both_ends():
    span = Span(1, 4, whole=True)
    values = [span.at((n + 0.5) / 4000) for n in range(4000)]
    assert [values.count(n) for n in (1, 2, 3, 4)] == [1000] * 4


def test_a_small_space_is_used_up_and_then_ends():
    space = Space(DeqlL2, {}, {"b": Choice((0.5, 1.0, 2.0)), "p": Choice((0.1, 0.2))})
    assert space.size == 6
    texts = drawn(space, 100)
    assert len(texts) == len(set(texts)) == 6
    assert drawn(space, 100, seed=1) != texts


def test_a_space_too_large_to_list_ends_as_well():
    """Tidied to six digits, there are two numbers between the ends."""
    space = Space(Ease, {}, {"l2": Span(1.0, 1.00001)})
    assert space.size is None
    assert 2 <= len(drawn(space, 100)) <= 3


def test_published_values_stand_in_for_what_is_not_named():
    (space,) = spaces_from(["deql-l2"], sets=["p=0.3"])
    assert space.dimensions["b"] == Choice(params_of(DeqlL2)["b"].grid)
    assert space.dimensions["p"] == Choice((0.3,))
    (space,) = spaces_from(["deql-l2[p=0.3]"], grids=["b=0.1:2.0"])
    assert set(space.dimensions) == {"b"}
    assert all(model.loss.p == 0.3 for _, model in islice(space.draws(0), 5))
