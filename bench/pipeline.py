"""From a csv to a Dataset: recbench beside a bare read and beside polars and pandas idioms.

    python bench/pipeline.py            # 20 million rows, like ML-20M
    python bench/pipeline.py --quick    # 4 million
    python bench/pipeline.py --shuffle  # rows in no order: repeated pairs must be searched for

Everybody reads user, item, rating and time, keeps ratings above 3.5, removes repeated pairs,
takes the iterated 5-core and numbers users and items without gaps. Runs take turns, each in its
own process; the fastest of three counts. Needs polars installed beside recbench.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CORE = 5
ABOVE = 3.5
Counts = tuple[int, int, int]


def write_csv(path: Path, rows: int, shuffle: bool) -> None:
    """Make up ratings of the size and order of ML-20M's: by user, then item; ids with gaps."""
    import pyarrow as pa
    from pyarrow import csv

    from recbench.data.synthetic import Synthetic, generate

    data = generate(Synthetic(users=rows // 144, items=26_744, interactions=rows))
    random = np.random.RandomState(0)
    movie = np.sort(random.permutation(131_262)[: data.n_items]) + 1
    stars = random.choice(
        np.arange(1, 11) / 2, size=rows, p=np.array([1, 3, 1, 7, 4, 21, 11, 28, 8, 16]) / 100
    )
    columns = {
        "userId": data.user + 1,
        "movieId": movie[data.item],
        "rating": stars,
        "timestamp": random.randint(800_000_000, 1_400_000_000, size=rows),
    }
    table = pa.table(columns)
    csv.write_csv(table.take(random.permutation(rows)) if shuffle else table, path)


def run_read(path: Path) -> Counts:
    from pyarrow import csv

    return (0, 0, csv.read_csv(path).num_rows)


def run_recbench(path: Path) -> Counts:
    from recbench.data.clean import prepare
    from recbench.data.readers.delimited import read
    from recbench.data.recipe import Filter, Recipe

    columns = {"user": "userId", "item": "movieId", "value": "rating", "time": "timestamp"}
    recipe = Recipe(positive=(">", ABOVE), filters=(Filter(CORE, CORE),))
    data = prepare(read([path], {"columns": columns}), recipe, "bench")
    return data.n_users, data.n_items, len(data)


def run_polars(path: Path) -> Counts:
    import polars as pl  # type: ignore[import-not-found]  # installed where this is run

    rows = pl.scan_csv(path).filter(pl.col("rating") > ABOVE)
    frame = rows.unique(["userId", "movieId"], keep="first", maintain_order=True).collect()
    before = -1
    while len(frame) != before:
        before = len(frame)
        for side in ("movieId", "userId"):
            strong = frame.group_by(side).len().filter(pl.col("len") >= CORE)
            frame = frame.join(strong, on=side, how="semi")
    for side in ("userId", "movieId"):
        ids = frame.select(pl.col(side).unique().sort()).with_row_index(f"{side}_index")
        frame = frame.join(ids, on=side, how="left", maintain_order="left")
    return frame["userId"].n_unique(), frame["movieId"].n_unique(), len(frame)


def run_pandas(path: Path) -> Counts:
    import pandas as pd

    frame = pd.read_csv(path)
    frame = frame[frame["rating"] > ABOVE].drop_duplicates(["userId", "movieId"])
    before = -1
    while len(frame) != before:
        before = len(frame)
        for side in ("movieId", "userId"):
            frame = frame[frame.groupby(side)[side].transform("size") >= CORE]
    for side in ("userId", "movieId"):
        frame[f"{side}_index"] = frame[side].astype("category").cat.codes
    return frame["userId"].nunique(), frame["movieId"].nunique(), len(frame)


RUNS: dict[str, Callable[[Path], Counts]] = {
    "bare pyarrow read": run_read,
    "recbench": run_recbench,
    "polars": run_polars,
    "pandas": run_pandas,
}


def measure(name: str, path: Path) -> None:
    """Run one competitor in this process and print what it took as JSON."""
    import polars as _polars  # noqa: F401 - nobody pays for imports inside the clock
    import pyarrow.csv as _csv  # noqa: F401

    import recbench.data.readers.delimited as _reader  # noqa: F401

    start = time.perf_counter()
    counts = RUNS[name](path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak, "counts": counts}))


def in_turns(path: Path, repeats: int = 3) -> dict[str, dict[str, Any]]:
    """Measure everybody once a round; keep the fastest round of each."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for name in RUNS:
            words = [sys.executable, __file__, "--run", name, str(path)]
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--run", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.run:
        measure(words.run[0], Path(words.run[1]))
        return
    rows = words.rows or (4_000_000 if words.quick else 20_000_263)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        write_csv(path, rows, words.shuffle)
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
        found = in_turns(path)
    if (
        len({tuple(one["counts"]) for name, one in found.items() if name != "bare pyarrow read"})
        > 1
    ):
        sys.exit(f"they do not agree: {found}")
    ours = found["recbench"]
    for name, one in found.items():
        print(
            f"{name:18} {one['seconds']:6.2f} s  {one['seconds'] / ours['seconds']:5.2f} x recbench"
            f"  {one['peak'] / 1e9:5.2f} GB  {one['peak'] / ours['peak']:5.2f} x recbench"
        )
    print("users, items, interactions:", ours["counts"])


if __name__ == "__main__":
    main()
