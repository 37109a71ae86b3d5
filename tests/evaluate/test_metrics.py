"""Metrics against literal loops, hand-computed numbers, and four other libraries."""

import csv
import inspect
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from recbench.errors import RecbenchError, UsageError
from recbench.evaluate import metrics
from recbench.evaluate import ranking as ranking_module
from recbench.evaluate.metrics import MAX_K, MetricSpec, ideal_dcg, parse_metric
from recbench.evaluate.ranking import Ranking, build_ranking
from recbench.registry import METRICS

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
PUBLISHED = ROOT.parent / "shared" / "published" / "published.csv"

ACCURACY = [
    "f1", "hit", "map", "mrr", "ndcg", "ndcg-ngcf", "precision", "rbp", "recall", "recall-capped",
]  # fmt: skip
OF_LISTS = ["novelty", "popularity"]
OF_EVERYBODY = ["coverage", "gini"]
NAMES = sorted(ACCURACY + OF_LISTS + OF_EVERYBODY)

LOG3, LOG4, LOG5 = math.log2(3), 2.0, math.log2(5)


def ranking_of(lists, targets, n_items, popularity=None, n_train_users=100, depth=None, **more):
    """Build a ranking from Python lists; short lists are padded with -1."""
    depth = depth or n_items
    items = np.full((len(lists), depth), -1, dtype=np.int32)
    for row, chosen in enumerate(lists):
        items[row, : len(chosen)] = chosen
    indptr = np.cumsum([0, *map(len, targets)])
    columns = [item for held_out in targets for item in sorted(held_out)]
    ones = np.ones(len(columns), dtype=np.float32)
    target = sparse.csr_array((ones, columns, indptr), shape=(len(targets), n_items))
    counts = np.ones(n_items, dtype=np.int64) if popularity is None else np.asarray(popularity)
    return build_ranking(items, target, counts, n_train_users, **more)


def value(name, ranking, k):
    return parse_metric(f"{name}@{k}")(ranking)


# --- against a literal loop ---------------------------------------------------------------------


@st.composite
def worlds(draw):
    """Lists of every length, held-out sets of every size, counts that include zero."""
    n_items = draw(st.integers(1, 9))
    everything = list(range(n_items))
    users = draw(st.integers(1, 4))
    lists, targets = [], []
    for _ in range(users):
        lists.append(draw(st.permutations(everything))[: draw(st.integers(0, n_items))])
        targets.append(draw(st.sets(st.sampled_from(everything), min_size=1)))
    popularity = draw(st.lists(st.integers(0, 6), min_size=n_items, max_size=n_items))
    return lists, targets, n_items, popularity


def loop(name, chosen, target, k, popularity, n_train_users):
    """One user's value, from the definition, rank by rank."""
    top = chosen[:k]
    hits = sum(1 for item in top if item in target)
    t = len(target)
    gain = sum(1 / math.log2(r + 1) for r, item in enumerate(top, 1) if item in target)
    if name == "recall":
        return hits / t
    if name == "recall-capped":
        return hits / min(k, t)
    if name == "precision":
        return hits / k
    if name == "f1":
        p, r = hits / k, hits / t
        return 0.0 if hits == 0 else 2 * p * r / (p + r)
    if name == "hit":
        return float(hits > 0)
    if name == "mrr":
        return next((1 / r for r, item in enumerate(top, 1) if item in target), 0.0)
    if name == "map":
        precisions = [
            len(target.intersection(top[:r])) / r for r, item in enumerate(top, 1) if item in target
        ]
        return sum(precisions) / min(t, k)
    if name == "rbp":
        return 0.2 * sum(0.8 ** (r - 1) for r, item in enumerate(top, 1) if item in target)
    if name == "ndcg":
        return gain / sum(1 / math.log2(r + 1) for r in range(1, min(k, t) + 1))
    if name == "ndcg-ngcf":
        own = sorted([item in target for item in chosen[: max(k, 100)]], reverse=True)[:k]
        best = sum(1 / math.log2(r + 1) for r, found in enumerate(own, 1) if found)
        return gain / best if best else 0.0
    if name == "novelty":
        bits = [-math.log2(max(popularity[item], 1) / n_train_users) for item in top]
        return sum(bits) / len(bits) if bits else 0.0
    assert name == "popularity"
    ranks = [stats.percentileofscore(popularity, popularity[item], "mean") / 100 for item in top]
    return sum(ranks) / len(ranks) if ranks else 0.0


