"""Scorers and a held-out Part to one value per user per metric.

Scorers that share a Base, or what their bases are made of, are ranked in one pass: a user is
scored once, whatever the number of models.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from recbench.evaluate.groups import Groups, by_group
from recbench.evaluate.metrics import MetricSpec
from recbench.evaluate.ranking import Ranking, build_ranking
from recbench.linalg.steps import STEPS
from recbench.linalg.topk import Top
from recbench.linalg.types import Counts, Progress, Sparse, Vector, silent
from recbench.models.scorers import Query, Scorer
from recbench.splits.types import Part

PerUser = Mapping[str, Vector]
"""Metric text to one value per user, or to a 0-d array for metrics of the whole population."""


def evaluate(
    scorers: Sequence[Scorer],
    part: Part,
    train: Sparse,
    metrics: Sequence[MetricSpec],
    progress: Progress = silent,
    groups: Groups | None = None,
) -> list[PerUser]:
    """Rank every item for every user of `part` and measure it, for each scorer in turn.

    Scorers that share a base must stand next to each other. The items of `part.seen` are never
    recommended; `train` tells how popular items are. Metrics are also taken of `groups` of items.
    """
    popularity = np.bincount(train.indices, minlength=train.shape[1])
    values: list[PerUser] = []
    for top in rank(scorers, part, max(metric.depth for metric in metrics), progress):
        with STEPS("metrics"):
            ranking = ranking_of(top, part, popularity, train.shape[0])
            sliced = by_group(ranking, part, metrics, groups or {})
            values.append({metric.text: metric(ranking) for metric in metrics} | sliced)
    return values


def rank(
    scorers: Sequence[Scorer], part: Part, depth: int, progress: Progress = silent
) -> Iterator[Top]:
    """The best items of every user by each scorer, one deeper than asked to see a tie."""
    depth = min(depth, part.target.shape[1])
    query = Query(part.history, part.train_rows, part.seen, depth + 1)
    for _, group in groupby(scorers, key=lambda scorer: id(scorer.base.shared)):
        sharing = list(group)
        with STEPS("ranking"):
            tops = [*sharing[0].base.tops(sharing, query, progress)]
        yield from tops


def ranking_of(top: Top, part: Part, popularity: Counts, n_train_users: int) -> Ranking:
    """Mark the hits, and how many of the best items of a user have one score."""
    items = top.items[:, :-1]
    return build_ranking(items, part.target, popularity, n_train_users, _tied(top))


def _tied(top: Top) -> Counts:
    """How many leading scores are equal; past any cutoff where those are all candidates."""
    listed = (top.items >= 0).sum(axis=1)
    same = (top.scores == top.scores[:, :1]) & (top.items >= 0)
    run = np.where(same.all(axis=1), same.shape[1], np.argmin(same, axis=1))
    everything = (run >= listed) & (listed > 1)
    return np.where(everything, np.iinfo(np.int64).max, run).astype(np.int64)
