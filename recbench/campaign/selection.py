"""Which trial is the best on validation: more is better, ties go by text and never by time.

This is the one place that says so. Whoever picks, ranks or races trials asks here.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from recbench.campaign.plan import Plan, Trial
from recbench.campaign.row import Row

Merit = tuple[float, float, str]
"""What trials are ordered by; the least is the best."""

Leaders = Mapping[tuple[str, int], Merit]
"""The merit of the best trial so far, by model and seed."""


def order(value: float, text: str) -> tuple[float, str]:
    """The sort key of a value and the text of its trial."""
    return -value, text


def merit(row: Row, select: str) -> Merit:
    """The sort key of a row: what was stopped comes after what was not, the unmeasured last."""
    value = row.metrics.get(select)
    return (math.inf, 0.0, row.text) if value is None else (-row.reach, *order(value, row.text))


def ranked(rows: Iterable[Row], select: str) -> list[Row]:
    """The rows, best first."""
    return sorted(rows, key=lambda row: merit(row, select))


def best(rows: Iterable[Row], select: str) -> Row:
    """The best of some rows, which must be there."""
    return min(rows, key=lambda row: merit(row, select))


def candidates(rows: Iterable[Row], select: str) -> list[Row]:
    """The rows that say how a trial did on validation, unless it was stopped."""
    valid = [row for row in rows if row.part == "valid" and not row.stopped]
    return [row for row in valid if select in row.metrics]


def leaders(rows: Iterable[Row], select: str) -> dict[tuple[str, int], Merit]:
    """How good the best trial of each model and seed is, of one dataset and split."""
    first: dict[tuple[str, int], Merit] = {}
    for row in candidates(rows, select):
        value = merit(row, select)
        first[row.rival] = min(value, first.get(row.rival, value))
    return first


def selected(rows: Iterable[Row], select: str) -> set[str]:
    """The trial of each model and seed that is the best, on every dataset and split.

    What was tested without validation, alone of its model, was chosen before.
    """
    known = list(rows)
    rivals = _rivals(candidates(known, select))
    tested = _rivals(row for row in known if row.part == "test" and row.status == "ok")
    validated = _rivals(row for row in known if row.part == "valid" and row.status != "skipped")
    alone = {
        group[0].trial for rival, group in tested.items()
        if rival not in validated and len({row.trial for row in group}) == 1
    }  # fmt: skip
    return alone | {best(group, select).trial for group in rivals.values()}


def needless(plan: Plan, trials: Iterable[Trial], rows: Iterable[Row]) -> set[str]:
    """The trials that no validation would choose from, of which it would take a fit all the same.

    Each is the only one of its model and seed, in the plan and among what was validated before, and
    does not ask validation itself when to stop.
    """
    if not (plan.spare and plan.rule.refits):
        return set()
    known = list(trials)
    here = plan.dataset.name, plan.rule.text
    validated = {row.rival for row in rows
                 if row.part == "valid" and (row.dataset, row.split) == here}  # fmt: skip
    rivals = Counter(trial.rival for trial in known)
    return {
        trial.id for trial in known
        if rivals[trial.rival] == 1 and trial.rival not in validated
        and not trial.model.values().get("patience")
    }  # fmt: skip


def _rivals(rows: Iterable[Row]) -> dict[tuple[object, ...], list[Row]]:
    """Rows that compete, together."""
    rivals: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        rivals.setdefault((row.dataset, row.split, *row.rival), []).append(row)
    return rivals
