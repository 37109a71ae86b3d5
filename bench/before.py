"""This working copy beside another commit: what fetching, preparing, runs and tables cost.

    python bench/before.py ae6a08a [--rounds 7]

The other commit is checked out beside, and both run in this environment, in turns, each with a
home and a folder of its own. Every command is a process of its own; the fastest of the rounds
counts, on the wall and in processor time. `fetch` gets a file of 300,000 rows from a server on this
machine, and prepares it; `prepare` is a run on the same file, on a model without arithmetic; `run`
and `again` are nine trials of deql-l2 on the embedded data, the second time all finished; `show`
ranks them.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ROWS = 300_000
GRID = ["run", "-q", "-m", "deql-l2", "--grid", "b=0.1:2.0", "-o", "out"]
COMMANDS = {
    "fetch": ["fetch", "-f", "served"],
    "prepare": ["run", "-q", "--data", "own.csv", "-m", "popularity", "--split", "weak", "-f",
                "-o", "own"],
    "run": [*GRID, "-f"],
    "again": GRID,
    "show": ["show", "out"],
}  # fmt: skip


def own_file(path: Path) -> None:
    """Users and items of realistic skew."""
    draw = np.random.default_rng(0)
    users, items = draw.zipf(1.3, ROWS) % 20_000, draw.zipf(1.2, ROWS) % 5_000
    lines = np.char.add(np.char.add(users.astype(str), ","), items.astype(str))
    path.write_text("user,item\n" + "\n".join(lines.tolist()) + "\n")


CATALOGUE = """
served:
  title: Served
  licence: none
  reader: delimited
  options: {{columns: {{user: user, item: item}}}}
  files: [{{name: own.csv, urls: ["http://127.0.0.1:{port}/own.csv"]}}]
"""


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing of requests."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve(folder: Path) -> int:
    """Serve a folder to this machine; the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_port)


def timed(code: Path, folder: Path, words: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of one command."""
    home = {"PYTHONPATH": str(code), "RECBENCH_HOME": str(folder / "home")}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "recbench", *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | home, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{code}: {' '.join(words)}: {done.stderr.decode()}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Read the arguments, and take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        then = Path(work) / "then"
        subprocess.run(
            ["git", "-C", ROOT, "worktree", "add", "-q", "--detach", then, given.revision],
            check=True,
        )
        try:
            compare(Path(work), {"then": then, "now": ROOT}, given.rounds)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", then], check=True)


def compare(work: Path, codes: dict[str, Path], rounds: int) -> None:
    """Print a line for each command."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for name in codes:
        (work / name / "folder").mkdir(parents=True)
        folder = work / name / "folder"
        own_file(folder / "own.csv")
        (folder / "datasets.yaml").write_text(CATALOGUE.format(port=serve(folder)))
    for _ in range(rounds + 1):  # the first one compiles
        for what, words in COMMANDS.items():
            for name, code in codes.items():
                found = timed(code, work / name / "folder", words)
                known = best.get((what, name), (np.inf, np.inf))
                best[what, name] = min(known[0], found[0]), min(known[1], found[1])
    print("command   then s   now s   ratio   then cpu   now cpu   ratio")
    for what in COMMANDS:
        (wall, cpu), (wall_now, cpu_now) = best[what, "then"], best[what, "now"]
        print(
            f"{what:8s}{wall:8.2f}{wall_now:8.2f}{wall_now / wall:8.2f}"
            f"{cpu:11.2f}{cpu_now:10.2f}{cpu_now / cpu:8.2f}"
        )


if __name__ == "__main__":
    main()
