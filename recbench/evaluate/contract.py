"""What every metric must do, whoever wrote it: `recbench check-plugin NAME`."""

from collections.abc import Iterator, Sequence

import numpy as np
import scipy

from recbench.evaluate.metrics import Measure, Metric, MetricSpec, parse_metric
from recbench.evaluate.ranking import Ranking, build_ranking
from recbench.linalg.types import Vector
from recbench.registry import CheckResult, Contract

ITEMS = 12
CUTOFF = 3

CONTRACT: Contract[Measure] = Contract()


def check_metric(metric: Measure | type[Metric]) -> Iterator[CheckResult]:
    """Put a metric, a function or a Metric, through every check."""
    return CONTRACT.check(metric() if isinstance(metric, type) else metric)


def ranking_of(lists: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Ranking:
    """What users were recommended, and what was held out of each."""
    items = np.full((len(lists), ITEMS), -1, dtype=np.int32)
    for row, best in enumerate(lists):
        items[row, : len(best)] = best
    target = np.zeros((len(targets), ITEMS), dtype=np.float32)
    for row, wanted in enumerate(targets):
        target[row, list(wanted)] = 1
    popularity = np.arange(ITEMS, dtype=np.int64)  # nobody has the first
    return build_ranking(items, scipy.sparse.csr_array(target), popularity, n_train_users=ITEMS)


def example(users: int = 30, seed: int = 7) -> Ranking:
    """Lists and held-out items of all sizes; the first user is recommended nothing."""
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(ITEMS)[: rng.integers(ITEMS + 1) if u else 0] for u in range(users)]
    targets = [rng.permutation(ITEMS)[: rng.integers(1, ITEMS)] for _ in range(users)]
    return ranking_of(lists, targets)  # type: ignore[arg-type]


def values(metric: Measure, ranking: Ranking, k: int = CUTOFF) -> Vector:
    """What a metric gives, as a run takes it."""
    name = getattr(metric, "name", "metric")
    return MetricSpec(name, k, f"{name}@{k}", metric)(ranking)


@CONTRACT.rule
def _numbers(metric: Measure) -> None:
    """A finite number for every user, or one for everybody, at any cutoff."""
    for k in (1, CUTOFF, ITEMS, 10 * ITEMS):
        values(metric, example(), k)


@CONTRACT.rule
def _one(metric: Measure) -> None:
    """A single user is enough, also one who was recommended nothing."""
    for best in ([], [4, 2]):
        values(metric, ranking_of([best], [[2, 3]]))


@CONTRACT.rule
def _pure(metric: Measure) -> None:
    """The same lists give the same numbers, and are left alone."""
    ranking, untouched = example(), example()
    first, second = values(metric, ranking), values(metric, ranking)
    assert np.array_equal(first, second), "asked twice, it gives other numbers"
    for name in ("items", "hits", "targets", "popularity"):
        same = np.array_equal(getattr(ranking, name), getattr(untouched, name))
        assert same, f"`ranking.{name}` was changed"


@CONTRACT.rule
def _alone(metric: Measure) -> None:
    """The number of a user depends on no other user."""
    together = values(metric, example())
    if together.ndim == 0:
        return  # one number for everybody
    ranking = example()
    for user in range(len(ranking)):
        row = slice(user, user + 1)
        one = Ranking(
            ranking.items[row], ranking.hits[row], ranking.targets[row], ranking.popularity,
            ranking.n_train_users,
        )  # fmt: skip
        alone = values(metric, one)
        assert alone.shape == (1,), "one number for a single user, which is none of that user's"
        close = np.isclose(alone[0], together[user], rtol=1e-12, atol=0)
        assert close, f"{together[user]:g} among others, {alone[0]:g} alone"


@CONTRACT.rule
def _depth(metric: Measure) -> None:
    """What stands below the cutoff does not matter, nor what is below its `window`."""
    depth = max(CUTOFF, getattr(metric, "window", 0))
    ranking = example()
    items, hits = ranking.items.copy(), ranking.hits.copy()
    items[:, depth:], hits[:, depth:] = -1, False
    cut = Ranking(items, hits, ranking.targets, ranking.popularity, ranking.n_train_users)
    same = np.array_equal(values(metric, ranking), values(metric, cut))
    assert same, f"ranks beyond {depth} change it; say how many it looks at: `window = ...`"


@CONTRACT.rule
def _more(metric: Measure) -> None:
    """More of it is better, unless it says `chooses = False`."""
    if not getattr(metric, "chooses", True):
        return
    found, missed = (
        float(np.mean(values(metric, ranking_of([best] * 2, [[0, 1, 2], [1, 2, 3]]))))
        for best in ([1, 2, 0, 3, 4], [9, 8, 7, 6, 5])
    )
    assert found > missed, (
        f"lists of hits are worth {found:g}, lists without any {missed:g}; a metric that is not to "
        "select by says `chooses = False`"
    )


@CONTRACT.rule
def _text(metric: Measure) -> None:
    """Its canonical text reads back as the same metric."""
    text = metric.text if isinstance(metric, Metric) else getattr(metric, "name", "")
    if text:
        assert parse_metric(f"{text}@5").text == f"{text}@5", f"'{text}' reads back as another"
