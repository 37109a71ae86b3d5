"""Metrics of a part of the held-out items: did a model find what everybody has, or the rest?

The ranking stays what it is. Of it, and of what was held out, only the items of a group count:
`tail:recall@20` is the share of a user's held-out tail items that is in the top 20.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from recbench.evaluate.metrics import MetricSpec
from recbench.evaluate.ranking import Ranking
from recbench.linalg.types import Flags, Sparse, Vector
from recbench.splits.types import Part

HEAD_SHARE = 0.5
"""The head is the most popular items that together have this share of the train interactions."""

Groups = Mapping[str, Flags]
"""By name: which items belong."""


def head_and_tail(train: Sparse) -> Groups:
    """Divide the items by popularity in the train matrix; ties by column."""
    popularity = np.bincount(train.indices, minlength=train.shape[1])
    order = np.argsort(-popularity, kind="stable")
    before = np.cumsum(popularity[order]) - popularity[order]
    head = np.zeros(len(popularity), dtype=np.bool_)
    head[order] = before < HEAD_SHARE * popularity.sum()
    return {"head": head, "tail": ~head}


def by_group(
    ranking: Ranking, part: Part, metrics: Sequence[MetricSpec], groups: Groups
) -> dict[str, Vector]:
    """`GROUP:METRIC` to one value per user; NaN for users of whom no item of it was held out."""
    values = {}
    for name, items in groups.items():
        targets = (part.target @ items).astype(np.int64)
        rows = targets > 0
        of_group = replace(
            ranking,
            items=ranking.items[rows],
            hits=(ranking.hits & items[ranking.items])[rows],  # -1 is some item, and no hit
            targets=targets[rows],
            tied=None if ranking.tied is None else ranking.tied[rows],
        )
        for metric in metrics:
            if metric.chooses:
                values[f"{name}:{metric.text}"] = _spread_out(metric(of_group), rows)
    return values


def _spread_out(values: Vector, rows: Flags) -> Vector:
    if values.ndim == 0:
        return values
    whole = np.full(len(rows), np.nan)
    whole[rows] = values
    return whole
