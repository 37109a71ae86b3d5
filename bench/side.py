"""EASE from the side of the items and from that of the users, where users are fewer.

    python bench/side.py                    # a third of Gowalla's shape, a sixth of amazon-book's
    python bench/side.py --gowalla FOLDER   # Gowalla itself, from train.txt: minutes
    python bench/side.py --strangers 0.1    # a tenth of the users were not trained on

Either side is a process of its own that reports seconds and its peak memory, all included: the fit,
then the 20 best items of every user. Sides take turns; the fastest of the rounds counts. The lists
of both are compared.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

SHAPES = {
    "a third of Gowalla": (29_858 // 3, 40_981 // 3, 810_128 // 3, 80.0),
    "a sixth of amazon-book": (52_643 // 6, 91_599 // 6, 2_984_108 // 6, 200.0),
}
SIDES = ("items", "users")
Found = dict[str, float]


def clock() -> tuple[float, float]:
    """Seconds on the wall and of all processors."""
    return time.perf_counter(), time.process_time()


def take_part(side: str, path: Path, ridge: float, share: float) -> None:
    """Fit and rank from one side in this process; print what was measured, keep the lists."""
    from recbench.models.context import Context
    from recbench.models.contract import example
    from recbench.models.linear import inverse
    from recbench.models.scorers import Query

    matrix = sparse.csr_array(sparse.load_npz(path))
    invert = {"items": inverse.by_items, "users": inverse.by_users}[side]
    strangers = int(share * matrix.shape[0])
    rows = np.arange(matrix.shape[0], dtype=np.int32)
    rows[len(rows) - strangers :] = -1
    marks = []
    for train in (example(40, 60), matrix[: len(rows) - strangers]):  # the first compiles
        history = train if train.shape != (len(rows) - strangers, matrix.shape[1]) else matrix
        whose = rows if history is matrix else np.where(np.arange(40) % 2, -1, np.arange(40))
        g = np.bincount(train.indices, minlength=train.shape[1]).astype(np.float64)
        marks = [clock()]
        found = invert(train, g, np.full(len(g), ridge), Context())
        marks.append(clock())
        query = Query(history, whose.astype(np.int32), history, 20)
        (top,) = found.base.top(query, [-1.0 / found.diagonals.c])
        marks.append(clock())
    np.save(path.with_name(f"{side}.npy"), top.items)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    steps = {"fit": (marks[0], marks[1]), "rank": (marks[1], marks[2])}
    times = {
        f"{step} {what}": after[i] - before[i]
        for step, (before, after) in steps.items()
        for i, what in enumerate(("wall", "cpu"))
    }
    print(json.dumps(times | {"bytes": int(peak.split()[1]) * 1024}))


def synthetic(users: int, items: int, interactions: int) -> sparse.csr_array:
    """Users of skewed counts and items of skewed popularity."""
    rng = np.random.default_rng(0)
    counts = rng.lognormal(0.0, 0.8, users)
    counts = np.clip(counts * 1.15 * interactions / counts.sum(), 4, items // 3).astype(np.int64)
    popularity = np.cumsum(rng.lognormal(0.0, 1.3, items))
    owners = np.repeat(np.arange(users), counts)
    found = np.searchsorted(popularity, rng.random(len(owners)) * popularity[-1])
    matrix = sparse.csr_array(
        (np.ones(len(owners), np.float32), (owners, found)), shape=(users, items)
    )
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def gowalla(folder: Path) -> sparse.csr_array:
    """The train interactions as they are distributed."""
    lines = [
        np.array(line.split(), dtype=np.int64)
        for line in (folder / "train.txt").read_text(encoding="ascii").splitlines()
    ]
    users = np.concatenate([np.full(len(line) - 1, line[0]) for line in lines])
    items = np.concatenate([line[1:] for line in lines])
    return sparse.csr_array((np.ones(len(users), np.float32), (users, items)))


def contest(name: str, matrix: sparse.csr_array, ridge: float, options: argparse.Namespace) -> None:
    print(f"\n{name}: {matrix.shape[0]:,} users x {matrix.shape[1]:,} items, {matrix.nnz:,}")
    best: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.npz"
        sparse.save_npz(path, matrix, compressed=False)
        for _ in range(options.rounds):
            for side in options.sides:
                given = [side, str(path), str(ridge), str(options.strangers)]
                command = [sys.executable, __file__, "--contestant", *given]
                found = json.loads(
                    subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
                )
                former = best.setdefault(side, found)
                best[side] = {key: min(former[key], found[key]) for key in found}
        lists = [np.load(path.with_name(f"{side}.npy")) for side in options.sides]
    for side, found in best.items():
        print(f"{side:8}", "  ".join(f"{k} {v:8.2f} s" for k, v in found.items() if k != "bytes"),
              f"  {found['bytes'] / 1e9:.2f} GB")  # fmt: skip
    if len(lists) == 2:
        ratios = {key: best["items"][key] / best["users"][key] for key in best["items"]}
        print("items / users  ", "  ".join(f"{key} {ratio:.2f}" for key, ratio in ratios.items()))
        print(f"places of the lists that differ: {np.mean(lists[0] != lists[1]):.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gowalla", type=Path, help="a folder with train.txt")
    parser.add_argument(
        "--strangers", type=float, default=0.0, help="share of users not trained on"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ridge", type=float, help="another penalty")
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES)
    parser.add_argument("--contestant", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        side, path, ridge, share = options.contestant
        take_part(side, Path(path), float(ridge), float(share))
    elif options.gowalla:
        contest("Gowalla", gowalla(options.gowalla), options.ridge or 80.0, options)
    else:
        for name, (*shape, ridge) in SHAPES.items():
            contest(name, synthetic(*shape), options.ridge or ridge, options)


if __name__ == "__main__":
    main()
