"""Numbers printed in papers, as data: what they say, under which protocol, and what we get.

One CSV per paper in results/published, also in the wheel. A row names the table and value, the
dataset, split and model that stand for it here, the parameters that reproduce it where they are
known, and the value recorded when the committed code last ran it.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recbench.errors import DataError


@dataclass(frozen=True)
class Published:
    """One number of one table."""

    paper: str
    table: str
    dataset: str
    protocol: str
    model: str
    metric: str
    value: float
    our_dataset: str
    our_split: str
    our_model: str
    part: str
    parameters: str = ""
    """What reproduces it, as in `l2=80 p=0.8`; empty where the paper and we do not know."""
    tolerance: float | None = None
    """How far off a value may be and still count as reproduced."""
    ours: float | None = None
    """The value the committed code gave when it was recorded."""
    tuned: float | None = None
    """Our value with parameters selected on validation instead, as a reader would."""
    note: str = ""

    @property
    def text(self) -> str:
        """The model as typed after --model."""
        settings = self.parameters.replace(" ", ",")
        return f"{self.our_model}[{settings}]" if settings else self.our_model

    @property
    def title(self) -> str:
        """What the number is of, in a line: dataset, model, metric and where it is printed."""
        return f"{self.our_dataset or self.dataset} {self.text} {self.metric} ({self.source})"

    @property
    def source(self) -> str:
        """Where it is printed."""
        return f"{self.paper} table {self.table}" if self.table else self.paper


def folder() -> Path:
    """Where the files are: in the package, or beside it in a working copy."""
    inside = Path(__file__).parent
    beside = inside.parents[1] / "results" / "published"
    return inside if any(inside.glob("*.csv")) else beside


def load() -> list[Published]:
    """Every published number."""
    rows = [row for path in sorted(folder().glob("*.csv")) for row in _read(path)]
    if not rows:
        raise DataError(f"there are no published numbers in {folder()}; install recbench again")
    return rows


def _read(path: Path) -> Iterator[Published]:
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            fields: dict[str, Any] = {**line, "paper": path.stem, "value": float(line["value"])}
            fields |= {name: _number(line[name]) for name in ("tolerance", "ours", "tuned")}
            yield Published(**fields)


def _number(text: str) -> float | None:
    return float(text) if text else None
