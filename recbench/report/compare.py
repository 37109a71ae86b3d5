"""Is A better than B? Paired tests on per-user values that were stored when the trials ran.

Asked for all users, for those with short and with long histories, and, of what was held out, for
popular items and for the others. All answers of one table are corrected together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.selection import selected
from recbench.errors import DataError, UsageError, unknown
from recbench.linalg.types import Flags, Vector
from recbench.report.leaderboard import rows_on
from recbench.report.stats import LEVEL, RESAMPLES, bootstrap_interval, holm, permutation_p
from recbench.report.tables import HIGH, LOW, View

NOT_METRICS = ("user", "history", "targets")
LIGHT_SHARE = 0.5
"""Users are light up to the median history, heavy above it."""
GROUPS = {
    "light": "light, heavy: users whose history is up to the median, or longer",
    "head": "head, tail: of what was held out, the most popular items with half of the "
    "interactions, or the others; of users who have any",
}
FEWEST = 20
"""Users in a group worth judging."""


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
        """The verdict as the table says it."""
        if not self.decisive:
            return "not decisive"
        return "A is better" if self.difference > 0 else "B is better"


@dataclass(frozen=True)
class Question:
    """A metric asked for a group: NaN for users who are not in it."""

    metric: str
    group: str
    a: Vector
    b: Vector

    @property
    def users(self) -> int:
        """How many users are in the group."""
        return int(np.isfinite(self.a).sum())


def compare_sides(
    campaign: Campaign, a: Sequence[Row], b: Sequence[Row], seed: int = 0,
    resamples: int = RESAMPLES, metrics: Sequence[str] = (),
) -> list[Verdict]:  # fmt: skip
    """Compare two sides of a campaign; seeds of a side are averaged user by user first."""
    if {row.trial for row in a} == {row.trial for row in b}:
        raise UsageError(
            f"A and B are both {_described(a)}; compare two different trials; "
            "`recbench show --trials` lists them"
        )
    if a[0].place != b[0].place:
        places = " and ".join(f"{side[0].dataset}, {side[0].split}" for side in (a, b))
        raise UsageError(f"these were measured on {places}; compare within one split")
    return compare(campaign.mean_per_user(a), campaign.mean_per_user(b), seed, resamples, metrics)


def compare(
    a: pd.DataFrame, b: pd.DataFrame, seed: int = 0, resamples: int = RESAMPLES,
    metrics: Sequence[str] = (),
) -> list[Verdict]:  # fmt: skip
    """Compare the per-user values of two trials, metric by metric, for all users and by group.

    Of some metrics only, where they are named: others are then not among what p is corrected for.
    """
    if len(a) != len(b) or not a["user"].equals(b["user"]):
        raise DataError("the two trials were measured on different users; compare within one split")
    asked = questions(a, b)
    for name in metrics:
        if name not in {question.metric for question in asked}:
            raise unknown("metric of both", name, {question.metric for question in asked})
    asked = [question for question in asked if question.metric in metrics or not metrics]
    if not asked:
        raise UsageError("the two trials have no metric in common; run them with the same -k")
    differences = np.column_stack([question.a - question.b for question in asked])
    low, high = bootstrap_interval(differences, seed, resamples)
    p = permutation_p(differences, seed, resamples)
    judged = zip(asked, differences.T, low, high, p, holm(p), strict=True)
    return [_verdict(*one) for one in judged]


def questions(a: pd.DataFrame, b: pd.DataFrame) -> list[Question]:
    """Every metric that both sides have, for every group of enough users."""
    shared = [name for name in a.columns if name in b.columns and name not in NOT_METRICS]
    candidates = [
        Question(name, group, *(np.where(rows, side[name], np.nan) for side in (a, b)))
        for group, rows in user_groups(a).items()
        for name in shared
        if ":" not in name
    ]
    for name in sorted((n for n in shared if ":" in n), key=lambda n: n.partition(":")[0]):
        group, _, metric = name.partition(":")
        candidates.append(Question(metric, group, a[name].to_numpy(), b[name].to_numpy()))
    return [one for one in candidates if one.group == "all" or one.users >= FEWEST]


def user_groups(values: pd.DataFrame) -> dict[str, Flags]:
    """All users, and those with short and with long histories."""
    everyone = np.ones(len(values), dtype=np.bool_)
    if "history" not in values:
        return {"all": everyone}
    middle = values["history"].quantile(LIGHT_SHARE)
    light = (values["history"] <= middle).to_numpy()
    if light.all():  # the same question twice
        return {"all": everyone}
    return {"all": everyone, "light": light, "heavy": ~light}


def _verdict(
    question: Question, differences: Vector, low: float, high: float, p: float, p_holm: float
) -> Verdict:
    there = ~np.isnan(differences)
    values = differences[there]
    mean, spread = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Verdict(
        question.metric, question.group, len(values),
        question.a[there].mean(), question.b[there].mean(),
        mean, low, high, p, p_holm, mean / spread if spread > 0 else 0.0,
        wins=int((values > 0).sum()), ties=int((values == 0).sum()), losses=int((values < 0).sum()),
    )  # fmt: skip


def find(
    campaign: Campaign, wanted: str, select: str, part: str = "test", dataset: str | None = None
) -> list[Row]:
    """The trials a user means: an id, the text of a model, or a model's selected trials.

    There are several where a model was run with several seeds.
    """
    candidates = rows_on(campaign, dataset)
    whole = [row for row in candidates if row.status == "ok" and not row.stopped]
    rows = [row for row in whole if row.part == part]
    best = selected(candidates, select)
    exact = [row for row in rows if wanted in (row.trial, row.text)]
    matches = exact or [row for row in rows if row.model == wanted and row.trial in best]
    if not matches:
        _refuse_stopped([row for row in candidates if wanted in (row.trial, row.text)])
        if not rows:
            raise DataError(f"{campaign.folder} has no finished trials on {part} to compare")
        names = {row.model for row in rows} | {row.text for row in rows}
        raise unknown(f"{part} result in {campaign.folder}", wanted, names)
    if len({row.place for row in matches}) > 1 or len({row.seed for row in matches}) < len(matches):
        options = "; ".join(
            f"{r.trial} ({r.dataset}, {r.split}, {r.text}, {r.dtype})" for r in matches
        )
        raise UsageError(f"'{wanted}' could be any of these, give the id: {options}")
    return matches


def _refuse_stopped(rows: Sequence[Row]) -> None:
    """Say why a trial that is there has nothing to compare."""
    for row in rows:
        if row.stopped:
            raise UsageError(
                f"{row.text} was stopped at round {row.stopped} by a search, so there is nothing "
                f"to compare; `recbench run -m '{row.text}'` fits it to the end"
            )


def view(verdicts: Sequence[Verdict], a: Sequence[Row], b: Sequence[Row]) -> View:
    """The verdicts as a table."""
    lines: list[dict[str, Any]] = [
        {
            "metric": v.metric, "of": v.group, "users": v.users, "A": v.a, "B": v.b,
            "A - B": v.difference, "A - B" + LOW: v.low, "A - B" + HIGH: v.high, "p": v.p,
            "p (Holm)": v.p_holm, "effect": v.effect,
            "win/tie/loss": f"{v.wins}/{v.ties}/{v.losses}", "verdict": v.words,
        }
        for v in verdicts
    ]  # fmt: skip
    decisive = [i for i, verdict in enumerate(verdicts) if verdict.decisive]
    title = f"A: {_described(a)}\nB: {_described(b)}\n{a[0].part}, {a[0].dataset}, {a[0].split}"
    table = View(title, pd.DataFrame(lines), decisive, mark="decisive", unseen=("p",))
    table.spare = ("users", "win/tie/loss", "effect", "B", "A", "A - B" + LOW, "verdict")
    table.notes = [f"* is decisive: p (Holm) below {1 - LEVEL:.2f}; [ ] is a 95 % interval"]
    table.notes += [words for group, words in GROUPS.items() if group in set(table.frame["of"])]
    return table


def _described(rows: Sequence[Row]) -> str:
    texts = " or ".join(dict.fromkeys(row.text for row in rows))
    return texts if len(rows) == 1 else f"{texts}, mean of {len(rows)} seeds"
