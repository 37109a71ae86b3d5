"""Rows per second and peak memory of every reader, on made-up files in the full layout.

    python bench/readers.py                      # a quarter of the real sizes
    python bench/readers.py --size 1             # as many rows as the real files have
    python bench/readers.py --only steam,netflix --folder /big/disk   # files are kept there

Every reading is a process of its own. The csv line also says how much longer recbench takes than
a bare `pyarrow.csv.read_csv` of the same rows, unpacked, read beside it.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyarrow import csv
from raw_files import MAKERS, Made


def measure(reader: str, paths: list[str], options: dict[str, Any]) -> dict[str, float]:
    """Read once, in this process."""
    if reader == "bare":
        start, started = time.perf_counter(), time.process_time()
        table = csv.read_csv(paths[0])
    else:
        read = importlib.import_module(f"recbench.data.readers.{reader.replace('-', '_')}").read
        start, started = time.perf_counter(), time.process_time()
        table = read([Path(path) for path in paths], options).table
    seconds, busy = time.perf_counter() - start, time.process_time() - started
    return {
        "rows": table.num_rows,
        "seconds": seconds,
        "busy": busy,
        "peak": peak_memory(),
        "table": table.get_total_buffer_size(),
    }


def peak_memory() -> int:
    """The most this process had in memory; `getrusage` would count its parent's, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def measured(reader: str, made: Made) -> dict[str, float]:
    """Read once, in a process of its own."""
    job = json.dumps([reader, [str(path) for path in made[0]], made[1]])
    command = [sys.executable, __file__, "--measure", job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr or f"{reader} died of signal {-done.returncode}")
    return dict(json.loads(done.stdout))


def report(name: str, size: float, folder: Path) -> None:
    reader, rows, make = MAKERS[name]
    mine = folder / f"{name}-{size:g}"
    note = mine / "made.json"
    if not note.exists():
        mine.mkdir(parents=True, exist_ok=True)
        paths, options = make(mine, int(rows * size))
        note.write_text(json.dumps([[str(path) for path in paths], options]))
    paths, options = json.loads(note.read_text())
    made = ([Path(path) for path in paths], options)
    on_disk = sum(path.stat().st_size for path in made[0])
    result = min((measured(reader, made) for _ in range(2)), key=lambda run: run["seconds"])
    seconds, busy = result["seconds"], result["busy"]
    line = (
        f"{name:12} {int(result['rows']):>12,} rows {seconds:6.1f} s (cpu {busy:6.1f} s) "
        f"{result['rows'] / seconds / 1e6:6.2f} M rows/s  {on_disk / 1e9:5.2f} GB packed "
        f" peak {result['peak'] / 1e9:5.2f} GB  table {result['table'] / 1e9:5.2f} GB"
    )
    if name == "csv":
        bare = min((measured("bare", made) for _ in range(2)), key=lambda run: run["seconds"])
        line += f"  {seconds / bare['seconds']:.2f} x bare pyarrow"
        line += f" ({busy / bare['busy']:.2f} x its cpu)"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=float, default=0.25, help="share of the real number of rows")
    parser.add_argument("--only", default=",".join(MAKERS), help="some of the layouts")
    parser.add_argument("--folder", type=Path, help="where to make the files, and keep them")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*json.loads(arguments.measure))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.only.split(","):
            report(name, arguments.size, arguments.folder or Path(temporary))


if __name__ == "__main__":
    main()
