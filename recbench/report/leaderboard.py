"""Models ranked, a line each: the table that goes into a paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from recbench.campaign.budget import (
    Contest,
    Tuning,
    tuning_columns,
    tunings,
    unbegun,
    unbegun_notes,
)
from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row, fact_columns, facts_by_column, metric_names
from recbench.campaign.table import frame_of
from recbench.errors import DataError, unknown
from recbench.params import format_value, plain
from recbench.report.edges import edge_notes, specs_of
from recbench.report.standings import LETTERS, Standing, more_is_better, standings, superiority
from recbench.report.tables import BETTER, SPREAD, View
from recbench.report.trials import failure_notes, stopped_notes

PARTS = {"test": "test", "valid": "validation"}
MANY = 6
"""Of more parameters than these, a legend leaves out the defaults: lines would be lists of them."""
HIDDEN = ("dataset", "split", "parameters", "seeds", "trials")
"""What programs want to know of a line; people read it around the table."""

SPARE = ("rank s", "peak GB", "tuning s", "tried")


@dataclass(frozen=True)
class Wanted:
    """What of a campaign to rank, and how."""

    select: str = ""
    """The metric that chose on validation; that of each dataset's last run, if empty."""
    part: str = "test"
    sort: str = ""
    """A metric; the one that selects, if empty."""
    top: int | None = None
    metrics: Sequence[str] = ()
    """All that were measured, if empty."""
    dataset: str | None = None

    @property
    def key(self) -> str:
        """The metric to sort by."""
        return self.sort or self.select


def leaderboard_views(campaign: Campaign, wanted: Wanted) -> list[View]:
    """A table per dataset and split; with several, one of mean ranks too."""
    rows = rows_on(campaign, wanted.dataset)
    places = {place: _of_place(campaign, rows, place, wanted) for place in {r.place for r in rows}}
    _refuse_unknown([row for row in rows if row.part == wanted.part], wanted)
    by_place: dict[str, list[Standing]] = {}
    views = []
    for place, (here, choice) in sorted(places.items()):
        standing = standings(here, choice.select, choice.part, choice.key)
        if standing and choice.key in metric_names([row for one in standing for row in one.rows]):
            views.append(leaderboard_view(campaign, here, standing, choice))
            by_place[f"{place[0]}, {place[2]}"] = standing
    keys = {choice.key for _, choice in places.values()}
    if len(views) > 1 and len(keys) == 1:
        views.append(mean_ranks(by_place, keys.pop()))
    if views:
        views[-1].notes += campaign.problems()
    return views


def rows_on(campaign: Campaign, dataset: str | None) -> list[Row]:
    """The rows of one dataset, which must be there, or all."""
    rows = list(campaign.rows().values())
    names = {row.dataset for row in rows}
    if dataset is not None and dataset not in names:
        raise unknown(f"dataset in {campaign.folder}", dataset, names)
    return [row for row in rows if dataset in (None, row.dataset)]


def _of_place(
    campaign: Campaign, rows: Sequence[Row], place: tuple[str, str, str], wanted: Wanted
) -> tuple[list[Row], Wanted]:
    """The rows of one dataset and split, and the metric that selected there."""
    select = wanted.select or campaign.select(place[0])
    return [row for row in rows if row.place == place], replace(wanted, select=select)


def _refuse_unknown(rows: Sequence[Row], wanted: Wanted) -> None:
    """A metric that is asked for must have been measured, on some dataset at least."""
    names = metric_names(rows)
    for name in (*wanted.metrics, wanted.sort, wanted.select):
        if names and name and name not in names:
            raise unknown("metric in these results", name, names)


def measured_part(campaign: Campaign) -> str:
    """Test, or validation where nothing has been measured on test yet."""
    parts = {row.part for row in campaign.rows().values() if row.status == "ok"}
    return "valid" if parts == {"valid"} else "test"


def leaderboard_view(
    campaign: Campaign, rows: Sequence[Row], standing: Sequence[Standing], wanted: Wanted
) -> View:
    """The models of one dataset and split."""
    shown = standing[: wanted.top]
    known = metric_names([row for row in rows if row.part == wanted.part])
    metrics = [name for name in wanted.metrics if name in known] or known
    ranked = [name for name in metrics if more_is_better(name)]
    better, trouble = _letters(campaign, shown, ranked)
    frame = _frame(shown, metrics, better, tunings(rows))
    first = rows[0]
    users = max(row.users for one in shown for row in one.rows)
    title = f"{first.dataset}, {first.split}: {PARTS[wanted.part]}, {users:,} users"
    view = View(title, frame, ranked=ranked, unseen=HIDDEN, mark="")
    view.spare = [*SPARE, *fact_columns([row for one in shown for row in one.rows]).values()]
    view.part = PARTS[wanted.part]
    view.notes = [*_legend(shown), *_explained(frame, wanted), *trouble, *_missing(rows, standing)]
    view.notes += stopped_notes(rows)
    view.notes += unbegun_notes(unbegun(campaign.manifest()["runs"], rows))
    view.notes += edge_notes(rows, wanted.select)
    return view