@given(world=worlds(), k=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_per_user_metrics_are_their_definitions(world, k):
    lists, targets, n_items, popularity = world
    ranking = ranking_of(lists, targets, n_items, popularity, n_train_users=7)
    for name in ACCURACY + OF_LISTS:
        expected = [loop(name, c, t, k, popularity, 7) for c, t in zip(lists, targets, strict=True)]
        np.testing.assert_allclose(
            value(name, ranking, k), expected, rtol=1e-12, atol=1e-15, err_msg=name
        )


@given(world=worlds(), k=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_coverage_and_gini_are_their_definitions(world, k):
    lists, targets, n_items, popularity = world
    ranking = ranking_of(lists, targets, n_items, popularity)
    shown = [sum(item in chosen[:k] for chosen in lists) for item in range(n_items)]
    assert value("coverage", ranking, k) == len({i for c in lists for i in c[:k]}) / n_items
    # Gini as half the relative mean absolute difference, which needs no sorting.
    difference = sum(abs(a - b) for a in shown for b in shown)
    expected = difference / (2 * n_items * sum(shown)) if any(shown) else 1.0
    assert value("gini", ranking, k) == pytest.approx(expected, rel=1e-12, abs=1e-15)


# --- computed by hand ---------------------------------------------------------------------------

HAND = [  # hits at ranks 2 and 4 of [5, 1, 6, 2, 7], of the held-out {1, 2, 3}
    ("recall", 1, 0.0),
    ("recall", 3, 1 / 3),
    ("recall", 5, 2 / 3),
    ("recall-capped", 2, 1 / 2),
    ("recall-capped", 5, 2 / 3),
    ("precision", 2, 1 / 2),
    ("precision", 5, 2 / 5),
    ("precision", 8, 2 / 8),
    ("f1", 5, 1 / 2),
    ("f1", 1, 0.0),
    ("hit", 1, 0.0),
    ("hit", 2, 1.0),
    ("mrr", 1, 0.0),
    ("mrr", 5, 1 / 2),
    ("map", 2, (1 / 2) / 2),
    ("map", 5, (1 / 2 + 2 / 4) / 3),
    ("ndcg", 2, (1 / LOG3) / (1 + 1 / LOG3)),
    ("ndcg", 5, (1 / LOG3 + 1 / LOG5) / (1 + 1 / LOG3 + 1 / LOG4)),
    ("ndcg-ngcf", 1, 0.0),
    ("ndcg-ngcf", 2, (1 / LOG3) / (1 + 1 / LOG3)),
    ("ndcg-ngcf", 5, (1 / LOG3 + 1 / LOG5) / (1 + 1 / LOG3)),
    ("rbp", 1, 0.0),
    ("rbp", 5, 0.2 * (0.8 + 0.8**3)),
    ("coverage", 3, 3 / 8),
    ("coverage", 8, 5 / 8),
    ("gini", 3, 5 / 8),  # three of eight items share everything equally
    ("novelty", 1, math.log2(16 / 2)),
    ("novelty", 2, (3 + 2) / 2),
    ("novelty", 3, (3 + 2 + 4) / 3),  # nobody has item 6: counted as one user of 16
    ("popularity", 1, (2 + 5 / 2) / 8),  # two items have fewer users than item 5, five as many
    ("popularity", 3, ((2 + 5 / 2) + 7.5 + 0.5) / 8 / 3),
]


@pytest.mark.parametrize(("name", "k", "expected"), HAND)
def test_hand_computed(name, k, expected):
    popularity = [2, 4, 2, 2, 2, 2, 0, 1]
    ranking = ranking_of([[5, 1, 6, 2, 7]], [{1, 2, 3}], 8, popularity, n_train_users=16)
    assert value(name, ranking, k) == pytest.approx(expected, rel=1e-14)


def test_every_metric_has_a_hand_computed_example():
    assert {name for name, _, _ in HAND} == set(NAMES)


def test_ngcf_ideal_looks_at_the_top_100_and_no_further():
    # Held out: four items, at ranks 2, 50 and 110; one is never recommended.
    lists, targets = [list(range(120))], [{1, 49, 109, 140}]
    ranking = ranking_of(lists, targets, 150, depth=120)
    assert value("ndcg-ngcf", ranking, 20) == pytest.approx((1 / LOG3) / (1 + 1 / LOG3), rel=1e-14)
    gain = 1 / LOG3 + 1 / math.log2(51) + 1 / math.log2(111)
    best = 1 + 1 / LOG3 + 1 / LOG4
    assert value("ndcg-ngcf", ranking, 110) == pytest.approx(gain / best, rel=1e-14)
    assert parse_metric("ndcg-ngcf@20").depth == 100
    assert parse_metric("ndcg-ngcf@110").depth == 110
    assert parse_metric("ndcg@20").depth == 20


def test_gini_extremes():
    same = ranking_of([[0], [0], [0]], [{1}] * 3, 4)
    each = ranking_of([[0], [1], [2], [3]], [{1}] * 4, 4)
    nobody = ranking_of([[], []], [{1}, {2}], 4)
    assert value("gini", same, 1) == 3 / 4
    assert value("gini", each, 1) == 0.0
    assert value("gini", nobody, 1) == 1.0


# --- properties ---------------------------------------------------------------------------------


@given(world=worlds(), k=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_bounds(world, k):
    ranking = ranking_of(*world, n_train_users=7)
    for name in NAMES:
        values = value(name, ranking, k)
        top = math.log2(7) * (1 + 1e-12) if name == "novelty" else 1.0
        assert np.all(values >= 0), name
        assert np.all(values <= top), name
    assert np.all(value("recall-capped", ranking, k) >= value("recall", ranking, k))
    assert np.all(value("ndcg-ngcf", ranking, k) >= value("ndcg", ranking, k))


@pytest.mark.parametrize("t", [1, 2, 3, 7, 19, 20, 21, 50, 100])
@pytest.mark.parametrize("k", [1, 3, 20, 100])
@pytest.mark.parametrize("name", ["ndcg", "ndcg-ngcf", "map", "recall-capped", "mrr", "hit"])
def test_a_perfect_list_is_exactly_one(name, k, t):
    ranking = ranking_of([list(range(100))], [set(range(t))], 100)
    assert value(name, ranking, k) == 1.0


@given(world=worlds(), k=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_a_longer_look_never_loses_hits(world, k):
    ranking = ranking_of(*world)
    for name in ("recall", "hit", "mrr"):
        assert np.all(value(name, ranking, k + 1) >= value(name, ranking, k)), name
    assert value("coverage", ranking, k + 1) >= value("coverage", ranking, k)


@given(data=st.data(), k=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_moving_a_hit_up_never_costs(data, k):
    chosen = data.draw(st.permutations(range(8)))
    target = data.draw(st.sets(st.sampled_from(range(8)), min_size=1, max_size=7))
    swap = data.draw(st.integers(0, 6))
    better = list(chosen)
    if better[swap] not in target and better[swap + 1] in target:
        better[swap], better[swap + 1] = better[swap + 1], better[swap]
    ranking = ranking_of([chosen, better], [target, target], 8)
    for name in ACCURACY:
        worse_value, better_value = value(name, ranking, k)
        assert better_value >= worse_value - 1e-15, name


@given(world=worlds(), k=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_a_users_value_does_not_depend_on_who_else_is_there(world, k):
    lists, targets, n_items, popularity = world
    together = ranking_of(lists, targets, n_items, popularity)
    alone = [ranking_of([c], [t], n_items, popularity) for c, t in zip(lists, targets, strict=True)]
    for name in ACCURACY + OF_LISTS:
        parts = np.concatenate([value(name, ranking, k) for ranking in alone])
        assert value(name, together, k).tobytes() == parts.tobytes(), name


def test_a_cutoff_beyond_the_catalogue_is_allowed_and_precision_still_divides_by_it():
    ranking = ranking_of([[0, 1, 2]], [{0, 1}], 3)
    assert value("precision", ranking, 10) == 2 / 10
    assert value("recall", ranking, 10) == 1.0
    assert value("ndcg", ranking, MAX_K) == 1.0


def test_a_shallow_ranking_does_not_pass_for_a_deep_one():
    ranking = ranking_of([[0, 1]], [{0}], 50, depth=2)
    assert value("recall", ranking, 2) == 1.0
    for name in NAMES:
        with pytest.raises(ValueError, match="depth 2 does not tell the top"):
            value(name, ranking, 3)
    with pytest.raises(ValueError, match="does not tell the top 0"):
        ranking.items_at(0)


# --- building a ranking -------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1, 25, 1 << 22])
@given(world=worlds())
@settings(max_examples=40, deadline=None)
def test_hits_are_the_items_of_the_target_in_blocks_of_any_size(memory, world):
    lists, targets, n_items, popularity = world
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking_module, "BITMAP_BYTES", memory)
        ranking = ranking_of(lists, targets, n_items, popularity, depth=n_items + 2)
    for row, (chosen, target) in enumerate(zip(lists, targets, strict=True)):
        expected = [item in target for item in chosen]
        assert ranking.hits[row].tolist() == expected + [False] * (n_items + 2 - len(chosen))
        assert ranking.targets[row] == len(target)


def test_target_columns_need_not_be_sorted():
    ones = np.ones(3, dtype=np.float32)
    target = sparse.csr_array((ones, [4, 0, 2], [0, 2, 3]), shape=(2, 5))
    items = np.array([[0, 4], [3, 2]], dtype=np.int32)
    ranking = build_ranking(items, target, np.ones(5, dtype=np.int64), 2)
    assert ranking.hits.tolist() == [[True, True], [False, True]]


def test_a_constant_scorer_has_recommended_nothing():
    lists, targets = [[0, 1, 2], [0, 1, 2]], [{0, 1, 2}, {0, 1, 2}]
    ranking = ranking_of(lists, targets, 3, [5, 5, 9], tied=np.array([3, 2]))
    assert ranking.items_at(2).tolist() == [[-1, -1], [0, 1]]
    assert not ranking.hits_at(2)[0].any()
    assert ranking.items_at(1).tolist() == [[-1], [-1]]
    for name in ACCURACY + OF_LISTS:
        assert value(name, ranking, 2)[0] == 0.0, name
        assert value(name, ranking, 2)[1] > 0.0, name


def test_building_leaves_its_arguments_alone():
    items = np.array([[0, 1]], dtype=np.int32)
    target = sparse.csr_array(np.array([[1.0, 0.0]], dtype=np.float32))
    build_ranking(items, target, np.ones(2, dtype=np.int64), 1, tied=np.array([2]))
    assert items.tolist() == [[0, 1]]
    assert target.toarray().tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("items", "popularity", "match"),
    [
        ([[0, 2]], [1, 1], "index of a column"),
        ([[0, -2]], [1, 1], "index of a column"),
        ([[0, 1], [0, 1]], [1, 1], "2 users and 2 items"),
        ([[0, 1]], [1, 1, 1], "1 users and 3 items"),
    ],
)
def test_what_cannot_be_a_ranking_is_refused(items, popularity, match):
    target = sparse.csr_array(np.array([[1.0, 0.0]], dtype=np.float32))
    with pytest.raises(ValueError, match=match):
        build_ranking(np.array(items, dtype=np.int32), target, np.array(popularity), 1)


def test_users_without_targets_are_refused():
    with pytest.raises(ValueError, match="without held-out items"):
        ranking_of([[0], [1]], [{0}, set()], 2)


@pytest.mark.parametrize(("users", "match"), [(1, "same users"), (2, "no train users")])
def test_ranking_checks_its_arrays(users, match):
    items = np.zeros((2, 3), dtype=np.int32)
    with pytest.raises(ValueError, match=match):
        Ranking(items, items > 0, np.ones(users, dtype=np.int64), np.ones(3, dtype=np.int64), 0)


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_parse(name):
    spec = parse_metric(f" {name.upper()}@100 ")
    text = f"{name}[p=0.8]" if name == "rbp" else name
    assert (spec.name, spec.k, spec.text) == (name, 100, f"{text}@100")
    assert spec.function == (METRICS.get(name)() if name == "rbp" else METRICS.get(name))
    assert spec == parse_metric(f"{name}@0100")
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("ndgc@100", "unknown metric 'ndgc'; did you mean 'ndcg'"),
        ("recall_capped@20", "did you mean 'recall-capped'"),
        ("xyzzy@20", "unknown metric 'xyzzy'; known: coverage, f1"),
        ("ndcg", "metric 'ndcg' has no cutoff; write ndcg@20"),
        ("", "'' is not a metric; write a name and a cutoff, such as ndcg@100"),
        ("@20", "'@20' is not a metric"),
        ("ndcg@", "from 1 to 1000000, not ''; write for example ndcg@20"),
        ("ndcg@0", "not '0'"),
        ("ndcg@-5", "not '-5'"),
        ("ndcg@1.5", "not '1.5'"),
        ("ndcg@1e2", "not '1e2'"),
        ("ndcg@20@30", "not '20@30'"),
        ("ndcg[p=1]@20", "metric 'ndcg' has no parameters; write ndcg@20"),
        ("rbp[p=1]@20", "parameter 'p' is 1, it must be a number in (0, 1)"),
        ("rbp[q=0.5]@20", "unknown parameter of rbp 'q'; known: p"),
        ("rbp[p=0.5]", "has no cutoff; write rbp[p=0.5]@20"),
        ("rbp[p=0.5]@x", "not 'x'; write for example rbp[p=0.5]@20"),
        ("rbp[p=0.5@20", "'rbp[p=0.5' is not NAME or NAME[key=value,...]"),
        ("ndcg@ 20", "not ' 20'"),
        ("ndcg@²", "not '²'"),
        ("ndcg@٢٠", "not '٢٠'"),
        ("ndcg@1000001", "not '1000001'"),
        ("ndcg@" + "9" * 5000, "from 1 to 1000000"),
    ],
)
def test_parse_refuses_with_a_sentence(text, match):
    with pytest.raises(UsageError, match=re.escape(match)):
        parse_metric(text)


def test_a_parameter_is_part_of_the_name_of_a_metric():
    ranking = ranking_of([[1, 0, 2]], [{0, 2}], 3)
    for text, p in (("rbp@3", 0.8), ("RBP[p=0.50]@3", 0.5), ("rbp[p=0.95]@3", 0.95)):
        spec = parse_metric(text)
        assert spec.text == f"rbp[p={p}]@3"
        assert spec(ranking) == pytest.approx((1 - p) * (p + p**2))


def test_largest_cutoff():
    assert parse_metric(f"recall@{MAX_K}").k == MAX_K


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda ranking, k: np.ones(3), r"metric 'odd' gave shape \(3,\) for 2 users"),
        (lambda ranking, k: np.array([1.0, math.nan]), "metric 'odd' gave values that are not"),
        (lambda ranking, k: math.inf, "not finite"),
        (lambda ranking, k: np.ones(2) * 1j, "values of metric 'odd' .*must be real numbers"),
        (lambda ranking, k: np.ma.masked_array(np.ones(2), [0, 1]), "real numbers, not masked"),
    ],
)
def test_a_metric_that_gives_something_else_is_named(function, match):
    ranking = ranking_of([[0], [1]], [{0}, {1}], 2)
    with pytest.raises(RecbenchError, match=match):
        MetricSpec("odd", 1, "odd@1", function)(ranking)


