"""How long a user waits before anything happens, and what the first fit on a machine takes.

    python bench/startup.py

Commands are started six times, the first of which fills caches. The median is printed, of the time
and of the processor time, beside a bare Python. Then each model is run twice on small data, in a
process of its own each time: with an empty folder for machine code, and with what that left there.
Compiling and loading count as neither fitting nor ranking; the run says what they took.
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
    "import recbench.api": ["-c", "import recbench.api"],
    "recbench --help": ["-m", "recbench", "--help"],
    "recbench list models": ["-m", "recbench", "list", "models"],
    "recbench list datasets": ["-m", "recbench", "list", "datasets"],
    "recbench info deql-l2": ["-m", "recbench", "info", "deql-l2"],
}


USUAL = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment of most users: what Python compiles is kept."""
MODELS = ("ease", "ials", "ials[solver=cg]", "slim", "mf")
DATA = "synthetic:users=2000,items=500,interactions=40000"


def seconds_of(words: list[str], repeats: int = 5) -> tuple[float, float]:
    """Time a command, after one run that fills the caches; its processor time as well."""
    times = []
    for _ in range(repeats + 1):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, *words]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=USUAL)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append((wall, used))
    walls, processor = zip(*times[1:], strict=True)
    return statistics.median(walls), statistics.median(processor)


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
    bare, bare_processor = seconds_of(COMMANDS["bare python"])
    for name, words in COMMANDS.items():
        wall, processor = seconds_of(words)
        print(f"{name:24} {wall:6.3f} s  {wall / bare:5.1f} x bare python"
              f"  processor {processor:6.3f} s  {processor / bare_processor:5.1f} x")  # fmt: skip
    print(f"\n{'seconds':24} fit    rank   compile   fit    rank   load")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            runs = [fit(model, Path(folder)) for _ in range(2)]
        cells = [f"{seconds:6.2f} " for run in runs for seconds in run.values()]
        print(f"{model:20}", *cells, flush=True)


if __name__ == "__main__":
    main()
