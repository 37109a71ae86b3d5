"""Results that were kept as tables alone, as committed ones are: rows from metrics.csv.

The log has more: words of a setting that look like numbers are numbers here, and fits are of the
precision that the run of their dataset tells. Whoever writes into a folder reads its log.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from recbench.brackets import taken_apart
from recbench.campaign.folder import COSTS, TABLE
from recbench.campaign.manifest import Run
from recbench.campaign.row import COLUMNS, STOPPED, Row, Status
from recbench.campaign.table import FORMULAS
from recbench.errors import DataError, UsageError
from recbench.params import Value

NEEDED = ("dataset", "split", "model", "parameters", "seed", "part", "status", "trial")
PARTS = ("valid", "test")
Cost = Mapping[str, str]


def rows_of(folder: Path, runs: Sequence[Run]) -> list[Row]:
    """The rows of metrics.csv, with what costs.csv says of them, if it is there."""
    costs = {
        (line["trial"], line["part"]): line
        for line in (_lines(folder / COSTS) if (folder / COSTS).exists() else ())
        if "trial" in line and "part" in line
    }
    measured = {name for run in runs for name in run["metrics"]}
    rows = []
    for number, line in enumerate(_lines(folder / TABLE), 2):
        try:
            cost = costs.get((line.get("trial", ""), line.get("part", "")), {})
            rows.append(_row(line, cost, runs, measured))
        except (KeyError, ValueError, OverflowError) as error:
            raise DataError(
                f"{folder / TABLE}, line {number} is not as recbench writes it ({error!s:.80})"
            ) from error
    return rows


def _lines(path: Path) -> Iterator[dict[str, str]]:
    """The lines of a table; text that was kept from being a formula is as it was."""
    try:
        text = path.read_bytes().decode()
        for cells in csv.DictReader(io.StringIO(text, newline="")):
            cells.pop(None, None)  # what stands behind the last column
            yield {name: _unmarked(cell) for name, cell in cells.items() if cell is not None}
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a table ({error!s:.80})") from error


def _unmarked(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULAS) else cell


def _row(line: Mapping[str, str], cost: Cost, runs: Sequence[Run], measured: set[str]) -> Row:
    missing = [name for name in NEEDED if name not in line]
    if missing:
        raise ValueError(f"no {missing[0]}")
    if line["part"] not in PARTS:
        raise ValueError(f"part {line['part']}")
    run: Mapping[str, Any] = _run_of(line["dataset"], cost.get("run", ""), runs)
    numbers = {name: _number(text) for name, text in line.items() if text and name not in COLUMNS}
    metrics = {name for name in numbers if name in measured or "@" in name}
    return Row(
        trial=line["trial"], dataset=line["dataset"], split=line["split"], model=line["model"],
        fingerprint=run["dataset"]["fingerprint"] if run else "",
        parameters=_parameters(line["parameters"]), text=line["parameters"],
        seed=int(line["seed"]), dtype=str(run.get("dtype", "")), part=line["part"],
        status=_status(line["status"]), reason=line.get("reason", ""),
        metrics={name: value for name, value in numbers.items() if name in metrics},
        facts={name: value for name, value in numbers.items() if name not in metrics},
        users=int(line.get("users") or 0), stopped=int(_number(line.get(STOPPED) or "0")),
        fit_seconds=_number(cost.get("fit s") or "0"),
        score_seconds=_number(cost.get("rank s") or "0"),
        compile_seconds=_number(cost.get("compile s") or "0"),
        peak_bytes=round(_number(cost.get("peak GB") or "0") * 1e9), run=cost.get("run", ""),
    )  # fmt: skip


def _run_of(dataset: str, name: str, runs: Sequence[Run]) -> Mapping[str, Any]:
    """The run that a row is of; where that is not known, the last one on its dataset."""
    able = [run for run in runs if run["dataset"]["name"] == dataset]
    made = next((run for run in able if run["id"] == name), able[-1] if able else None)
    return {} if made is None else cast("Mapping[str, Any]", made)


def _status(text: str) -> Status:
    if text not in get_args(Status):
        raise ValueError(f"status {text}")
    return cast("Status", text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"'{text}' is not a finite number")
    return int(number) if text.isdecimal() else number


def _parameters(text: str) -> dict[str, Value]:
    try:
        _, settings = taken_apart(text)
    except UsageError:  # not of this version, or a file with brackets in its name
        return {}
    return {name: _value(word) for name, word in settings.items()}


def _value(word: str) -> Value:
    if word in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word]
    try:
        return _number(word)
    except ValueError:
        return word