def _letters(
    campaign: Campaign, shown: Sequence[Standing], ranked: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The letters of each metric, and why there are none."""
    measured = [name for name in ranked if all(name in r.metrics for s in shown for r in s.rows)]
    if len(shown) < 2 or not measured:
        return {}, []
    try:
        return superiority(campaign, shown, measured), []
    except DataError as error:
        return {}, [f"no significance letters: {error}"]


def _frame(
    shown: Sequence[Standing], metrics: Sequence[str], better: dict[str, list[str]],
    tuned: Mapping[Contest, Tuning],
) -> pd.DataFrame:  # fmt: skip
    """Numbers in full; columns that nobody has a value for are left out."""
    facts = fact_columns([row for one in shown for row in one.rows])
    lines = []
    for i, one in enumerate(shown):
        line: dict[str, Any] = {"#": LETTERS[i] if i < len(LETTERS) else "", "model": one.model}
        for name in metrics:
            line |= {name: one.mean(name), name + SPREAD: one.spread(name)}
            line |= {name + BETTER: better[name][i]} if name in better else {}
        found = [facts_by_column(row, facts) for row in one.rows]
        line |= {name: _whole(_mean([each[name] for each in found])) for name in facts.values()}
        line |= _costs(one) | tuning_columns(tuned, one.rows) | _about(one)
        lines.append(line)
    return frame_of(lines, facts.values()).dropna(axis="columns", how="all")


def _costs(one: Standing) -> dict[str, float | None]:
    peak = max(row.peak_bytes for row in one.rows)
    return {
        "fit s": _mean([row.fit_seconds for row in one.rows]),
        "rank s": _mean([row.score_seconds for row in one.rows]),
        "peak GB": peak / 1e9 if peak else None,
    }


def _about(one: Standing) -> dict[str, Any]:
    first = one.rows[0]
    return {
        "dataset": first.dataset, "split": first.split, "parameters": one.parameters,
        "seeds": ",".join(str(row.seed) for row in one.rows),
        "trials": ",".join(row.trial for row in one.rows),
    }  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None


def _whole(value: float | None) -> float | int | None:
    """A whole number as such: ranks and rounds are."""
    return int(value) if value is not None and value.is_integer() else value


def _legend(shown: Sequence[Standing]) -> Iterator[str]:
    """Which parameters each line stands for."""
    short = False
    for i, one in enumerate(shown):
        letter = LETTERS[i] if i < len(LETTERS) else one.model
        seeds = f", {len(one.rows)} seeds" if len(one.rows) > 1 else ""
        told = " ".join(f"{name}={value}" for name, value in _worth_telling(one).items())
        short |= told != one.parameters
        if one.parameters or seeds:
            nothing = "as by default" if one.parameters else "no parameters"
            yield f"{letter}: {told or nothing}{seeds}"
    if short:
        yield "parameters at their defaults are left out here; --format csv has all of them"


def _worth_telling(one: Standing) -> Mapping[str, str]:
    """What was selected; of many parameters those that are not at their defaults."""
    settings = one.settings
    if len(settings) <= MANY:
        return settings
    specs = specs_of(one.rows[0])
    return {
        name: value
        for name, value in settings.items()
        if name not in specs or value != format_value(plain(specs[name].default))
    }


def _explained(frame: pd.DataFrame, wanted: Wanted) -> Iterator[str]:
    """What the marks mean."""
    if any(str(name).endswith(SPREAD) for name in frame):
        yield "±: standard deviation over seeds"
    if any(str(name).endswith(BETTER) and frame[name].any() for name in frame):
        yield (
            "letters after a value: significantly better than these models "
            "(paired permutation test over users, Holm's correction over all pairs, 5 %)"
        )
    elif any(str(name).endswith(BETTER) for name in frame):
        yield "no difference between two models is significant"
    if wanted.part == "valid":
        yield "these values chose the trials, so they are higher than what to expect"


def _missing(rows: Sequence[Row], standing: Sequence[Standing]) -> Iterator[str]:
    """Models that could not be ranked, and why."""
    there = {row.model for one in standing for row in one.rows}
    yield from failure_notes([r for r in rows if r.status != "ok" and r.model not in there])


def mean_ranks(by_place: dict[str, list[Standing]], metric: str) -> View:
    """The rank of every model that was measured everywhere, and its mean."""
    ranks = {
        place: pd.Series({one.model: one.mean(metric) for one in standing})
        for place, standing in by_place.items()
    }
    frame = pd.DataFrame(ranks).dropna().rank(ascending=False, method="average")
    frame.insert(0, "mean rank", frame.mean(axis=1))
    frame = frame.sort_values("mean rank", kind="stable").rename_axis("model").reset_index()
    left_out = len({one.model for s in by_place.values() for one in s}) - len(frame)
    view = View(f"Mean rank by {metric} over {len(by_place)} tables", frame, mark="")
    if left_out:
        view.notes.append(f"{left_out} models were not measured everywhere and are left out")
    return view
