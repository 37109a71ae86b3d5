"""Signals to a campaign at random moments: the same command goes on and ends in the same table.

A campaign is signalled a few times, its whole group or only the process that was started, and then
run to its end: the table must be, byte for byte, that of a run that nobody disturbed, with no trial
missing or doubled, every per-user file readable, and no reservation or part of a file left behind.
Most processes are copies of one that is loaded; some are whole ones.
"""

import csv
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

from filelock import FileLock

from bench.attack import mischief
from bench.attack.process import Process, Start
from bench.attack.suite import Verdict, command

WORDS = [
    "run", "-q", "--data", mischief.TOY, "--user", "u", "--item", "i", "-k", "ndcg@10",
    "-m", "popularity", "-m", "ease", "-m", "edlae", "-m", "ials", "--grid", "ease.l2=1,10,100",
    "--grid", "edlae.l2=1:100:log3", "--grid", "edlae.p=0.3,0.5", "--set", "ials.factors=4",
    "--grid", "ials.iterations=2,4", "--trace",
]  # fmt: skip
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MOST_SIGNALS = 4
WHOLE = 0.02
"""The share of tries with whole processes, half of them with two at work."""


class Attack:
    """One campaign, disturbed and finished."""

    patience = 300.0

    def set_up(self, folder: Path) -> None:
        """Run the campaign in peace, and see how long a loaded process and a whole one take."""
        import toys

        self.folder = folder
        (folder / mischief.TOY).write_text(toys.csv_of(toys.two_tastes(60, 20)), encoding="utf-8")
        done = command(*WORDS, "-o", "loading")
        assert done.code == 0, done
        self.seconds = dict[bool, float]()
        for whole in (True, False):
            shutil.rmtree(folder / "peace", ignore_errors=True)
            began = time.perf_counter()
            code, said = self._finish("peace", 1, whole=whole)
            assert code == 0, said
            self.seconds[whole] = time.perf_counter() - began
        self.right = (folder / "peace" / "metrics.csv").read_bytes()

    def attempt(self, dice: random.Random) -> Verdict:
        """Disturb, finish, compare."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        whole = dice.random() < WHOLE
        jobs, done = 2 if whole and dice.random() < 0.5 else 1, []
        for _ in range(dice.randint(1, MOST_SIGNALS)):
            kind = dice.choice(SIGNALS)
            moment = dice.uniform(0.02, 1.2) * self.seconds[whole]
            self._disturb(moment, kind, jobs, whole=whole, group=dice.random() < 0.7)
            done.append(kind.name)
        about = f"-j {jobs} {'whole ' * whole}{' '.join(done)}"
        code, said = self._finish("out", jobs, whole=whole)
        if code:
            return Verdict("wrong", f"{about}: {said[-300:]}")
        wrong = self._wrong(self.folder / "out")
        return Verdict("wrong", f"{about}: {wrong}") if wrong else Verdict("right")

    def _start(self, name: str, jobs: int, *, whole: bool) -> Process:
        threads = [] if whole else ["--threads", "1"]  # copies are to be quick on a busy machine
        return Process(Start([*WORDS, *threads, "-j", str(jobs), "-o", name], whole=whole))

    def _finish(self, name: str, jobs: int, *, whole: bool) -> tuple[int, str]:
        process = self._start(name, jobs, whole=whole)
        process.wait()
        assert process.returncode is not None
        return process.returncode, process.said()

    def _disturb(self, seconds: float, kind: int, jobs: int, *, whole: bool, group: bool) -> None:
        process = self._start("out", jobs, whole=whole)
        if not process.wait(seconds):
            (os.killpg if group else os.kill)(process.pid, kind)
            if not process.wait(self.patience / 10):
                process.end()
                raise AssertionError(f"it does not end after {signal.Signals(kind).name}")
        process.said()

    def _wrong(self, folder: Path) -> str:
        """What is not as it should be after everything."""
        import pyarrow.parquet as pq

        if (folder / "metrics.csv").read_bytes() != self.right:
            return "another table"
        rows = list(csv.DictReader((folder / "metrics.csv").open(encoding="utf-8")))
        keys = [(row["trial"], row["part"]) for row in rows]
        if len(set(keys)) < len(keys):
            return "a trial is doubled"
        for trial, part in keys:
            if not pq.read_table(folder / "per-user" / f"{trial}-{part}.parquet").num_rows:
                return "no values of users"
        if (folder / ".claims").exists():
            return "a reservation was left behind"
        with FileLock(folder / ".lock", blocking=False):  # raises if anybody still holds it
            pass
        lines = (folder / "trials.jsonl").read_bytes().splitlines()
        if sum(map(_is_whole, lines)) != len(keys):
            return "a trial was recorded twice"
        return "a part of a file was left behind" if list(folder.rglob("*.part")) else ""


def _is_whole(line: bytes) -> bool:
    """Whether a line of the log is not one that a kill cut short."""
    try:
        return "trial" in json.loads(line)
    except ValueError:
        return False
