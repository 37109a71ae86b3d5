"""What a ranking is worth: every metric, a few lines over a `Ranking`.

In the formulas T is the set of items held out of one user, t = |T|, ranks r count from 1, and
hit(r) is 1 where the item at rank r is in T, else 0. A metric gives one number per user, or one
number where it describes everybody's lists together. No metric adds in an order that depends on
blocks or threads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from recbench.brackets import name_in
from recbench.errors import RecbenchError, UsageError, check_takes, home_of, located
from recbench.evaluate.ranking import Ranking
from recbench.linalg.real import real
from recbench.linalg.types import Counts, Flags, Indices, Vector
from recbench.params import Described, param
from recbench.registry import METRICS, build

MAX_K = 1_000_000
"""The longest list a metric may ask for: more than any catalogue has items."""
NGCF_WINDOW = 100
"""The longest of NGCF's default cutoffs, over which its ideal ranking is taken."""


Measure = Callable[[Ranking, int], Vector | float]
"""What a metric is: a function, or a Metric, of a ranking and a cutoff."""


class Metric(Described, ABC):
    """Parameters, frozen, of a metric: `rbp[p=0.8]@20`. One without any may be a function.

    Subclasses are dataclasses with `param` fields, registered under a name.
    """

    cite: ClassVar[str] = ""
    chooses: ClassVar[bool] = True
    """Whether more is better, so that trials can be selected by it."""
    window: ClassVar[int] = 0
    """How many ranks it looks at, whatever the cutoff."""

    @abstractmethod
    def __call__(self, ranking: Ranking, k: int) -> Vector | float:
        """One number per user, or one for everybody."""


@dataclass(frozen=True)
class MetricSpec:
    """A metric as asked for: which one, and how far down the list it looks."""

    name: str
    k: int
    text: str
    """The canonical name, such as `ndcg@100`."""
    function: Measure

    @property
    def depth(self) -> int:
        """How many ranks must be known; a metric with a `window` looks beyond its cutoff."""
        return max(self.k, getattr(self.function, "window", 0))

    @property
    def chooses(self) -> bool:
        """Whether more is better, so that trials can be selected by it."""
        return bool(getattr(self.function, "chooses", True))

    def __call__(self, ranking: Ranking) -> Vector:
        """Compute one finite number per user, or a single one (0-d) for everybody."""
        function = self.function
        called = function.__call__ if isinstance(function, Metric) else function
        home = home_of(called)
        check_takes(
            called, (ranking, self.k), f"metric {self.name!r}", "a function of (ranking, k)"
        )
        given = real(function(ranking, self.k), located(f"values of metric {self.name!r}", home))
        values = np.asarray(given, dtype=np.float64)
        if values.shape not in ((), (len(ranking),)):
            words = (
                f"metric '{self.name}' gave shape {values.shape} for {len(ranking)} users; "
                "return one number per user, or a single number for everybody"
            )
            raise RecbenchError(located(words, home))
        if not np.isfinite(values).all():
            words = (
                f"metric '{self.name}' gave values that are not finite; "
                "return a number for every user, also for one without recommendations"
            )
            raise RecbenchError(located(words, home))
        return values


def parse_metric(text: str) -> MetricSpec:
    """Read `ndcg@100` or `rbp[p=0.8]@20`, names in upper or lower case."""
    end = text.rfind("]") + 1
    described, at, cutoff = text[end:].strip().partition("@")
    described = text[:end].strip() + described
    name = name_in(described).lower()
    if not name:
        raise UsageError(f"'{text}' is not a metric; write a name and a cutoff, such as ndcg@100")
    described = name + described[len(name) :]
    function = measure_of(described)
    if not at:
        raise UsageError(
            f"metric '{text}' has no cutoff; write {described}@20 for the first 20 ranks"
        )
    digits = cutoff.isascii() and cutoff.isdigit() and len(cutoff) <= len(str(MAX_K))
    if not digits or not 1 <= int(cutoff) <= MAX_K:
        raise UsageError(
            f"metric '{text}': the cutoff must be a whole number from 1 to {MAX_K}, "
            f"not '{cutoff}'; write for example {described}@20"
        )
    canonical = function.text if isinstance(function, Metric) else name
    return MetricSpec(name, int(cutoff), f"{canonical}@{int(cutoff)}", function)


