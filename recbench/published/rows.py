"""Numbers printed in papers, as data: what they say, under which protocol, and what we get.

One CSV per paper in results/published, also in the wheel. A row names the table and value, the
dataset, split and model that stand for it here, the parameters that reproduce it where they are
known, and the value recorded when the committed code last ran it. Where a paper prints the grid
that it searched, the row has it: parameters outside are not the paper's, whatever they give.
"""

import csv
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recbench.errors import DataError, RecbenchError, UsageError, unknown
from recbench.evaluate.metrics import parse_metric
from recbench.params import format_value
from recbench.registry import MODELS, SPLITS, build

PARTS = ("valid", "test")
NEEDED = ("metric", "value", "our_dataset", "our_split", "our_model")
"""The columns that a file of somebody's own must have; the others say more."""
KEY = ("our_dataset", "our_model", "metric")
"""What a line of a file of grids and the rows that it is about have in common."""


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
    """How far off a value may be and still count as close."""
    ours: float | None = None
    """The value the committed code gave when it was recorded."""
    tuned: float | None = None
    """Our value with parameters selected on validation instead, as a reader would."""
    note: str = ""
    printed: str = ""
    """The value as it is printed; empty: in as few digits as tell it."""
    printed_grid: str = ""
    """What the paper says it tried, as in `p=0.1:0.5,0.8 l2=10:50,100`; empty: it does not say."""
    inside_parameters: str = ""
    """Those of that grid which come nearest here, if `parameters` are not of it."""
    inside: float | None = None
    """The value they give."""

    def prints_as(self, value: float) -> bool:
        """Whether a value, in as many digits as the paper prints, is what it prints."""
        return f"{value:.{self.digits}f}" == f"{self.value:.{self.digits}f}"

    @property
    def digits(self) -> int:
        """Of how many decimals it is printed."""
        return len((self.printed or format_value(self.value)).partition(".")[2])

    @property
    def outside(self) -> tuple[str, ...]:
        """The settings that are not among those that the paper says it tried."""
        tried = dict(part.split("=") for part in self.printed_grid.split())
        settings = (setting.partition("=") for setting in self.parameters.split())
        return tuple(
            f"{name}={value}"
            for name, _, value in settings
            if name in tried and not _among(float(value), tried[name])
        )

    @property
    def text(self) -> str:
        """The model as typed after --model."""
        settings = self.parameters.replace(" ", ",")
        return f"{self.our_model}[{settings}]" if settings else self.our_model

    @property
    def title(self) -> str:
        """What the number is of, in a line: dataset, model, metric and where it is printed."""
        return f"{self.our_dataset or self.dataset} {self.text} {self.metric} ({self.source})"

    def check(self) -> None:
        """Refuse words that do not exist; the tests do so for the rows that come with recbench."""
        if self.part not in PARTS:
            raise unknown("part", self.part, PARTS)
        parse_metric(self.metric)
        build(self.our_split, SPLITS)
        if self.parameters:
            build(self.text, MODELS)
        else:
            MODELS.get(self.our_model)

    @property
    def source(self) -> str:
        """Where it is printed."""
        return f"{self.paper} table {self.table}" if self.table else self.paper


def _among(value: float, tried: str) -> bool:
    """Whether a value is one of these, or between the ends of a `low:high` among them."""
    ends = (part.partition(":") for part in tried.split(","))
    return any(float(low) <= value <= float(high or low) for low, _, high in ends)


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


def read_own(path: Path) -> list[Published]:
    """The rows of somebody's own file: the same columns, of which only NEEDED must be there."""
    try:
        lines = _lines(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8 ({error})") from error
    if not lines:
        raise DataError(
            f"{path}: there is no such file, or no row in it; its first line is {','.join(NEEDED)}"
        )
    return [_own_row(path, number, line) for number, line in enumerate(lines, 2)]


def _own_row(path: Path, number: int, line: dict[str, str]) -> Published:
    try:
        row = _completed(path.stem, line)
        row.check()
    except (RecbenchError, ValueError) as error:
        raise DataError(f"{path}, line {number}: {error}") from error
    return row


def _completed(paper: str, line: dict[str, str]) -> Published:
    """A row in which only NEEDED must be told."""
    names = [spec.name for spec in dataclasses.fields(Published) if spec.name != "paper"]
    given = {name: text for name, text in line.items() if text}
    for name in given:
        if name not in names:
            raise unknown("column", str(name), names)
    for name in NEEDED:
        if name not in given:
            raise UsageError(f"'{name}' is missing")
    ours = {"dataset": given["our_dataset"], "model": given["our_model"]}
    return _row(
        paper, {"table": "", **ours, "protocol": given["our_split"], "part": "test", **given}
    )


def _read(path: Path) -> Iterator[Published]:
    grids = {tuple(line[name] for name in KEY): line for line in _lines(_grids_of(path))}
    for line in _lines(path):
        yield _row(path.stem, {**line, **grids.get(tuple(line[name] for name in KEY), {})})


def _row(paper: str, line: dict[str, str]) -> Published:
    fields: dict[str, Any] = {**line, "paper": paper, "printed": line["value"]}
    fields["value"] = _number(line["value"])
    numbers = ("tolerance", "ours", "tuned", "inside")
    return Published(**fields | {name: _number(line.get(name, "")) for name in numbers})


def _grids_of(path: Path) -> Path:
    """Where the grids that a paper prints are kept; most print none."""
    return path.parent / "grids" / path.name


def _lines(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets mark their files
        return list(csv.DictReader(file))


def _number(text: str) -> float | None:
    number = float(text) if text else None
    if number is not None and not math.isfinite(number):
        raise ValueError(f"'{text}' is not a finite number")
    return number