@pytest.mark.parametrize("name", NAMES)
def test_one_number_per_user_or_one_for_everybody(name):
    values = value(name, ranking_of([[0], [1], []], [{0}, {0}, {1}], 2), 2)
    assert values.dtype == np.float64
    assert values.shape == (() if name in OF_EVERYBODY else (3,))


@pytest.mark.parametrize("depth", [1, 2, 10, 1000])
def test_discount_tables_are_shared_and_cannot_be_spoilt(depth):
    assert ideal_dcg(depth) is ideal_dcg(depth)
    for table in (metrics.discounts(depth), ideal_dcg(depth)):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 2


# --- other libraries ----------------------------------------------------------------------------


def golden(name):
    with (GOLDEN / f"metrics_{name}.csv").open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


SOURCES = golden("sources")


@pytest.fixture(scope="module")
def stored():
    rows = golden("run")
    lists, targets = (
        [[int(i) for i in row[c].split()] for row in rows] for c in ("items", "targets")
    )
    popularity = [int(row["train_users"]) for row in golden("items")]
    return ranking_of(lists, targets, len(popularity), popularity, n_train_users=200, depth=20)


@pytest.mark.parametrize("k", [1, 5, 10, 20])
@pytest.mark.parametrize("source", SOURCES, ids=lambda row: f"{row['library']}-{row['measure']}")
def test_other_libraries_agree(stored, source, k):
    table = golden(source["library"])
    cells = [row[f"{source['measure']}@{k}"] for row in table]
    ours = value(source["metric"], stored, k)
    if ours.ndim == 0:
        assert ours == float(cells[-1])
        return
    for user, (cell, mine) in enumerate(zip(cells[:-1], ours, strict=True)):
        t = stored.targets[user]
        mine *= {
            "": 1.0,
            "sum divided by t, not min(k, t)": min(k, t) / t,
            "ideal of k hits, not min(k, t)": ideal_dcg(k)[min(k, t)] / ideal_dcg(k)[k],
        }[source["differs"]]
        if cell:
            assert mine == pytest.approx(float(cell), rel=1e-12, abs=1e-15)
        else:  # the library leaves out users it has no list for; here they count as 0
            assert stored.items[user].max() == -1
            assert mine == 0.0


