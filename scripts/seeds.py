"""Fit what validation chose in a results folder with more seeds: a grid once, its winners often.

    recbench run -c scripts/tables/ranking.yaml -d debian --seed 0 -o results/debian-ranking
    python scripts/seeds.py results/debian-ranking 1,2,3,4

Each seed of `recbench run --seed 0,1,2,3,4` has a choice of its own. Here the first seed chooses
for all, as papers do, and `recbench show` has the mean and the deviation over all of them. What is
finished is skipped.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path


def winners(folder: Path) -> list[str]:
    """The models that were measured on test, with all their parameters."""
    table = folder / "metrics.csv"
    if not table.exists():
        sys.exit(f"{table} is not there: let recbench run finish first")
    with table.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "test"]
    return list(dict.fromkeys(row["parameters"] for row in rows if row["selected"] == "True"))


def command(folder: Path, seeds: str) -> list[str]:
    """Measure them as the last run of the folder did."""
    run = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["runs"][-1]
    words = [
        *("-d", run["dataset"]["name"], "--split", run["split"], "--dtype", run["dtype"]),
        *("--select", run["select"], "--seed", seeds, "-o", str(folder)),
    ]
    for metric in run["metrics"]:
        words += ["-k", metric]
    for model in winners(folder):
        words += ["-m", model]
    return [os.environ.get("RECBENCH", "recbench"), "run", *words]


if __name__ == "__main__":
    folder, seeds, *more = sys.argv[1:]
    sys.exit(subprocess.run([*command(Path(folder), seeds), *more], check=False).returncode)
