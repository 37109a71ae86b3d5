"""`-j auto` beside `-j 1` and `-j 2`, whole commands in turns: wall and processor seconds.

    python bench/packing.py                      # five rounds; the median ratio to -j 1 of each
    python bench/packing.py --only als --rounds 9

`cheap` are nine fits that take less than a process does to start; `inverse` is one of many items;
`als` are twelve that keep all cores busy; `walks` are twelve of a plugin in pure Python, which keep
one; `mixed` are four models.
Ratios are within a round, whose commands come directly after one another: other work on the machine
meets all three. Every command must end in the same metrics.csv.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = ("1", "2", "auto")
SMALL, LARGE = "synthetic:users=2000,items=400", "synthetic:users=12000,items=7000"
ALS = ["--set", "ials.iterations=30", "--grid", "ials.l2=0.0001:0.01:log12"]
PLUGIN = '''
"""Random walks in pure Python: as serial as a model can be."""

import random
from dataclasses import dataclass

import numpy as np

from recbench.models.base import Model
from recbench.models.popularity import Constant
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS


@MODELS.register("walks")
@dataclass(frozen=True)
class Walks(Model):
    """Items by how often walkers come by."""

    number: int = param(0, help="of the walk")

    def fit(self, train, ctx):
        dice, items = random.Random(self.number), train.indices.tolist()
        counts = [0] * train.shape[1]
        for _ in range(6_000_000):
            counts[items[int(dice.random() * len(items))]] += 1
        return Scorer(Constant(np.array(counts, dtype=np.float32)))
'''
WORK = {
    "cheap": ["-d", SMALL, "-m", "ease", "--grid", "l2=1:1000:log9"],
    "inverse": ["-d", LARGE, "-m", "ease"],
    "als": ["-d", "debian", "-m", "ials", *ALS],
    "walks": ["-d", "debian", "-m", "walks", "--grid", "number=1:12:1"],
    "mixed": ["-d", "debian", "-m", "popularity", "-m", "ease", "-m", "item-knn", "-m", "ials",
              *ALS, "--grid", "ease.l2=1:1000:log4", "--grid", "item-knn.shrink=0,10,100"],
}  # fmt: skip


def run(words: list[str], jobs: str, folder: Path) -> tuple[float, float]:
    """Seconds on the wall, and of processors, of one command and all that it starts."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    plugin = folder.parent / "walks.py"
    plugin.write_text(PLUGIN, encoding="utf-8")
    words = ["--plugin", str(plugin), *words, "-j", jobs]
    command = [sys.executable, "-m", "recbench", "run", "-q", *words]
    subprocess.run([*command, "-o", str(folder)], check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def rounds(name: str, count: int, root: Path) -> list[dict[str, tuple[float, float]]]:
    """Every way once in each round, each round beginning with another."""
    done, tables = [], set()
    for number in range(count):
        times = {}
        for turn in range(len(JOBS)):
            jobs = JOBS[(number + turn) % len(JOBS)]
            folder = root / f"{name}-{number}-{jobs}"
            times[jobs] = run(WORK[name], jobs, folder)
            tables.add((folder / "metrics.csv").read_bytes())
        done.append(times)
    assert len(tables) == 1, f"{name}: tables differ"
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(WORK))
    options = parser.parse_args()
    print("| work | -j | wall s | processor s | wall, to -j 1 | processor, to -j 1 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(prefix="recbench-packing-") as root:
            times = rounds(name, options.rounds, Path(root))
        for jobs in JOBS:
            seconds = [statistics.median(one[jobs][what] for one in times) for what in (0, 1)]
            ratios = [
                statistics.median(one[jobs][what] / one["1"][what] for one in times)
                for what in (0, 1)
            ]
            print(f"| {name} | {jobs} | {seconds[0]:.1f} | {seconds[1]:.1f} | "
                  f"{ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