def metric_text(text: str) -> str:
    """What results call a metric that is typed, whether it is a plugin's that is not given now."""
    name = name_in(text).lower()
    return parse_metric(text).text if name in METRICS.names() or not name else text.strip()


def measure_of(described: str) -> Measure:
    """The metric that `name` or `name[key=value,…]` describes."""
    name = name_in(described)
    function: Measure = METRICS.get(name)
    if isinstance(function, type):
        made: Measure = build(described, METRICS)
        return made
    if described != name:
        raise UsageError(f"metric '{name}' has no parameters; write {name}@20")
    return function


@METRICS.register("recall")
def recall(ranking: Ranking, k: int) -> Vector:
    """The share of the held-out items that is in the top k: hits / t."""
    return ranking.hit_counts(k) / ranking.targets


@METRICS.register("recall-capped")
def recall_capped(ranking: Ranking, k: int) -> Vector:
    """The share of the hits that a list of k could have had: hits / min(k, t)."""
    return ranking.hit_counts(k) / np.minimum(ranking.targets, k)


@METRICS.register("precision")
def precision(ranking: Ranking, k: int) -> Vector:
    """The share of the top k that was held out: hits / k, however short the list is."""
    return ranking.hit_counts(k) / k


@METRICS.register("f1")
def f1(ranking: Ranking, k: int) -> Vector:
    """The harmonic mean of precision and recall: 2 hits / (k + t)."""
    return 2 * ranking.hit_counts(k) / (ranking.targets + k)


@METRICS.register("hit")
def hit(ranking: Ranking, k: int) -> Vector:
    """Whether the top k holds any held-out item: 1 if hits > 0, else 0."""
    return (ranking.hit_counts(k) > 0).astype(np.float64)


@METRICS.register("mrr")
def reciprocal_rank(ranking: Ranking, k: int) -> Vector:
    """The reciprocal of the rank of the first hit: 1 / min{r ≤ k : hit(r)}, or 0 without one."""
    hits = ranking.hits_at(k)
    reciprocal: Vector = hits.any(axis=1) / (hits.argmax(axis=1) + 1)
    return reciprocal


@METRICS.register("map")
def average_precision(ranking: Ranking, k: int) -> Vector:
    """The precision at every hit, averaged: Σ_{r≤k} hit(r) · hits(r)/r / min(k, t)."""
    counts = ranking.hit_counts(k)
    users, ranks = np.nonzero(ranking.hits_at(k))
    earlier = np.cumsum(counts) - counts
    nth_hit = np.arange(1, len(users) + 1) - earlier[users]
    total = np.bincount(users, weights=nth_hit / (ranks + 1), minlength=len(ranking))
    return total / np.minimum(ranking.targets, k)


@METRICS.register("ndcg")
def ndcg(ranking: Ranking, k: int) -> Vector:
    """Discounted gain over its best: Σ_{r≤k} hit(r)/log2(r+1) / Σ_{r≤min(k,t)} 1/log2(r+1)."""
    return _dcg(ranking.hits_at(k)) / ideal_dcg(k)[np.minimum(ranking.targets, k)]


@METRICS.register("rbp")
@dataclass(frozen=True)
class RankBiasedPrecision(Metric):
    """What a reader finds who goes on with probability p: (1 - p) Σ_{r≤k} p^(r-1) hit(r)."""

    cite = (
        "Moffat and Zobel (2008), Rank-Biased Precision for Measurement of Retrieval Effectiveness"
    )

    p: float = param(
        0.8, help="probability to look at the next rank", low=0, high=1, open_low=True,
        open_high=True, grid=(0.5, 0.8, 0.95),
    )  # fmt: skip

    def __call__(self, ranking: Ranking, k: int) -> Vector:
        """A number for each user."""
        users, ranks = np.nonzero(ranking.hits_at(k))
        found = np.bincount(users, self.p ** ranks.astype(np.float64), minlength=len(ranking))
        return (1 - self.p) * found.astype(np.float64)