def test_which_metrics_another_library_confirms():
    assert {row["metric"] for row in SOURCES} == {*NAMES} - {
        "gini",
        "ndcg-ngcf",
        "popularity",
        "rbp",
    }


def test_the_stored_run_has_the_hard_cases(stored):
    lengths = (stored.items >= 0).sum(axis=1)
    assert (lengths == 0).any()
    assert ((lengths > 0) & (lengths < 20)).any()
    assert (stored.targets < 5).any()
    assert (stored.targets > 20).any()
    assert (stored.popularity == 0).any()


# --- documents ----------------------------------------------------------------------------------


def sections():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    parts = re.split(r"^## `([a-z0-9-]+)`\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_metric_has_its_section():
    own = [
        name
        for name in METRICS.names()
        if METRICS.get(name).__module__ == "recbench.evaluate.metrics"
    ]
    assert sorted(own) == NAMES
    assert sorted(sections()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_sections_answer_every_question(name):
    text = sections()[name]
    for question in ("Formula", "Denominator", "No recommendation", "Tables", "Other names"):
        assert f"**{question}.**" in text, question


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_begin_with_a_definition_that_fits_a_line(name):
    first = inspect.getdoc(METRICS.get(name)).splitlines()[0]
    assert first.endswith(".")
    assert ":" in first
    assert len(first) <= 100


@pytest.mark.shared
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published numbers are not beside the tree")
def test_sections_name_the_papers_whose_tables_use_the_metric():
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        used = {(parse_metric(row["metric"]).name, row["paper"]) for row in csv.DictReader(file)}
    named = {
        (name, paper)
        for name, text in sections().items()
        for paper in re.findall(r"`(\w+)`", text.split("**Tables.**")[1].split("**")[0])
    }
    assert named == used
