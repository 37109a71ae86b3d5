"""Which models stand where: their selected trials, spread over seeds, and who beats whom.

A model stands with its selected trial, or with one per seed if it was run with several.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recbench.brackets import name_in
from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.selection import selected
from recbench.errors import DataError, UsageError
from recbench.params import format_value
from recbench.registry import METRICS
from recbench.report.stats import LEVEL, holm, pairwise_p

LETTERS = string.ascii_lowercase
"""Models beyond the last letter are listed, and not compared."""


@dataclass(frozen=True)
class Standing:
    """The selected trials of a model on one part, one per seed."""

    model: str
    rows: Sequence[Row]

    def mean(self, metric: str) -> float:
        """The metric, averaged over seeds; NaN where it was not measured."""
        values = self._values(metric)
        return float(np.mean(values)) if values else float("nan")

    def spread(self, metric: str) -> float:
        """The standard deviation over seeds; NaN for a single one."""
        values = self._values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    def _values(self, metric: str) -> list[float]:
        return [row.metrics[metric] for row in self.rows if metric in row.metrics]

    @property
    def parameters(self) -> str:
        """What was selected."""
        return " ".join(f"{name}={value}" for name, value in self.settings.items())

    @property
    def settings(self) -> Mapping[str, str]:
        """The same by name; values that differ between seeds with bars between them."""
        settings: dict[str, str] = {}
        for name in dict.fromkeys(name for row in self.rows for name in row.parameters):
            given = [row.parameters.get(name) for row in self.rows]
            values = dict.fromkeys(format_value(value) for value in given if value is not None)
            settings |= {name: "|".join(values)} if values else {}
        return settings


def standings(rows: Sequence[Row], select: str, part: str, sort: str) -> list[Standing]:
    """The models of one dataset and split, best first.

    A model that has no validation values to select by stands with every trial on its own. What a
    search stopped does not stand.
    """
    best = selected(rows, select)
    tuned = {row.model for row in rows if row.trial in best}
    by_model: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.text, row.seed)):
        stands = row.trial in best or row.model not in tuned
        if row.part == part and row.status == "ok" and stands and not row.stopped:
            by_model.setdefault(row.model if row.model in tuned else row.text, []).append(row)
    standing = [Standing(model, trials) for model, trials in by_model.items()]
    return sorted(standing, key=lambda one: (-np.nan_to_num(one.mean(sort), nan=-1), one.model))


def more_is_better(metric: str) -> bool:
    """Whether a metric says which list is better; of one that is not installed, it is assumed."""
    try:
        return bool(getattr(METRICS.get(name_in(metric)), "chooses", True))
    except UsageError:
        return True


def superiority(
    campaign: Campaign, standing: Sequence[Standing], metrics: Sequence[str]
) -> dict[str, list[str]]:
    """For each metric and model, the letters of the models that it is significantly better than.

    Every two models are compared by a permutation test on their users, seeds averaged user by
    user first. The p values of all pairs are corrected together, for each metric on its own.
    """
    compared = standing[: len(LETTERS)]
    values = _per_user(campaign, compared, metrics)
    p = pairwise_p(values)
    above, below = np.triu_indices(len(compared), k=1)
    better: dict[str, list[str]] = {}
    for k, metric in enumerate(metrics):
        better[metric] = [""] * len(standing)
        decisive = holm(p[above, below, k]) < 1 - LEVEL
        wins = np.zeros((len(compared), len(compared)), dtype=np.bool_)
        wins[above[decisive], below[decisive]] = wins[below[decisive], above[decisive]] = True
        means = values[:, :, k].mean(axis=0)
        wins &= np.greater.outer(means, means)
        for i, losers in enumerate(wins):
            better[metric][i] = "".join(LETTERS[j] for j in np.flatnonzero(losers))
    return better


def _per_user(
    campaign: Campaign, standing: Sequence[Standing], metrics: Sequence[str]
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Users x models x metrics."""
    frames = [campaign.mean_per_user(one.rows) for one in standing]
    for one, frame in zip(standing, frames, strict=True):
        if not frame["user"].equals(frames[0]["user"]):
            raise DataError(f"{one.model} and {standing[0].model} were measured on other users")
    return np.stack([frame[list(metrics)].to_numpy() for frame in frames], axis=1)
