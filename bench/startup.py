"""How long a user waits before anything happens, and what the first fit on a machine takes.

    python bench/startup.py

Commands are started eleven times in turn; the first of them fills caches. The median of the time is
printed, and of the processor time the median and the least, which other work on the machine changes
least, beside a bare Python. A function of `recbench.api` imports what it needs when it is called,
so nearly all of that is measured as well.

Then each model is run twice on small data, in a process of its own each time: with an empty folder
for machine code, and with what that left there. Compiling and loading count as neither fitting nor
ranking; the run says what they took.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = {
    "bare python": ["-c", "pass"],
    "python with numpy": ["-c", "import numpy"],
    "  and sparse matrices": ["-c", "import numpy, scipy.sparse"],
    "  and pandas": ["-c", "import numpy, pandas"],
    "import recbench.api": ["-c", "import recbench.api"],
    "  and what it calls": ["-c", "import recbench.campaign.request, recbench.report.html.page"],
    "recbench --help": ["-m", "recbench", "--help"],
    "recbench list models": ["-m", "recbench", "list", "models"],
    "recbench list datasets": ["-m", "recbench", "list", "datasets"],
    "recbench info deql-l2": ["-m", "recbench", "info", "deql-l2"],
}


USUAL = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment of most users: what Python compiles is kept."""
MODELS = ("ease", "ials", "ials[solver=cg]", "slim", "mf")
DATA = "synthetic:users=2000,items=500,interactions=40000"


def seconds_of(words: list[str]) -> tuple[float, float]:
    """Time a command; its processor time as well."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, env=USUAL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(repeats: int = 10) -> None:
    """Start every command again and again, in turn, and print what they take."""
    rounds = [[seconds_of(words) for words in COMMANDS.values()] for _ in range(repeats + 1)][1:]
    lines = [list(zip(*times, strict=True)) for times in zip(*rounds, strict=True)]
    bare = min(lines[0][1])
    print(f"{'seconds':24}  median   processor: median   least   x bare python")
    for name, (walls, used) in zip(COMMANDS, lines, strict=True):
        print(f"{name:24}  {statistics.median(walls):6.3f}   {statistics.median(used):17.3f}"
              f"  {min(used):6.3f}   {min(used) / bare:13.1f}", flush=True)  # fmt: skip


def fit(model: str, code: Path) -> dict[str, float]:
    """Run a model with this folder for machine code; the seconds of its first row."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", "-d", DATA, "--split", "weak", "-q", "-m", model, "-o", folder]
        subprocess.run(
            [sys.executable, "-m", "recbench", *words], check=True, stdout=subprocess.DEVNULL,
            env={**USUAL, "NUMBA_CACHE_DIR": str(code)},
        )  # fmt: skip
        row = json.loads(
            (Path(folder) / "trials.jsonl").read_text(encoding="utf-8").splitlines()[0]
        )
    return {name: row[f"{name}_seconds"] for name in ("fit", "score", "compile")}


def main() -> None:
    commands()
    print(f"\n{'seconds':24} fit    rank   compile   fit    rank   load")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            runs = [fit(model, Path(folder)) for _ in range(2)]
        cells = [f"{seconds:6.2f} " for run in runs for seconds in run.values()]
        print(f"{model:20}", *cells, flush=True)


if __name__ == "__main__":
    main()
