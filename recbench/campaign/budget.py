"""What each model gets to be tuned: so many trials, or so many seconds, the same for all.

What a model and seed have had is what the rows of its trials on validation say: the seconds of
fits, of what was measured on the way, and of ranking. So a run that goes on counts what it finds.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recbench.campaign.manifest import Run
from recbench.campaign.row import Row
from recbench.errors import UsageError, counted

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Contest = tuple[tuple[str, str, str], tuple[str, int]]
"""A dataset and split, and a model and seed whose trials compete on it."""


@dataclass(frozen=True)
class Tuning:
    """What the trials of one model and seed were, and took."""

    trials: int = 0
    seconds: float = 0.0


def seconds_of(text: str | None) -> float:
    """Read `90s`, `30m` or `1h30m`; without a text there is no limit."""
    if text is None:
        return math.inf
    words = re.findall(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text.replace(" ", ""))
    seconds = sum(float(number) * UNITS[unit] for number, unit in words)
    if "".join(map("".join, words)) != text.replace(" ", "") or not 0 < seconds < math.inf:
        raise UsageError(f"--time-limit {text} is no time; write 90s, 30m, 2h or 1h30m")
    return seconds


def tunings(rows: Iterable[Row]) -> dict[Contest, Tuning]:
    """What each model and seed has had, on each dataset and split."""
    found: dict[Contest, Tuning] = {}
    for row in rows:
        if row.part == "valid":
            before = found.get((row.place, row.rival), Tuning())
            took = row.fit_seconds + row.validation_seconds + row.score_seconds
            found[row.place, row.rival] = Tuning(before.trials + 1, before.seconds + took)
    return found


def tuning_columns(found: Mapping[Contest, Tuning], rows: Sequence[Row]) -> dict[str, float | None]:
    """What tables say of it beside some rows, of the seed that had most to choose from.

    One seed may choose for all. Nothing where nothing was tuned, or no model had more than one
    trial to choose from.
    """
    had = [found.get((row.place, row.rival), Tuning()) for row in rows]
    if max((tuning.trials for tuning in found.values()), default=0) < 2 or not had[0].trials:
        return {"tried": None, "tuning s": None}
    most = max(had, key=lambda tuning: tuning.trials)
    return {"tried": most.trials, "tuning s": most.seconds}


def unbegun(runs: Iterable[Run], rows: Iterable[Row]) -> Counter[str]:
    """By model: how many trials the last run of it, on what the rows are of, did not begin."""
    places, last = {(row.dataset, row.split) for row in rows}, dict[tuple[str, ...], int]()
    for run in runs:
        place = run["dataset"]["name"], run["split"]
        if place in places:
            last |= {(*place, model): count for model, count in run.get("unbegun", {}).items()}
    counts = Counter[str]()
    for (*_, model), count in last.items():
        counts[model] += count
    return counts


def unbegun_notes(counts: Mapping[str, int]) -> list[str]:
    """The same as sentences."""
    return [
        f"{model}: {counted(count, 'trial')} did not begin, the time of the model was used up; the "
        "same command with a longer --time-limit goes on"
        for model, count in counts.items()
        if count
    ]