@METRICS.register("ndcg-ngcf")
def ndcg_ngcf(ranking: Ranking, k: int) -> Vector:
    """NDCG as NGCF computes it: Σ_{r≤k} hit(r)/log2(r+1) / Σ_{r≤min(k,h)} 1/log2(r+1).

    h is the number of hits in the top max(k, 100), where `ndcg` has t: the ideal is the same list
    with its hits moved to the front, so targets it missed cost nothing. 0 without a hit. Not
    comparable with `ndcg`.
    """
    counts = ranking.hit_counts(max(k, NGCF_WINDOW))
    gain = _dcg(ranking.hits_at(k))
    ideal = ideal_dcg(k)[np.minimum(counts, k)]
    return np.divide(gain, ideal, out=np.zeros_like(gain), where=counts > 0)


ndcg_ngcf.window = NGCF_WINDOW  # what MetricSpec.depth reads


def _dcg(hits: Flags) -> Vector:
    """Σ hit(r)/log2(r+1), added in rank order: a perfect list equals its ideal to the last bit."""
    users, ranks = np.nonzero(hits)
    weights = discounts(hits.shape[1])[ranks]
    return np.bincount(users, weights, minlength=len(hits)).astype(np.float64)


@lru_cache(maxsize=64)
def discounts(depth: int) -> Vector:
    """1/log2(r+1) for r = 1 .. depth."""
    table = 1 / np.log2(np.arange(2, depth + 2))
    table.flags.writeable = False  # shared by every caller
    return table


@lru_cache(maxsize=64)
def ideal_dcg(depth: int) -> Vector:
    """The gain of a list whose first n ranks are hits, for n = 0 .. depth."""
    table = np.concatenate([[0.0], np.cumsum(discounts(depth))])
    table.flags.writeable = False
    return table


@METRICS.register("coverage")
def coverage(ranking: Ranking, k: int) -> float:
    """The share of the items that is in anybody's top k: |∪_u top_k(u)| / n_items."""
    return np.count_nonzero(_exposure(ranking, k)) / ranking.n_items


@METRICS.register("gini")
def gini(ranking: Ranking, k: int) -> float:
    """How unequally the items share the top k lists: Σ_j (2j - n - 1) e_(j) / (n Σ_j e_j).

    e_(j) are the numbers of lists each of the n items is in, ascending. 0: all items equally
    often; (n-1)/n: one item only; 1 where nobody was recommended anything.
    """
    exposure = np.sort(_exposure(ranking, k))
    n, total = len(exposure), int(exposure.sum())
    if total == 0:
        return 1.0
    weights = 2 * np.arange(1, n + 1) - n - 1
    return int(weights @ exposure) / (n * total)


def _exposure(ranking: Ranking, k: int) -> Counts:
    """How many top k lists each item is in."""
    lists = np.zeros(ranking.n_items + 1, dtype=np.int64)
    for rank in ranking.items_at(k).T:
        lists += np.bincount(rank + 1, minlength=len(lists))
    return lists[1:]  # the first counts the empty places


@METRICS.register("novelty")
def novelty(ranking: Ranking, k: int) -> Vector:
    """The mean self-information of the top k in bits: mean of log2(train users / users of item).

    An item nobody has counts as if one user had it. 0 for a user recommended nothing.
    """
    users = np.maximum(ranking.popularity, 1)
    return _mean_over_list(ranking.items_at(k), np.log2(ranking.n_train_users / users))


@METRICS.register("popularity")
def popularity_percentile(ranking: Ranking, k: int) -> Vector:
    """The mean popularity percentile of the top k: mean of (items less popular + ties/2) / n_items.

    Popularity is the number of train users, ties include the item itself; 0.5 is a random list,
    near 1 the most popular items. 0 for a user recommended nothing.
    """
    order = np.sort(ranking.popularity)
    less = np.searchsorted(order, ranking.popularity, side="left")
    up_to = np.searchsorted(order, ranking.popularity, side="right")
    return _mean_over_list(ranking.items_at(k), (less + up_to) / (2 * ranking.n_items))


def _mean_over_list(items: Indices, value: Vector) -> Vector:
    """Average a value per item over the items each user was recommended; 0 if there are none."""
    padded = np.append(value, 0.0)  # what -1 points at
    total = np.zeros(len(items))
    for rank in items.T:  # rank by rank: no users x k array of floats
        total += padded[rank]
    length: Counts = (items >= 0).sum(axis=1, dtype=np.int64)
    return total / np.maximum(length, 1)


for _description in (coverage, gini, novelty, popularity_percentile):
    _description.chooses = False  # they describe lists; more of them is not better
