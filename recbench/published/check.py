"""Published numbers against ours: run what reproduces them, and notice regressions."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from recbench.campaign.request import Request
from recbench.campaign.row import Row
from recbench.data.dataset import Dataset
from recbench.errors import DataError, RecbenchError, counted
from recbench.params import params_of
from recbench.published.rows import Published
from recbench.registry import MODELS, build

SAME = 1e-6
"""How far a value may move from the recorded one where a row sets no tolerance of its own."""

UNKNOWN = "parameters not known"
NO_DATA = "no data"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What came of one published row."""

    row: Published
    status: str
    """How it compares, in the words of docs/checking.md, or why it was not run."""
    value: float | None = None
    reason: str = ""
    """Why it failed."""

    @property
    def regressed(self) -> bool:
        """Whether something got worse than recorded."""
        return self.status in ("REGRESSED", "failed")

    @property
    def checked(self) -> bool:
        """Whether the row was run at all."""
        return self.value is not None or self.regressed

    @property
    def missing(self) -> bool:
        """Whether it could have been run, had there been data and memory for it."""
        return self.status.startswith((NO_DATA, SKIPPED))


def judge(row: Published, value: float) -> Finding:
    """Compare a value with the recorded one and with the paper's."""
    tolerance = SAME if row.tolerance is None else row.tolerance
    if row.ours is not None and value < row.ours - max(tolerance, SAME):
        return Finding(row, "REGRESSED", value)
    if row.prints_as(value):
        return Finding(row, "outside the grid" if row.outside else "reproduced", value)
    if row.tolerance is not None and abs(value - row.value) <= row.tolerance + 1e-12:
        return Finding(row, "close", value)
    return Finding(row, "as recorded" if row.ours is not None else "measured", value)


RowRunner = Callable[[Sequence[Published], Dataset, str], Iterator[tuple[Published, Finding]]]
"""Runs the rows of one dataset and split, and tells of each what came of it."""


def check(
    rows: Sequence[Published],
    open_dataset: Callable[[str], Dataset | None],
    known: RowRunner,
    unknown: RowRunner | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> list[Finding]:
    """Have every row run that can be run; findings in the order of the rows.

    `open_dataset` gives a dataset that is at hand, or None. Rows whose parameters are not known
    are left to `unknown`, where there is one.
    """
    findings: dict[Published, Finding] = {}
    groups: dict[tuple[str, str, RowRunner], list[Published]] = {}
    for row in rows:
        reason = why_not(row)
        run = unknown if reason == UNKNOWN and unknown is not None else known
        if reason and run is known:
            findings[row] = Finding(row, reason)
        else:
            groups.setdefault((row.our_dataset, row.our_split, run), []).append(row)
    for (name, split, run), group in groups.items():
        dataset = open_dataset(name)
        if dataset is None:
            findings |= {row: Finding(row, f"{NO_DATA}: recbench fetch {name}") for row in group}
            continue
        announce(f"checking {counted(len(group), 'number')} on {name}, {split}")
        findings |= dict(run(group, dataset, split))
    return [findings[row] for row in rows]


def why_not(row: Published) -> str:
    """Why a row cannot be run whatever data there are; empty if it can."""
    if not row.our_dataset:
        return "its dataset is not known"
    if row.our_model not in MODELS.names():
        return "no such model yet"
    if row.metric == "induced rank":
        return "not a ranking metric"
    known = row.parameters or not params_of(MODELS.get(row.our_model))
    return "" if known else UNKNOWN


def run_known(
    rows: Sequence[Published], dataset: Dataset, split: str, *, folder: Path, how: Request
) -> Iterator[tuple[Published, Finding]]:
    """Run rows by the parameters that are known to give them, or find what this very code gave.

    `how` says with how many threads, and whom to tell of progress.
    """
    request = replace(
        how,
        data=dataset,
        split=split,
        models=[row.text for row in rows],
        metrics=list(dict.fromkeys(row.metric for row in rows)),
        parts=tuple(sorted({row.part for row in rows}, reverse=True)),
        validate=True,
        output=folder / campaign_name(dataset.name, split),
        same_code=True,
    )
    results = {(row.text, row.part): row for row in request.run().rows}
    for row in rows:
        yield row, finding(row, results.get((build(row.text, MODELS).text, row.part)))


def campaign_name(dataset: str, split: str) -> str:
    """The folder in which the runs of a dataset and split are kept."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", f"check-{dataset}-{split}")


def finding(row: Published, result: Row | None) -> Finding:
    """What a result says of a row; a model that declines for lack of memory did not get worse."""
    if result is None:
        return Finding(row, "failed", reason="there is no result")
    if result.status == "skipped":
        return Finding(row, f"{SKIPPED}: {result.reason}")
    if result.status != "ok":
        return Finding(row, "failed", reason=result.reason)
    return judge(row, result.metrics[row.metric])


def summary(findings: Sequence[Finding]) -> list[str]:
    """How many rows came to each status."""
    counts = pd.Series([finding.status for finding in findings]).value_counts()
    return [f"{count} {status}" for status, count in counts.items()]


def regressions(findings: Sequence[Finding], most: int = 3) -> str:
    """Which rows got worse, in a sentence; empty if none did."""
    worse = [one for one in findings if one.regressed]
    if not worse:
        return ""
    names = "; ".join(f"{one.row.title}: {_fate(one)}" for one in worse[:most])
    more = f"; and {len(worse) - most} more" if len(worse) > most else ""
    verb = "is" if len(worse) == 1 else "are"
    return f"{counted(len(worse), 'number')} {verb} worse than recorded: {names}{more}"


def unchecked(findings: Sequence[Finding]) -> RecbenchError | None:
    """What a check leaves open that is to leave nothing open: rows it could not run, or all."""
    missing = [one for one in findings if one.missing]
    if missing:
        kind = DataError if missing[0].status.startswith(NO_DATA) else RecbenchError
        reasons = ", ".join(dict.fromkeys(one.status for one in missing))
        verb = "was" if len(missing) == 1 else "were"
        return kind(f"{counted(len(missing), 'number')} {verb} not checked ({reasons})")
    if not any(one.checked for one in findings):
        return RecbenchError("not one number was checked; --all lists them with the reasons")
    return None


def _fate(one: Finding) -> str:
    if one.value is None:
        return f"{one.status}, {one.reason}"
    return f"{one.value:.5f}, was {one.row.ours:.5f}"
