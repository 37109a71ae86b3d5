"""Record results/published/recbench.csv: what this code gives on the embedded dataset.

    python scripts/record_golden.py [--add "ials[factors=64,alpha0=0.01]" ...] [--dry-run]

Every model of the file, with its parameters, is fitted in float64 on `debian` and measured on test;
`--add` adds models. `recbench check debian` and the tests compare later code with the file, so run
this only when a number is meant to change, and say so in the changelog.
"""

import argparse
import csv
import tempfile
from collections.abc import Mapping
from pathlib import Path

from recbench import api
from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.search.grammar import models_from
from recbench.params import format_value
from recbench.published.rows import folder

DIGITS = 6
NOTE = "golden: float64 run of this code"
Line = dict[str, str]


def measured(names: list[str]) -> list[Row]:
    """Each model alone, so that it is the one selected for test."""
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as output:
            api.run(name, dtype="float64", output=output)
            known = Campaign(Path(output)).rows()
        rows += [row for (_, part), row in known.items() if part == "test"]
    return rows


def lines_of(row: Row, like: Line) -> list[Line]:
    """A line per metric."""
    words = {key: value for key, value in row.parameters.items() if value is not None}
    parameters = " ".join(f"{key}={format_value(value)}" for key, value in words.items())
    return [
        like
        | {"model": row.model, "our_model": row.model, "metric": metric, "parameters": parameters}
        | dict.fromkeys(("value", "ours"), f"{value:.{DIGITS}g}")
        for metric, value in sorted(row.metrics.items())
    ]


def changes(old: list[Line], new: list[Line]) -> list[str]:
    """What differs from the file as it is."""

    def values(lines: list[Line]) -> Mapping[tuple[str, str, str], str]:
        return {(line["model"], line["metric"], line["parameters"]): line["ours"] for line in lines}

    before, after = values(old), values(new)
    return [
        f"{' '.join(key)}: {before.get(key, 'new')} -> {value}"
        for key, value in after.items()
        if before.get(key) != value
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--add", action="append", default=[], metavar="MODEL[...]")
    parser.add_argument("--dry-run", action="store_true", help="say what would change")
    options = parser.parse_args()
    path = folder() / "recbench.csv"
    with path.open(encoding="utf-8", newline="") as file:
        old = list(csv.DictReader(file))
    recorded = {f"{line['model']}[{line['parameters'].replace(' ', ',')}]" for line in old}
    names = sorted({model.text for model in models_from([*recorded, *options.add])})
    new = [line for row in measured(names) for line in lines_of(row, old[0] | {"note": NOTE})]
    new.sort(key=lambda line: (line["model"], line["parameters"]))
    print("\n".join(changes(old, new)) or "nothing changes")
    if not options.dry_run:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(old[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(new)


if __name__ == "__main__":
    main()
