"""Is A better than B? Paired tests on per-user values that were stored when the trials ran.

Users are the sample: both sides measured the same users, so everything works on differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from recbench.errors import DataError, UsageError, unknown
from recbench.report import View
from recbench.results import Campaign, Row, selected

Vector = npt.NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95
BLOCK = 1 << 23
"""Random numbers held at a time."""
NOT_METRICS = ("user", "history", "targets")
LIGHT_SHARE = 0.5
"""Users are light up to the median history, heavy above it."""


@dataclass(frozen=True)
class Verdict:
    """What the differences of one metric say about A against B."""

    metric: str
    group: str
    users: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    effect: float
    """Mean difference over the standard deviation of differences."""
    wins: int
    ties: int
    losses: int

    @property
    def decisive(self) -> bool:
        """Whether a difference this large is unlikely by chance, after Holm's correction."""
        return self.p_holm < 1 - LEVEL

    @property
    def words(self) -> str:
        """The verdict in a word or two."""
        if not self.decisive:
            return "not decisive"
        return "A is better" if self.difference > 0 else "B is better"


def compare(
    a: pd.DataFrame, b: pd.DataFrame, seed: int = 0, resamples: int = RESAMPLES
) -> list[Verdict]:
    """Compare the per-user values of two trials, metric by metric, for all users and by group."""
    metrics = [name for name in a.columns if name in b.columns and name not in NOT_METRICS]
    if not metrics:
        raise UsageError("the two trials have no metric in common; run them with the same -k")
    if len(a) != len(b) or not a["user"].equals(b["user"]):
        raise DataError("the two trials were measured on different users; compare within one split")
    left, right = (frame[metrics].to_numpy(np.float64) for frame in (a, b))
    made = []
    for group, rows in groups(a).items():
        made += _judge(left[rows], right[rows], metrics, group, seed, resamples)
    return holm(made)


def groups(values: pd.DataFrame) -> dict[str, npt.NDArray[np.bool_]]:
    """All users, and those with short and with long histories."""
    everyone = np.ones(len(values), dtype=np.bool_)
    if "history" not in values:
        return {"all": everyone}
    middle = values["history"].quantile(LIGHT_SHARE)
    light = (values["history"] <= middle).to_numpy()
    found = {
        "all": everyone,
        f"light (<= {middle:g} items)": light,
        f"heavy (> {middle:g} items)": ~light,
    }
    return {name: rows for name, rows in found.items() if rows.sum() > 1}


def _judge(
    left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], metrics: Sequence[str],
    group: str, seed: int, resamples: int,
) -> list[Verdict]:  # fmt: skip
    differences = left - right
    low, high = bootstrap_interval(differences, seed, resamples)
    p = permutation_p(differences, seed, resamples)
    spread = differences.std(axis=0, ddof=1)
    mean = differences.mean(axis=0)
    return [
        Verdict(
            metric, group, len(left), left[:, i].mean(), right[:, i].mean(),
            mean[i], low[i], high[i], p[i], p[i], mean[i] / spread[i] if spread[i] > 0 else 0.0,
            wins=int((differences[:, i] > 0).sum()), ties=int((differences[:, i] == 0).sum()),
            losses=int((differences[:, i] < 0).sum()),
        )
        for i, metric in enumerate(metrics)
    ]  # fmt: skip


def bootstrap_interval(
    differences: npt.NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[Vector, Vector]:
    """Percentile interval of the mean of each column, users drawn with replacement."""
    rng, users = np.random.default_rng(seed), len(differences)
    means = np.empty((resamples, differences.shape[1]))
    for start, stop in _blocks(resamples, users):
        drawn = rng.integers(users, size=(stop - start, users), dtype=np.int32)
        # How often each user was drawn turns the means into one matrix product.
        drawn += np.arange(stop - start, dtype=np.int32)[:, np.newaxis] * users
        times = np.bincount(drawn.ravel(), minlength=(stop - start) * users)
        means[start:stop] = times.reshape(stop - start, users) @ differences / users
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def permutation_p(
    differences: npt.NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES
) -> Vector:
    """Two-sided p of each column's mean if every user's A and B were swapped by a coin.

    The observed assignment counts as one of the draws, so p is never 0 and the test never
    rejects too often.
    """
    rng, users = np.random.default_rng([seed, 1]), len(differences)
    observed = np.abs(differences.sum(axis=0))
    slack = 1e-12 * np.abs(differences).sum(axis=0)  # sums in another order are not more extreme
    extreme = np.zeros(differences.shape[1], dtype=np.int64)
    for start, stop in _blocks(resamples, users):
        coins = np.frombuffer(rng.bytes((stop - start) * (-(-users // 8))), dtype=np.uint8)
        heads = np.unpackbits(coins.reshape(stop - start, -1), axis=1, count=users)
        totals = 2.0 * (heads @ differences) - differences.sum(axis=0)
        extreme += (np.abs(totals) >= observed - slack).sum(axis=0)
    return (extreme + 1) / (resamples + 1)


def _blocks(resamples: int, users: int) -> list[tuple[int, int]]:
    step = max(1, BLOCK // max(users, 1))
    return [(start, min(start + step, resamples)) for start in range(0, resamples, step)]


def holm(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Correct the p values of everything that is looked at together."""
    order = sorted(range(len(verdicts)), key=lambda i: verdicts[i].p)
    corrected, running = [0.0] * len(verdicts), 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(verdicts) - rank) * verdicts[i].p))
        corrected[i] = running
    return [replace(v, p_holm=p) for v, p in zip(verdicts, corrected, strict=True)]


def find(campaign: Campaign, wanted: str, select: str, part: str = "test") -> Row:
    """The trial a user means: an id, the text of a model, or a model's selected trial."""
    rows = [row for row in campaign.rows().values() if row.part == part and row.status == "ok"]
    best = selected(campaign.rows().values(), select)
    exact = [row for row in rows if wanted in (row.trial, row.text)]
    chosen = [row for row in rows if row.model == wanted and row.trial in best]
    found = exact or chosen
    if not found:
        names = {row.model for row in rows} | {row.text for row in rows}
        raise unknown(f"{part} result in {campaign.folder}", wanted, names)
    if len(found) > 1:
        options = ", ".join(f"{row.text} (seed {row.seed}, id {row.trial})" for row in found)
        raise UsageError(f"'{wanted}' could be {options}; give the id")
    return found[0]


def view(verdicts: Sequence[Verdict], a: Row, b: Row, part: str) -> View:
    """The verdicts as a table."""
    lines: list[dict[str, Any]] = [
        {
            "metric": v.metric, "users": v.group, "n": v.users, "A": v.a, "B": v.b,
            "A - B": v.difference, "95% low": v.low, "95% high": v.high, "p": v.p,
            "p (Holm)": v.p_holm, "effect": v.effect,
            "win/tie/loss": f"{v.wins}/{v.ties}/{v.losses}", "verdict": v.words,
        }
        for v in verdicts
    ]  # fmt: skip
    decisive = [i for i, verdict in enumerate(verdicts) if verdict.decisive]
    made = View(f"A: {a.text}\nB: {b.text}\n{part}, {a.dataset}, {a.split}", pd.DataFrame(lines))
    made.marked = decisive
    made.notes = [f"* is decisive: p (Holm) below {1 - LEVEL:.2f}"]
    return made
