"""From a csv to a split in Parquet: recbench, and how one would write it with four libraries.

    python bench/pipeline.py --peers PYTHON      # an interpreter with polars, pandas and pyarrow
    python bench/pipeline.py --only sparse --rows 1000000

The job, and no more than that: read user, item and value; keep values of at least 4; take the
iterated 5-core; number users and items without gaps, in any order; hold out the last row of every
user for the test and the one before it for validation, in file order; write train, valid and test
as Parquet files of numbers, and the ids of users and of items as two more. There are no repeated
pairs, and nobody is asked to look for them.

`recbench` does what `recbench export` does with such a file, so it looks for repeated pairs and bad
cells all the same, and makes the fingerprint. Of `dense` the ids are numbers and a user has 144
rows on average; of `sparse` they are text, as in MSD, and a user has 12.

Contestants take turns, each in its own process. The least of the rounds counts: of the time, of the
processor time of all threads, of the peak memory of the process. Imports are not timed. What they
write is compared by original ids.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEAST = 4
CORE = 5
ROLES = ("user", "item")
PARTS = ("train", "valid", "test")
Found = dict[str, float]


@dataclass(frozen=True)
class Shape:
    """Generated data, for a million rows: how many users and items, and what ids look like."""

    users: int
    items: int
    text: bool


SHAPES = {"dense": Shape(6_944, 2_674, text=False), "sparse": Shape(80_000, 30_000, text=True)}


def write_csv(path: Path, shape: Shape, rows: int) -> None:
    """Make up ratings, by user and then by item; numbers have gaps, text has MSD's lengths."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    from recbench.data.synthetic import Synthetic, generate

    users, items = (size * rows // 1_000_000 for size in (shape.users, shape.items))
    data = generate(Synthetic(users=users, items=items, interactions=rows))
    random = np.random.RandomState(0)

    def hashed(prefix: str, size: int, digits: int) -> Any:
        names = (hashlib.sha1(f"{prefix}{n}".encode()).hexdigest() for n in range(size))
        return pa.array([prefix + name[:digits] for name in names])

    if shape.text:
        user, item = hashed("", users, 40), hashed("SO", items, 16)
    else:
        user, item = (
            pa.array(np.sort(random.permutation(size * 5)[:size]) + 1) for size in (users, items)
        )
    columns = {
        "user": user.take(pa.array(data.user)),
        "item": item.take(pa.array(data.item)),
        "value": random.choice(np.arange(1, 6), size=rows, p=[0.06, 0.11, 0.27, 0.34, 0.22]),
    }
    csv.write_csv(pa.table(columns), path, csv.WriteOptions(quoting_style="none"))


def run_recbench(path: Path, folder: Path) -> None:
    from recbench.data.open import OwnFile, open_file
    from recbench.splits.export import export
    from recbench.splits.last import Last

    data = open_file(OwnFile(path, value="value", minimum=LEAST, core=CORE))
    export(data, Last(by="file").divide(data), "parquet", folder)


def run_polars(path: Path, folder: Path, *, lazy: bool) -> None:
    import polars as pl  # type: ignore[import-not-found]  # installed where this is run

    rows: Any = pl.scan_csv(path) if lazy else pl.read_csv(path)
    rows = rows.filter(pl.col("value") >= LEAST).select(ROLES)
    frame = rows.collect(engine="streaming") if lazy else rows
    before = -1
    while len(frame) != before:
        before = len(frame)
        for side in ROLES:
            strong = frame.group_by(side).len().filter(pl.col("len") >= CORE)
            frame = frame.join(strong, on=side, how="semi", maintain_order="left")
    for side in ROLES:
        ids = frame.select(pl.col(side).unique()).with_row_index("number")
        ids.select(id=side).write_parquet(folder / f"{side}s.parquet")
        numbered = frame.join(ids, on=side, how="left", maintain_order="left")
        frame = numbered.drop(side).rename({"number": side})
    frame = frame.with_columns(after=pl.int_range(pl.len()).reverse().over("user"))
    conditions = (pl.col("after") > 1, pl.col("after") == 1, pl.col("after") == 0)
    for part, condition in zip(PARTS, conditions, strict=True):
        frame.filter(condition).select(ROLES).write_parquet(folder / f"{part}.parquet")


def run_pandas(path: Path, folder: Path) -> None:
    import pandas as pd

    frame: Any = pd.read_csv(path, engine="pyarrow")
    frame = frame.loc[frame["value"] >= LEAST, list(ROLES)]
    before = -1
    while len(frame) != before:
        before = len(frame)
        for side in ROLES:
            counts = frame[side].value_counts()
            frame = frame[frame[side].isin(counts.index[counts >= CORE])]
    for side in ROLES:
        numbers, ids = pd.factorize(frame[side])
        frame[side] = numbers
        pd.DataFrame({"id": ids}).to_parquet(folder / f"{side}s.parquet")
    after = frame.groupby("user").cumcount(ascending=False)
    for part, chosen in zip(PARTS, (after > 1, after == 1, after == 0), strict=True):
        frame[chosen].to_parquet(folder / f"{part}.parquet", index=False)


def run_arrow(path: Path, folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import csv

    table: Any = csv.read_csv(path)
    table = table.filter(pc.greater_equal(table["value"], LEAST)).select(list(ROLES))
    codes: list[Any] = []
    ids: list[Any] = []
    for role in ROLES:
        coded = table[role].dictionary_encode().combine_chunks()
        codes.append(coded.indices.to_numpy())
        ids.append(coded.dictionary)
    del table, coded
    before = -1
    while len(codes[0]) != before:
        before = len(codes[0])
        for side in (0, 1):
            strong = np.bincount(codes[side]) >= CORE
            stay = strong[codes[side]]
            codes = [values[stay] for values in codes]
    for side, values in enumerate(codes):
        used = np.flatnonzero(np.bincount(values, minlength=len(ids[side])))
        place = np.zeros(len(ids[side]), dtype=np.int32)
        place[used] = np.arange(len(used))
        codes[side] = place[values]
        pq.write_table(pa.table({"id": ids[side].take(used)}), folder / f"{ROLES[side]}s.parquet")
    user, item = codes
    order = np.argsort(user, kind="stable")
    ends = np.cumsum(np.bincount(user))
    part = np.zeros(len(user), dtype=np.int8)
    part[order[ends - 1]] = 2
    part[order[ends - 2]] = 1
    for number, name in enumerate(PARTS):
        chosen = part == number
        written = pa.table({"user": user[chosen], "item": item[chosen]})
        pq.write_table(written, folder / f"{name}.parquet")


RUNS: dict[str, Callable[[Path, Path], None]] = {
    "recbench": run_recbench,
    "polars, eager": lambda path, folder: run_polars(path, folder, lazy=False),
    "polars, lazy": lambda path, folder: run_polars(path, folder, lazy=True),
    "arrow and numpy": run_arrow,
    "pandas": run_pandas,
}
ARROW = ("numpy", "pandas", "pyarrow.csv", "pyarrow.compute", "pyarrow.parquet")
"""Arrow imports pandas with the first array that is made, where it is installed."""
BROUGHT = {
    "recbench": (
        *ARROW, "recbench.data.open", "recbench.data.clean", "recbench.data.readers.delimited",
        "recbench.splits.last", "recbench.splits.export",
    ),
    "polars, eager": ("polars",),
    "polars, lazy": ("polars",),
    "arrow and numpy": ARROW,
    "pandas": ARROW,
}  # fmt: skip


def take_part(name: str, path: Path, folder: Path) -> None:
    """Run one contestant in this process, and print what it took as JSON."""
    for module in BROUGHT[name]:
        __import__(module)
    wall, processor = time.perf_counter(), time.process_time()
    RUNS[name](path, folder)
    found = {"s": time.perf_counter() - wall, "processor s": time.process_time() - processor}
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({**found, "GB": int(peak.split()[1]) * 1024 / 1e9}))


def content(folder: Path) -> str:
    """A digest of what was written, whatever the numbers and the order of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names: dict[str, Any] = {
        side: pq.read_table(folder / f"{side}s.parquet")["id"] for side in ROLES
    }
    ranks: dict[str, Any] = {}
    digest = hashlib.sha256()
    for side, ids in names.items():
        order = pc.sort_indices(ids).to_numpy()
        ranks[side] = np.empty(len(order), dtype=np.int64)
        ranks[side][order] = np.arange(len(order))
        digest.update(repr(pa.array(ids.take(pa.array(order))).to_pylist()).encode())
    for part in PARTS:
        table = pq.read_table(folder / f"{part}.parquet")
        user, item = (ranks[side][table[side].to_numpy()] for side in ROLES)
        digest.update(np.sort(user * len(names["item"]) + item).tobytes())
    return digest.hexdigest()


def contest(path: Path, options: argparse.Namespace) -> dict[str, Found]:
    """Let everybody run once a round; keep the least of each number."""
    best: dict[str, Found] = {}
    contents = {}
    for _ in range(options.rounds):
        for name in RUNS if options.peers else ["recbench"]:
            python = sys.executable if name == "recbench" else options.peers
            with tempfile.TemporaryDirectory() as folder:
                words = [python, __file__, "--run", name, str(path), folder]
                done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                contents[name] = content(Path(folder))
            found = json.loads(done.stdout)
            former = best.setdefault(name, found)
            best[name] = {key: min(former[key], found[key]) for key in found}
    if len(set(contents.values())) > 1:
        sys.exit(f"they do not agree: {contents}")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="an interpreter that has polars, pandas and pyarrow")
    parser.add_argument("--only", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, metavar=("NAME", "FILE", "FOLDER"),
                        help=argparse.SUPPRESS)  # fmt: skip
    options = parser.parse_args()
    if options.run:
        name, path, folder = options.run
        take_part(name, Path(path), Path(folder))
        return
    for shape in options.only:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ratings.csv"
            write_csv(path, SHAPES[shape], options.rows)
            print(f"\n{shape}: {options.rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
            found = contest(path, options)
        ours = found["recbench"]
        for name, theirs in found.items():
            cells = (f"{v:7.2f} {key} ({v / ours[key]:.2f})" for key, v in theirs.items())
            print(f"{name:16}", "".join(cells), flush=True)


if __name__ == "__main__":
    main()
