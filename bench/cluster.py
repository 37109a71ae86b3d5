"""A campaign on a cluster whose workers are killed, stopped and slowed, beside one in this process.

    python bench/cluster.py                              # 200 trials, 4 workers
    python bench/cluster.py --scheduler-dies             # and once the scheduler, with all workers
    python bench/cluster.py --shared                     # workers read the data from the folder

A Dask scheduler and its workers are processes of this machine that meet on the loopback interface.
While the campaign runs, one worker after the other is killed by SIGKILL and started anew, stopped
for a second, or stopped nine tenths of the time for a while. In the end metrics.csv must be, byte
for byte, that of the same campaign in one process. Without --shared workers do not look into the
results folder, as if they were elsewhere: the data are sent, to the machine and not to each worker.
Exit code 1 if a byte differs.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from recbench.campaign.cluster.executor import Cluster
from recbench.campaign.cluster.link import DaskLink
from recbench.campaign.executors import InProcess, Parcel
from recbench.campaign.request import Request
from recbench.campaign.runner import Runner

DATA = "synthetic:users=3000,items=900"
LISTED = 9
"""Trials of `item-knn`, and one of `popularity`: the rest are `ease`, each a group of its own."""
APART = 1.0
"""Seconds from one trouble to the next, on average."""
STOPPED, SLOWED, BEAT = 1.0, 2.0, 0.1
"""Seconds that a worker is stopped, or slowed, and of which one beat of a slow one lasts."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Lab:
    """A scheduler and workers."""

    def __init__(self, folder: Path, workers: int, memory: str = "1GB") -> None:
        self.folder, self.memory = folder, memory
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.starts = 0
        self.scheduler = self._scheduler()
        self.workers = [self._worker(number) for number in range(workers)]

    def restart(self, number: int) -> None:
        """Kill a worker, and start another."""
        self.end(self.workers[number])
        self.workers[number] = self._worker(number)

    def restart_all(self) -> None:
        """Kill the scheduler; workers leave with it, and all are started anew."""
        for process in (self.scheduler, *self.workers):
            self.end(process)
        self.scheduler = self._scheduler()
        self.workers = [self._worker(number) for number in range(len(self.workers))]

    def stop(self, number: int, seconds: float) -> None:
        """Let a worker do nothing for a while."""
        with suppress(ProcessLookupError):
            self.workers[number].send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self.workers[number].send_signal(signal.SIGCONT)

    def slow(self, number: int, seconds: float) -> None:
        """Let a worker do a tenth of what it could."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.stop(number, 0.9 * BEAT)
            time.sleep(0.1 * BEAT)

    def close(self) -> None:
        """End everything."""
        for process in (*self.workers, self.scheduler):
            self.end(process)

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill a process; one that is stopped, too."""
        process.kill()
        process.wait()

    def _scheduler(self) -> "subprocess.Popen[bytes]":
        words = ["--host", "127.0.0.1", "--port", str(self.port)]
        return self._start("scheduler", *words, "--no-dashboard")

    def _worker(self, number: int) -> "subprocess.Popen[bytes]":
        words = [self.address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1"]
        self.starts += 1
        return self._start(
            "worker", *words, "--name", f"{number}.{self.starts}", "--no-dashboard",
            "--local-directory", str(self.folder), "--memory-limit", self.memory,
        )  # fmt: skip

    def _start(self, what: str, *words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
        with (self.folder / f"{what}.log").open("ab") as log:
            threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
            return subprocess.Popen(command, env={**os.environ, **threads}, stdout=log, stderr=log)


class Trouble(threading.Thread):
    """Makes trouble in a lab until it is told to leave."""

    def __init__(self, lab: Lab, seed: int, scheduler_dies: bool) -> None:
        super().__init__(daemon=True)
        self.lab, self.dice = lab, random.Random(seed)
        self.left, self.made = threading.Event(), Counter[str]()
        self.scheduler_dies = scheduler_dies

    def run(self) -> None:
        """One trouble after the other."""
        lab = self.lab
        kinds: dict[str, Callable[[int], None]] = {
            "killed": lab.restart,
            "stopped": partial(lab.stop, seconds=STOPPED),
            "slowed": partial(lab.slow, seconds=SLOWED),
        }
        while not self.left.wait(self.dice.uniform(0.5, 1.5) * APART):
            if self.scheduler_dies:
                lab.restart_all()
                self.made["all killed with the scheduler"] += 1
                self.scheduler_dies = False
                continue
            kind = self.dice.choice([*kinds])
            kinds[kind](self.dice.randrange(len(lab.workers)))
            self.made[kind] += 1

    def end(self) -> None:
        """Leave after what has begun."""
        self.left.set()
        self.join()


def campaign(folder: Path, trials: int, announce: Callable[[str], None]) -> Runner:
    """Cheap fits, most of them alone."""
    return Request(
        data=DATA, models=["popularity", "item-knn", "ease"], output=folder, threads=1,
        grids=["item-knn.k=10:90:10", f"ease.l2=1:1000:log{trials - LISTED - 1}"],
        announce=announce,
    ).runner()  # fmt: skip


def compare(
    root: Path, *, trials: int, workers: int, seed: int, shared: bool = False,
    scheduler_dies: bool = False, announce: Callable[[str], None] = lambda text: None,
) -> tuple[bool, str]:  # fmt: skip
    """Run both; say whether they ended in the same bytes, and what it took."""
    alone = campaign(root / "alone", trials, lambda text: None)
    alone.executor = InProcess(alone.worker)
    start = time.perf_counter()
    alone.run()
    one = time.perf_counter() - start
    there = campaign(root / "there", trials, announce)
    (root / "workers").mkdir()
    lab = Lab(root / "workers", workers)
    trouble = Trouble(lab, seed, scheduler_dies)
    try:
        executor = there.executor = Cluster(
            Parcel.of(there.worker), partial(DaskLink, lab.address), threads=1,
            folder=root / "there" if shared else None, announce=announce,
        )  # fmt: skip
        trouble.start()
        start = time.perf_counter()
        there.run()
        many = time.perf_counter() - start
    finally:
        trouble.end()
        lab.close()
    tables = [(root / name / "metrics.csv").read_bytes() for name in ("alone", "there")]
    same = tables[0] == tables[1]
    sent = ", ".join(f"{size:,}" for size in executor.sent.values()) or "0"
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(trouble.made.items()))
    seconds = f"{many:.0f} s on {workers} workers, {one:.0f} s in one process"
    lines = [
        f"{len(there.trials)} trials: {seconds}",
        f"workers {made}; {lab.starts} processes were started",
        f"bytes sent: {sent} of {len(Parcel.of(there.worker).pickled):,}",
        f"metrics.csv: {'the same bytes' if same else 'OTHER BYTES'}",
    ]
    return same, "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--scheduler-dies", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recbench-cluster-") as root:
        same, words = compare(
            Path(root), trials=options.trials, workers=options.workers, seed=options.seed,
            shared=options.shared, scheduler_dies=options.scheduler_dies,
            announce=partial(print, flush=True) if options.verbose else lambda text: None,
        )  # fmt: skip
    print(words)
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
