"""Kill a campaign at random moments, run the same command again, and compare the tables.

    python bench/kill_campaign.py [--kills 100] [--each 10] [--jobs 1]

A campaign of 200 trials of several models on `debian` is killed (SIGKILL, with its children)
`--each` times before it may finish; that is repeated until there were `--kills` kills. Every
finished table must be byte-identical to that of a run that nobody disturbed, with no trial
missing or doubled, every per-user file readable, and no reservation or lock left behind. With
`--each 1` every single kill is followed by a run to the end.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from filelock import FileLock

WORDS = (  # noqa: SIM905 - reads as it is typed
    "run -q -m popularity -m ease -m deql-l2 -m edlae -m rdlae --grid ease.l2=1,10,100 "
    "--grid deql-l2.p=0.3,0.5 --grid deql-l2.b=0.05:3.5:0.05 --grid edlae.p=0.3,0.5 "
    "--set edlae.l2=10 --grid rdlae.p=0.3,0.5 --set rdlae.l2=10 --grid rdlae.xi=0.02:0.54:0.02"
).split()


def start(folder: Path, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "recbench", *WORDS, "-j", str(jobs), "-o", str(folder)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finish(folder: Path, jobs: int) -> float:
    began = time.perf_counter()
    process = start(folder, jobs)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    return time.perf_counter() - began


def kill_after(folder: Path, jobs: int, seconds: float) -> bool:
    """Kill a run after a while; False if it was finished before."""
    process = start(folder, jobs)
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0
    return False


def check(folder: Path, expected: bytes) -> None:
    assert (folder / "metrics.csv").read_bytes() == expected, f"{folder}: the tables differ"
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    keys = [(row["trial"], row["part"]) for row in rows]
    assert len(set(keys)) == len(keys), "a trial is doubled"
    for trial, part in keys:
        assert pq.read_table(folder / "per-user" / f"{trial}-{part}.parquet").num_rows
    assert not (folder / ".claims").exists(), "a reservation was left behind"
    with FileLock(folder / ".lock", blocking=False):  # raises if anybody still holds it
        pass
    lines = (folder / "trials.jsonl").read_bytes().splitlines()
    assert sum(map(whole, lines)) == len(keys), "a trial was recorded twice"
    assert not list(folder.rglob("*.part")), "a partial file was left behind"


def whole(line: bytes) -> bool:
    """Whether a line of the log is not one that a kill cut short."""
    try:
        return "trial" in json.loads(line)
    except ValueError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="recbench-kill-"))
    seconds = finish(root / "undisturbed", options.jobs)
    expected = (root / "undisturbed" / "metrics.csv").read_bytes()
    trials = expected.count(b",valid,")
    print(f"undisturbed: {trials} trials in {seconds:.1f} s")
    moments, kills, campaigns = random.Random(0), 0, 0
    while kills < options.kills:
        folder = root / f"campaign-{campaigns}"
        here = sum(
            kill_after(folder, options.jobs, moments.uniform(0.2, seconds / 2))
            for _ in range(options.each)
        )
        finish(folder, options.jobs)
        check(folder, expected)
        shutil.rmtree(folder)
        kills, campaigns = kills + here, campaigns + 1
        print(f"campaign {campaigns}: killed {here} times, same table; {kills} kills", flush=True)
    shutil.rmtree(root)
    print(f"{kills} kills, {campaigns} campaigns of {trials} trials, every table byte-identical")


if __name__ == "__main__":
    main()
