"""EASE's inverse of a Gram matrix: recbench beside NumPy, irspack and this machine's sgemm.

    python bench/tiles.py --peer PYTHON     # an interpreter with irspack
    python bench/tiles.py --all-items       # all 40,981 items of Gowalla instead: minutes
    python bench/tiles.py --movielens       # a synthetic matrix of MovieLens-20M's shape instead
    python bench/tiles.py --small           # small matrices, beside LAPACK's potrf and potri

Everyone gets the same sparse matrix, and a process of its own that reports its seconds and its peak
memory, all included. Contestants take turns; the fastest of the rounds counts. A rate is n³
operations a second, what an inverse through Cholesky takes; its share is that of sgemm, measured in
turn with the others. On a machine that others use too, look at the rate per second of processor
time. Where OPENBLAS_CORETYPE is set, all is done once more without it.

Small matrices are inverted in this process. How long two threads would take that nobody disturbs is
made of what each task takes one thread: those that may run side by side are dealt out in turn.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

GOWALLA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla"
RIDGE = 80.0
SMALL = (1000, 2048, 3628, 5219)
Found = dict[str, float]


class Clock:
    """Seconds on the wall and of all processors since it was made."""

    def __init__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def read(self) -> Found:
        """Both, by name."""
        wall, processor = self.started
        return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - processor}


# Contestants: each returns what it measured besides its peak memory


def sgemm(matrix: sparse.csr_array) -> Found:
    from scipy.linalg.blas import sgemm as multiply

    side, times = 4096, 8
    a, b, c = (np.ones((side, side), np.float32, order="F") for _ in range(3))
    multiply(1.0, a, b, 0.0, c, overwrite_c=1)
    clock = Clock()
    for _ in range(times):
        multiply(1.0, a, b, 0.0, c, overwrite_c=1)
    return clock.read() | {"operations": times * 2.0 * side**3}


def recbench(matrix: sparse.csr_array) -> Found:
    from recbench.linalg.gram import gram
    from recbench.linalg.tiles import Tiles

    gram(matrix[:, :1], Tiles.zeros(1))  # compiled code is read from its cache
    clock = Clock()
    tiles = Tiles.zeros(matrix.shape[1])
    gram(matrix, tiles)
    counted = clock.read()
    tiles.add_diagonal(RIDGE)
    tiles.invert()
    found = clock.read()
    residual = tiles.check_inverse(lambda z: matrix.T @ (matrix @ z) + RIDGE * z)
    return found | {"gram": counted["cpu"] / found["cpu"], "residual": residual}


def recbench_on_disk(matrix: sparse.csr_array) -> Found:
    from recbench.linalg.gram import gram
    from recbench.linalg.tiles import Tiles, inverse

    def fill(tiles: Tiles) -> None:
        gram(matrix, tiles)
        tiles.add_diagonal(RIDGE)

    gram(matrix[:, :1], Tiles.zeros(1))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        clock = Clock()
        inverse(matrix.shape[1], fill, folder=Path(folder))
        return clock.read()


def numpy(matrix: sparse.csr_array) -> Found:
    clock = Clock()
    dense = (matrix.T @ matrix).toarray().astype(np.float64)
    dense[np.diag_indices(len(dense))] += RIDGE
    np.linalg.inv(dense)
    return clock.read()


def irspack(matrix: sparse.csr_array) -> Found:
    from irspack.recommenders.dense_slim import DenseSLIMRecommender

    train = sparse.csr_matrix(matrix)
    clock = Clock()
    DenseSLIMRecommender(train, reg=RIDGE).learn()
    return clock.read()


CONTESTANTS: dict[str, Callable[[sparse.csr_array], Found]] = {
    "sgemm": sgemm,
    "recbench": recbench,
    "recbench-on-disk": recbench_on_disk,
    "numpy": numpy,
    "irspack": irspack,
}


def take_part(name: str, path: Path) -> None:
    """Run one contestant in this process and print what was measured."""
    matrix = sparse.csr_array(sparse.load_npz(path))
    found = {"operations": float(matrix.shape[1]) ** 3} | CONTESTANTS[name](matrix)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps(found | {"bytes": int(peak.split()[1]) * 1024}))


# Matrices


def gowalla(folder: Path, least: int) -> sparse.csr_array:
    """Train and test interactions together, without items of fewer than `least`."""
    lines = [
        np.array(line.split(), dtype=np.int64)
        for part in ("train", "test")
        for line in (folder / f"{part}.txt").read_text(encoding="ascii").splitlines()
    ]
    users = np.concatenate([np.full(len(line) - 1, line[0]) for line in lines])
    items = np.concatenate([line[1:] for line in lines])
    matrix = sparse.csr_array((np.ones(len(users), np.float32), (users, items)))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return sparse.csr_array(matrix[:, np.bincount(matrix.indices) >= least])


def movielens() -> sparse.csr_array:
    """136,000 x 20,000 with some ten million interactions, of users with up to thousands."""
    rng, shape = np.random.default_rng(0), (136_000, 20_000)
    counts = rng.lognormal(0.0, 1.25, shape[0])
    counts = np.clip(counts * 11.5e6 / counts.sum(), 3, shape[1] // 3).astype(np.int64)
    popularity = np.cumsum(rng.lognormal(0.0, 2.2, shape[1]))
    users = np.repeat(np.arange(shape[0]), counts)
    items = np.searchsorted(popularity, rng.random(len(users)) * popularity[-1])
    matrix = sparse.csr_array((np.ones(len(users), np.float32), (users, items)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


# The contest


def compare(pythons: dict[str, str], path: Path, rounds: int, environment: dict[str, str]) -> None:
    best: dict[str, Found] = {}
    for _ in range(rounds):
        for name, python in pythons.items():
            command = [python, __file__, "--contestant", name, str(path)]
            result = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
            if result.returncode:
                best[name] = {}  # it crashed, as LAPACK may on a large matrix
                continue
            found = json.loads(result.stdout)
            if found["seconds"] < best.get(name, found)["seconds"] or name not in best:
                best[name] = found
    report(best)


def report(best: dict[str, Found]) -> None:
    ours, ceiling = best["recbench"], best["sgemm"]
    print(f"{'':18}{'GFLOP/s':>9}{'of sgemm':>10}{'per cpu-s':>11}{'of sgemm':>10}", end="")
    print(f"{'time':>8}{'memory':>9}{'GB':>7}")
    for name, found in best.items():
        if not found:
            print(f"{name:18} crashed")
            continue
        line = f"{name:18}"
        for key, width in (("seconds", 9), ("cpu", 11)):
            rate, full = (each["operations"] / each[key] for each in (found, ceiling))
            line += f"{rate / 1e9:{width}.0f}{rate / full:10.2f}"
        if name != "sgemm":
            times, space = (found[key] / ours[key] for key in ("seconds", "bytes"))
            line += f"{times:7.2f}x{space:8.2f}x{found['bytes'] / 1e9:7.2f}"
        print(line)
    print(f"RᵀR is {ours['gram']:.1%} of the processor time of recbench; ", end="")
    print(f"‖(K C - I) z‖ / ‖z‖ is {ours['residual']:.1e}", flush=True)


def contest(options: argparse.Namespace) -> None:
    names = ["sgemm", "recbench"]
    if options.movielens:
        matrix = movielens()
    elif options.all_items:
        matrix = gowalla(options.gowalla, least=1)
    else:
        matrix = gowalla(options.gowalla, least=20)
        names += ["recbench-on-disk", "numpy"]
    pythons = dict.fromkeys(names, sys.executable)
    if options.peer:
        pythons["irspack"] = options.peer
    environments = {"as it is": dict(os.environ)}
    if "OPENBLAS_CORETYPE" in os.environ:
        free = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
        environments["without OPENBLAS_CORETYPE"] = free
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.npz"
        sparse.save_npz(path, matrix, compressed=False)
        print(f"{matrix.shape[0]:,} users x {matrix.shape[1]:,} items, {matrix.nnz:,} interactions")
        del matrix
        for name, environment in environments.items():
            print(f"\nenvironment {name}", flush=True)
            compare(pythons, path, options.rounds, environment)


def small(rounds: int) -> None:
    """Inverses of small dense matrices: by tiles of the side that is taken and of the largest."""
    from recbench.linalg.tiles import SIDE, side_for

    for n in SMALL:
        half = np.random.default_rng(0).random((n, n // 4), dtype=np.float32)
        matrix = half @ half.T + np.float32(RIDGE) * np.eye(n, dtype=np.float32)
        ways: dict[str, Callable[[], Found]] = {
            f"tiles of {side:,}": partial(by_tiles, matrix, side) for side in (side_for(n), SIDE)
        }
        ways["potrf and potri"] = partial(by_lapack, matrix)
        found = [{name: way() for name, way in ways.items()} for _ in range(rounds)]
        print(f"{n:,} items, ms{'on the wall':>20}{'of processors':>15}{'dealt to two':>15}")
        for name in ways:
            line = f"  {name:18}"
            for key in found[0][name]:
                line += f"{1e3 * min(each[name][key] for each in found):15.1f}"
            print(line, flush=True)


def by_lapack(matrix: np.ndarray) -> Found:
    from scipy.linalg import lapack

    square = matrix.copy(order="F")
    clock = Clock()
    lapack.spotrf(square, lower=1, overwrite_a=1, clean=0)
    lapack.spotri(square, lower=1, overwrite_c=1)
    return clock.read()


def by_tiles(matrix: np.ndarray, side: int) -> Found:
    from recbench.linalg import blas
    from recbench.linalg.sweep import BlockRowSweep
    from recbench.linalg.tiles import Tiles
    from recbench.linalg.topk import kernel_threads

    both = [Tiles.zeros(len(matrix), np.float32, side) for _ in range(2)]
    for tiles in both:
        for i, j in tiles.keys:
            tiles.block(i, j)[...] = matrix[tiles.span(i), tiles.span(j)]
    clock = Clock()
    both[0].invert()
    found, dealt = clock.read(), 0.0
    with kernel_threads(1), blas.workers() as pool:
        for k in range(tiles.count):
            sweep = BlockRowSweep(tiles, k)
            steps = sweep.run(pool)
            panel = len(sweep.crossing) - 1
            for tasks in (1, panel, panel * (panel + 1) // 2, panel, 1):
                ends = [0.0, 0.0]
                for _ in range(tasks):
                    clock = Clock()
                    next(steps)
                    ends = [max(ends), min(ends) + clock.read()["cpu"]]
                dealt += max(ends)
    return found | {"dealt": dealt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gowalla", type=Path, default=GOWALLA, help="train.txt and test.txt")
    parser.add_argument("--all-items", action="store_true", help="all items of Gowalla")
    parser.add_argument("--movielens", action="store_true", help="a matrix of that shape instead")
    parser.add_argument("--small", action="store_true", help="small matrices instead")
    parser.add_argument("--peer", help="a Python with irspack")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contestant", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        take_part(options.contestant[0], Path(options.contestant[1]))
    elif options.small:
        small(options.rounds)
    else:
        contest(options)


if __name__ == "__main__":
    main()
