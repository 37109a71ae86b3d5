"""How long a user waits before anything happens: median of five, beside a bare Python.

python bench/startup.py
"""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "bare python": ["-c", "pass"],
    "python with numpy": ["-c", "import numpy"],
    "recbench --help": ["-m", "recbench", "--help"],
    "recbench list models": ["-m", "recbench", "list", "models"],
    "recbench list datasets": ["-m", "recbench", "list", "datasets"],
    "recbench info deql-l2": ["-m", "recbench", "info", "deql-l2"],
}


def median_seconds(words: list[str], repeats: int = 5) -> float:
    """Time a command, after one run that fills the caches."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    bare = median_seconds(COMMANDS["bare python"])
    for name, words in COMMANDS.items():
        seconds = median_seconds(words)
        print(f"{name:24} {seconds:6.3f} s  {seconds / bare:5.1f} x bare python")


if __name__ == "__main__":
    main()
