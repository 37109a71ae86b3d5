"""How fits went, round by round: `traces/TRIAL.csv` in a results folder, written with --trace.

A file holds the fit that was measured on validation. It is whole or not there, and there before
the trial counts as finished. All of it but `seconds` is the same whenever the trial is run.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

from recbench.errors import DataError
from recbench.files import atomic_path, clear_leftovers
from recbench.models.rounds import Trace
from recbench.params import format_value


def path_of(folder: Path, trial: str) -> Path:
    """Where the trace of a trial is, if it has one."""
    return folder / "traces" / f"{trial}.csv"


def write(path: Path, trace: Trace) -> None:
    """Write a trace; numbers read back exactly, and what a round does not have is left empty."""
    names = list(dict.fromkeys(name for entry in trace for name in entry))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(path.parent)
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(names)
            lines.writerows([_cell(entry.get(name)) for name in names] for entry in trace)
    except OSError as error:
        raise DataError(f"the trace {path} cannot be written ({error.strerror})") from error


def _cell(value: float | None) -> str:
    return "" if value is None else format_value(float(value))


def read(path: Path) -> list[dict[str, float]]:
    """The rounds of a trace, each with what it has; none where there is no trace."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_numbers(line.items()) for line in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"the trace {path} cannot be read ({error}); remove it to go on") from error


def _numbers(cells: Iterable[tuple[str, str]]) -> dict[str, float]:
    return {name: float(text) for name, text in cells if text}
