"""What stands side by side on a board: trials of the same data, split and part, from any folder.

Nothing else is compared. A block says what of the same dataset it is not comparable with, and why.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from recbench.campaign.manifest import Data
from recbench.campaign.row import Row
from recbench.data.catalog import load_catalog
from recbench.errors import RecbenchError
from recbench.published.rows import Published
from recbench.registry import SPLITS, build
from recbench.report.board.families import family
from recbench.report.board.sources import Source
from recbench.report.leaderboard import PARTS
from recbench.report.standings import Standing, standings

Key = tuple[str, str, str, str]
"""Dataset, its content, split, part."""


@dataclass(frozen=True)
class Line:
    """The selected trials of one model in one folder, one for each seed."""

    id: str
    standing: Standing
    source: Source
    select: str
    """The metric that chose them."""
    tried: int
    """How many trials it chose among; 0: they were chosen beforehand."""

    @property
    def first(self) -> Row:
        """The trial of the first seed."""
        return self.standing.rows[0]

    @property
    def family(self) -> str:
        """The kind of its model."""
        return family(self.first.model)

    @property
    def seconds(self) -> float:
        """Those of a fit, averaged over seeds; 0 where they are not known."""
        return float(np.mean([row.fit_seconds for row in self.standing.rows]))

    @property
    def machines(self) -> set[str]:
        """Where it was fitted."""
        runs = [run for row in self.standing.rows for run in self.source.runs_of(row)]
        crews = {machine["cpu"] for run in runs for machine in run.get("crew", ())}
        return crews | {run["environment"]["cpu"] for run in runs if not run.get("crew")}


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints, and what may be put beside it here."""

    row: Published
    lines: Sequence[Line]
    """Those of its model that have this metric, where values may be compared."""
    why: str
    """Why there are none."""


@dataclass(frozen=True)
class Block:
    """Lines that may be compared, the best first."""

    key: Key
    data: Data | None
    lines: Sequence[Line]
    metrics: Sequence[str]
    select: str
    """The metric that most of them were chosen by."""

    @property
    def id(self) -> str:
        """Its name in addresses within the page."""
        dataset, content, split, part = self.key
        return slug(f"{dataset} {content[:8]} {split} {part}")

    @property
    def dataset(self) -> str:
        """The name of the data."""
        return self.key[0]

    @property
    def title(self) -> str:
        """Dataset, split and part."""
        return f"{self.key[0]}, {self.key[2]}: {PARTS[self.key[3]]}"

    def differs_from(self, other: "Block") -> str:
        """Why values of another block of the same dataset are not comparable with these."""
        names = ("", "other content of the same name", "another split", "another part")
        return ", ".join(
            name for name, a, b in zip(names, self.key, other.key, strict=True) if a != b
        )


def slug(text: str) -> str:
    """Text as a name in addresses."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def blocks(sources: Sequence[Source]) -> list[Block]:
    """All that the sources hold, in blocks by dataset, split and part."""
    lines: dict[Key, list[Line]] = {}
    taken: set[str] = set()
    for source in sources:
        for place in dict.fromkeys(row.place for row in source.rows):
            here = [row for row in source.rows if row.place == place]
            tested = {row.model for row in here if row.part == "test" and row.status == "ok"}
            rest = [row for row in here if row.model not in tested]
            lines.setdefault((*place, "test"), []).extend(_lines(source, here, "test", taken))
            lines.setdefault((*place, "valid"), []).extend(_lines(source, rest, "valid", taken))
    return [_block(key, group) for key, group in sorted(lines.items()) if group]


def _lines(source: Source, rows: Sequence[Row], part: str, taken: set[str]) -> Iterator[Line]:
    select = source.select(rows[0].dataset) if rows else ""
    tried = Counter(
        model for model, _ in {(r.model, r.text) for r in rows if r.part == "valid" and r.metrics}
    )
    for one in standings(rows, select, part, select):
        first = one.rows[0]
        name = free = slug(f"t {source.name} {first.trial} {part}")
        number = 1
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        taken.add(free)
        yield Line(free, one, source, select, tried[first.model])


def _block(key: Key, lines: Sequence[Line]) -> Block:
    metrics = dict.fromkeys(
        name for line in lines for row in line.standing.rows for name in row.metrics
    )
    chosen = [name for name, _ in Counter(line.select for line in lines).most_common()]
    select = next((name for name in (*chosen, *metrics) if name in metrics), "")
    runs = [run for line in lines for run in line.source.runs_of(line.first)]
    ranked = sorted(
        lines,
        key=lambda one: (-np.nan_to_num(one.standing.mean(select), nan=-1), one.standing.model),
    )
    return Block(key, runs[0]["dataset"] if runs else None, ranked, [*metrics], select)


def printed(block: Block, published: Sequence[Published]) -> list[Printed]:
    """What papers print for the dataset of a block, whether it may be compared or not."""
    about = [row for row in published if row.our_dataset == block.dataset]
    return [Printed(row, *_beside(row, block)) for row in about]


def _beside(row: Published, block: Block) -> tuple[Sequence[Line], str]:
    """The lines to compare a printed number with, or why there are none."""
    _, _, split, part = block.key
    if not _is_known(block):
        return (), "not known to be the same data"
    if canonical(row.our_split) != split:
        return (), f"another split: {row.our_split}"
    if row.part != part:
        return (), f"printed of the {PARTS[row.part]} part"
    same = [line for line in block.lines if line.first.model == row.our_model]
    able = [line for line in same if row.metric in line.first.metrics]
    return able, "" if able else f"{row.metric} was not measured" if same else "not run here"


@cache
def canonical(split: str) -> str:
    """A split with all of its parameters, as results name it."""
    try:
        return str(build(split, SPLITS).text)
    except RecbenchError:
        return split


def _is_known(block: Block) -> bool:
    """Whether the data have the counts that the catalogue expects of this name."""
    expected = _expected().get(block.dataset)
    if block.data is None or expected is None:
        return expected is None
    counts = (block.data["users"], block.data["items"], block.data["interactions"])
    return counts == expected


@cache
def _expected() -> Mapping[str, tuple[int, int, int]]:
    catalog = load_catalog(None)
    return {
        name: (entry.expected.users, entry.expected.items, entry.expected.interactions)
        for name, entry in catalog.items()
        if entry.expected is not None
    }
