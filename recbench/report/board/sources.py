"""Which folders a board is made of, and which are left out of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recbench.campaign.folder import LOG, TABLE, Campaign
from recbench.campaign.manifest import MANIFEST, Run
from recbench.campaign.row import Row
from recbench.campaign.tabled import rows_of
from recbench.errors import RecbenchError

PUBLISHED = "published"
"""The folder of numbers that papers print, which stands among results in a working copy."""


@dataclass(frozen=True)
class Source:
    """What one results folder holds."""

    name: str
    rows: Sequence[Row]
    runs: Sequence[Run]
    doubts: Sequence[str] = field(default=())
    """What of it is damaged, as sentences."""

    def select(self, dataset: str) -> str:
        """The metric that the last run on a dataset selected by, or any that was measured."""
        chosen = [run["select"] for run in self.runs if run["dataset"]["name"] == dataset]
        first = (name for row in self.rows if row.dataset == dataset for name in row.metrics)
        return chosen[-1] if chosen else next(first, "")

    def runs_of(self, row: Row) -> list[Run]:
        """The run that made a row; all on its dataset and split, where it is not known which."""
        there = [run for run in self.runs if run["id"] == row.run]
        place = row.dataset, row.split
        return there or [r for r in self.runs if (r["dataset"]["name"], r["split"]) == place]


def gather(paths: Sequence[Path]) -> tuple[list[Source], list[str]]:
    """The sources in these folders, which hold results or folders of results; what is left out."""
    sources: list[Source] = []
    left_out: list[str] = []
    for folder in dict.fromkeys(folder for path in paths for folder in _folders(path)):
        try:
            sources.append(_source(folder, [source.name for source in sources]))
        except (RecbenchError, OSError) as error:
            left_out.append(f"{folder.name}: {error}")
    return sources, left_out


def _folders(path: Path) -> Iterator[Path]:
    if _holds_results(path):
        yield path
    else:
        inside = sorted(inner for inner in path.iterdir() if inner.is_dir())
        yield from (
            inner
            for inner in inside
            if not inner.name.startswith(".") and (inner.name != PUBLISHED or _holds_results(inner))
        )


def _holds_results(path: Path) -> bool:
    return any((path / name).is_file() for name in (LOG, TABLE, MANIFEST))


def _source(folder: Path, taken: Sequence[str]) -> Source:
    if not (folder / LOG).is_file() and not (folder / TABLE).is_file():
        raise RecbenchError(f"neither {LOG} nor {TABLE} is in it")
    campaign = Campaign(folder)
    runs = campaign.manifest()["runs"]
    logged = list(campaign.rows().values())
    rows = logged if campaign.log.is_file() else rows_of(folder, runs)
    if not any(row.status == "ok" for row in rows):
        raise RecbenchError(" ".join(["it has no finished trial;", *campaign.problems()]))
    resolved = folder.resolve()
    name = (
        resolved.name if resolved.name not in taken else f"{resolved.parent.name}/{resolved.name}"
    )
    return Source(name, rows, runs, campaign.problems())
