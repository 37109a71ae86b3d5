"""One table over several datasets, as papers print it: a line per model, datasets side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from recbench.brackets import halves, pair_of
from recbench.campaign.folder import Campaign
from recbench.errors import DataError, unknown
from recbench.evaluate.metrics import metric_text
from recbench.report.leaderboard import PARTS, measured_part, rows_on
from recbench.report.standings import Standing, more_is_better, standings
from recbench.report.tables import SPREAD, View


def labels(words: Sequence[str]) -> dict[str, str]:
    """`ease=EASE` is what something is called, and how it is to be; `ease` stays as it is."""
    pairs = (pair_of(word, "label") if halves(word)[1] else (word, word) for word in words)
    return dict(pairs)


@dataclass(frozen=True)
class Layout:
    """What stands where, and how it is called; in the order given, or everything if empty."""

    models: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None
    """Test, or validation while a folder has nothing else."""
    caption: str = ""


def layout(
    models: Sequence[str] = (), metrics: Sequence[str] = (), datasets: Sequence[str] = (),
    part: str | None = None, caption: str = "",
) -> Layout:  # fmt: skip
    """Read the words of the command line."""
    named = {metric_text(name): label for name, label in labels(metrics).items()}
    return Layout(labels(models), named, labels(datasets), part, caption)


def side_by_side(campaigns: Sequence[Campaign], wanted: Layout) -> View:
    """The selected trials of all folders in one table, the best on average first."""
    blocks = _blocks(campaigns, wanted)
    columns = dict[str, dict[str, float]]()
    groups, ranked = list[tuple[str, list[str]]](), list[str]()
    for place, standing in blocks.items():
        names = list[str]()
        for metric, label in _metrics(standing, wanted).items():
            name = f"{place} {label}"
            columns[name] = {one.model: one.mean(metric) for one in standing}
            spread = {one.model: one.spread(metric) for one in standing}
            if not all(map(math.isnan, spread.values())):
                columns[name + SPREAD] = spread
            names.append(name)
            ranked += [name] if more_is_better(metric) else []
        groups.append((place, names))
    frame = pd.DataFrame(columns)
    frame = _chosen(frame, wanted, ranked)
    frame.insert(0, "model", [wanted.models.get(str(name), str(name)) for name in frame.index])
    several = any(str(name).endswith(SPREAD) for name in frame)
    view = View(wanted.caption or "Results", frame.reset_index(drop=True), ranked=ranked, mark="")
    view.groups = groups
    view.notes += ["±: standard deviation over seeds"] if several else []
    return view


def _blocks(campaigns: Sequence[Campaign], wanted: Layout) -> dict[str, list[Standing]]:
    """The models of each dataset, under the name that heads its columns."""
    found = dict[tuple[str, str, str], list[Standing]]()
    for campaign in campaigns:
        part = wanted.part or measured_part(campaign)
        rows = rows_on(campaign, None)
        for place in sorted({row.place for row in rows}):
            here, select = [r for r in rows if r.place == place], campaign.select(place[0])
            standing = standings(here, select, part, select)
            if place in found:
                raise DataError(
                    f"two of the folders have {place[0]}, {place[2]}; give one of the two"
                )
            if standing:
                found[place] = standing
    names = [place[0] for place in found]
    for name in wanted.datasets:
        if name not in names:
            raise unknown("dataset in these results", name, names)
    if not found:
        raise DataError(f"there are no finished trials on {PARTS[wanted.part or 'test']}")
    order = [*wanted.datasets] or [*dict.fromkeys(names)]
    chosen = [place for name in order for place in found if place[0] == name]
    titles = [wanted.datasets.get(place[0], place[0]) for place in chosen]
    return {
        title if titles.count(title) == 1 else f"{title}, {place[2].partition('[')[0]}":
        found[place] for title, place in zip(titles, chosen, strict=True)
    }  # fmt: skip


def _metrics(standing: Sequence[Standing], wanted: Layout) -> Mapping[str, str]:
    known = dict.fromkeys(name for one in standing for row in one.rows for name in row.metrics)
    for name in wanted.metrics:
        if name not in known:
            raise unknown("metric in these results", name, known)
    return wanted.metrics or {name: name for name in known}


def _chosen(frame: pd.DataFrame, wanted: Layout, ranked: Sequence[str]) -> pd.DataFrame:
    """The lines asked for, in that order; without any, all, the best on average first."""
    for name in wanted.models:
        if name not in frame.index:
            raise unknown("model in these results", name, map(str, frame.index))
    if wanted.models:
        return frame.loc[list(wanted.models)]
    places = frame[list(ranked)].rank(ascending=False).mean(axis=1)
    return frame.loc[places.sort_values(kind="stable").index]
