"""Record in results/published what a campaign found for the rows of a dataset and split.

    python scripts/record_published.py results/gowalla-given deql [--dry-run]

Of each published model, the trial whose test values are nearest to the printed ones gives the
parameters and `ours`: chosen on the test part, as such tables are. `tuned` is the test value of the
trial that is best on validation by the campaign's metric, for readers who tune honestly. The
campaign must have measured its trials on both parts (`--reveal-test`).
"""

import argparse
import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.selection import selected
from recbench.params import format_value
from recbench.published.rows import folder

Line = dict[str, str]


def nearest(lines: Iterable[Line], trials: Iterable[Row]) -> Row:
    """The trial whose metrics are closest to the printed values, the worst one deciding."""
    wanted = {line["metric"]: float(line["value"]) for line in lines}
    return min(
        trials, key=lambda r: (max(abs(r.metrics[m] - v) for m, v in wanted.items()), r.text)
    )


def parameters(row: Row) -> str:
    """Settings as a published row writes them, those that are none left out."""
    return " ".join(f"{k}={format_value(v)}" for k, v in row.parameters.items() if v is not None)


def record(lines: list[Line], rows: Mapping[tuple[str, str], Row], select: str) -> list[str]:
    """Fill in the lines that a campaign answers; say what was found."""
    tested = [row for (_, part), row in rows.items() if part == "test" and row.status == "ok"]
    chosen = selected(rows.values(), select)
    told = []
    for model in dict.fromkeys(line["our_model"] for line in lines):
        mine = [line for line in lines if line["our_model"] == model]
        trials = [row for row in tested if row.model == model]
        if not trials:
            continue
        best = nearest(mine, trials)
        tuned = [row for row in trials if row.trial in chosen]
        for line in mine:
            metric = line["metric"]
            # Two digits more than are printed: with fewer it might round otherwise than it does.
            line["parameters"], line["ours"] = parameters(best), f"{best.metrics[metric]:.6f}"
            line["note"] = f"nearest of {len(trials)} trials on the test part"
            if tuned:
                line["tuned"] = f"{tuned[0].metrics[metric]:.5f}"
                line["note"] += f"; on validation {parameters(tuned[0])} is best"
            difference = best.metrics[metric] - float(line["value"])
            told.append(f"{model:14} {metric:10} {line['value']} {line['ours']} {difference:+.5f} "
                        f"tuned {line['tuned'] or '-':8} {line['parameters']}")  # fmt: skip
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("campaign", type=Path)
    parser.add_argument("paper")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    campaign = Campaign.open(options.campaign)
    rows = campaign.rows()
    first = next(iter(rows.values()))
    path = folder() / f"{options.paper}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        lines, names = list(reader), list(reader.fieldnames or ())
    mine = [
        line
        for line in lines
        if line["our_dataset"] == first.dataset
        and line["our_split"].partition("[")[0] == first.split.partition("[")[0]
    ]
    print("\n".join(record(mine, rows, campaign.select())))
    if not options.dry_run:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
