"""What is known about one trial on one part: a line of the log."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from recbench.brackets import name_in
from recbench.params import Value
from recbench.registry import METRICS

SCHEMA = 5
"""Version of the log and the manifest; a reader refuses newer ones. 2 added rounds, 3 fits that a
search stopped, 4 digests, 5 seconds of compiling."""
SEALED = 4
"""The first version whose lines and manifests carry their own digest."""
STOPPED = "stopped at round"
"""What tables call the rounds after which a search stopped a fit."""
COLUMNS = frozenset([
    "#", "dataset", "split", "model", "parameters", "seed", "seeds", "part", "selected", "users",
    "status", "reason", "trial", "trials", "fit s", "rank s", "peak GB", "tried", "tuning s",
    STOPPED,
])  # fmt: skip
"""What tables call their own columns."""


Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class Row:
    """What is known about one trial on one part ('valid' or 'test')."""

    trial: str
    dataset: str
    fingerprint: str
    split: str
    model: str
    parameters: Mapping[str, Value]
    text: str
    seed: int
    dtype: str
    part: str
    status: Status
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, bool | int | float] = field(default_factory=dict)
    """What the fit found out, such as the rank that a penalty left."""
    users: int = 0
    rounds: int = 0
    """After how many rounds the model was handed out; 0 also where it was not fitted in rounds."""
    stopped: int = 0
    """After how many rounds a search stopped the fit, or would have if it had not failed; 0: it was
    to end by itself. What was stopped is never selected."""
    fit_seconds: float = 0.0
    validation_seconds: float = 0.0
    """What was measured on the way, by request of the fit; not among the seconds of the fit."""
    score_seconds: float = 0.0
    compile_seconds: float = 0.0
    """What making and loading machine code took; not among the seconds of the fit and the ranking:
    the same fit takes none where the code is there already."""
    peak_bytes: int = 0
    """The most memory the process held while its group was fitted and ranked; 0: not known."""
    run: str = ""
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The SHA-256 of the files that were written with the row, by their paths in its folder."""
    schema: int = SCHEMA

    @property
    def place(self) -> tuple[str, str, str]:
        """What results must share to be put side by side: data by name and content, and split."""
        return self.dataset, self.fingerprint, self.split

    @property
    def rival(self) -> tuple[str, int]:
        """What a trial competes within: the best of a model and seed is selected."""
        return self.model, self.seed

    @property
    def reach(self) -> float:
        """How far the fit was to go: to its end is further than any number of rounds."""
        return self.stopped or math.inf

    @property
    def stopped_at(self) -> int | None:
        """The round that a search stopped it at, if its fit came so far and was to go on."""
        return self.stopped or None if self.status == "ok" else None


def furthest(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """Of each trial and part, the row of the fit that went furthest."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        known = found.get((row.trial, row.part))
        if known is None or row.reach >= known.reach:
            found[row.trial, row.part] = row
    return found


def metric_names(rows: Sequence[Row]) -> list[str]:
    """Every metric that some row has, in the order first met."""
    return list(dict.fromkeys(name for row in rows for name in row.metrics))


def fact_names(rows: Sequence[Row]) -> list[str]:
    """Every fact that is known of some row, in the order first met."""
    return list(dict.fromkeys(name for row in rows for name in row.facts))


def fact_columns(rows: Sequence[Row]) -> dict[str, str]:
    """The column of each fact: its name, or one apart where that could be another column's."""
    metrics = {*METRICS.names(), *metric_names(rows)}

    def taken(name: str) -> bool:
        return name in COLUMNS or name in metrics or name_in(name) in metrics

    return {name: f"{name} (fact)" if taken(name) else name for name in fact_names(rows)}


def facts_by_column(row: Row, columns: Mapping[str, str]) -> dict[str, float | None]:
    """What a row has for each column of `fact_columns`."""
    return {column: row.facts.get(name) for name, column in columns.items()}
