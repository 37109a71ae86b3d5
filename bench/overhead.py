"""What a campaign costs beside its fits and rankings, and what reading it back costs.

    python bench/overhead.py [--trials 1000] [--profile]

Two campaigns on `debian`: `shared`, a grid over b of deql-l2, all from one inverse; `single`, as
many trials of a model without arithmetic, each a group of its own with its reservation and its look
at the log. The overhead of a trial is what the run takes less what fits and rankings take, once by
the clock and once in processor time, which other work on the machine does not stretch. Each
campaign is then run again, when there is nothing to do, and shown.
"""

import argparse
import cProfile
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

from recbench.campaign import worker as work
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.row import Row
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Worker
from recbench.data.dataset import load_embedded
from recbench.evaluate.metrics import parse_metric
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.linear.lae import DeqlL2
from recbench.models.popularity import Constant
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS
from recbench.splits.strong import Strong

METRICS = [parse_metric(name) for name in ("ndcg@100", "recall-capped@20", "recall-capped@50")]


@MODELS.register("idle")
@dataclass(frozen=True)
class Idle(Model):
    """Popularity to some power: nothing to fit."""

    power: float = param(1.0, help="exponent", low=0)

    def fit(self, train: sparse.csr_array, ctx: Context) -> Scorer:
        """Count."""
        counts = np.bincount(train.indices, minlength=train.shape[1])
        return Scorer(Constant(((counts / counts.max()) ** self.power).astype(np.float32)))


def campaigns(trials: int) -> dict[str, list[Model]]:
    steps = [round(0.01 * (n + 1), 2) for n in range(trials)]
    return {"shared": [DeqlL2.of(b=b) for b in steps], "single": [Idle(power=p) for p in steps]}


class Clock:
    """Time and processor time spent in some functions."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Let a function run against the clock."""

        def timed(*args: Any, **named: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **named)
            finally:
                self.wall += time.perf_counter() - wall
                self.cpu += time.process_time() - cpu

        return timed


def run(folder: Path, models: Sequence[Model]) -> tuple[Clock, Clock, list[Row]]:
    """Run a campaign: the clocks of the whole and of its fits and rankings, and the rows."""
    plan = Plan(load_embedded("debian"), Strong(), models, METRICS, METRICS[0].text)
    worker, whole, inside = Worker(plan), Clock(), Clock()
    worker.split  # noqa: B018 - made once for all trials; not theirs
    family = type(models[0].family)
    with (
        mock.patch.object(work, "evaluate", inside.around(work.evaluate)),
        mock.patch.object(family, "fit", inside.around(family.fit)),
    ):
        rows = whole.around(Runner(worker, Campaign(folder)).run)()
    return whole, inside, rows


def show(folder: Path, times: int = 3) -> float:
    command = [sys.executable, "-m", "recbench", "show", str(folder)]
    return min(timed(command) for _ in range(times))


def timed(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure(folder: Path, models: Sequence[Model], profile: bool) -> None:
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    whole, inside, rows = run(folder, models)
    profiler.disable()
    again, _, same = run(folder, models)
    assert len(same) == len(rows) == len(models) + 1
    wall, cpu = whole.wall - inside.wall, whole.cpu - inside.cpu
    print(f"{folder.name:8} {len(models):,} trials in {whole.wall:6.1f} s; beside fits and "
          f"rankings {1000 * wall / len(models):6.2f} ms a trial, of which the processor "
          f"{1000 * cpu / len(models):5.2f} ms; found again in {again.wall:.2f} s, "
          f"shown in {show(folder):.2f} s", flush=True)  # fmt: skip
    if profile:
        pstats.Stats(profiler).sort_stats("cumtime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="recbench-overhead-"))
    for name, models in campaigns(options.trials).items():
        measure(root / name, models, options.profile)
    bare = min(timed([sys.executable, "-c", "import pandas, pyarrow"]) for _ in range(3))
    print(f"a Python that imports pandas and pyarrow takes {bare:.2f} s")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
