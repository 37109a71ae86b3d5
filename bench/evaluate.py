"""Users per second of full-ranking recall@20 and ndcg@20: recbench beside what people use.

    python bench/evaluate.py --peers PYTHON     # an interpreter with implicit and irspack
    python bench/evaluate.py --quick            # item-item weights of the most popular items only
    python bench/evaluate.py --movielens        # synthetic data of MovieLens-1M's shape instead

Gowalla's test users are ranked over every item twice: by EASE over the items of at least 20
interactions, and by 64 factors over all items. MovieLens-1M is as dense as Gowalla is sparse.
Everyone gets the same weights, all cores, and blocks of users of the size that suits them.
Contestants take turns, each in its own process; the fastest of all evaluations counts, and the most
memory that the process ever had. Metrics must agree with a plain NumPy evaluation to 1e-6. Last,
nine scalings of one base are ranked together, beside one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

K = 20
RANK, RIDGE = 64, 80.0
SECONDS = 8
"""Everybody evaluates again and again for so long in each round."""

MOVIELENS = "synthetic:users=6040,items=3706,interactions=1000209"
GOWALLA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla"
Found = dict[str, float]
Run = Callable[[], Found]
Scoring = Callable[[int, int], npt.NDArray[np.float32]]


@dataclass
class World:
    """What everybody is given: histories, targets, and the arrays of a model, read when needed."""

    task: str
    history: sparse.csr_matrix
    target: sparse.csr_matrix
    arrays: dict[str, Path]

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        return np.load(self.arrays[name])

    def scorer(self) -> Scoring:
        """Dense scores of users start to stop, as one writes them down without further thought."""
        if self.task == "item-item":
            weights = self["weights"]
            return lambda start, stop: self.history[start:stop] @ weights
        users, items = self["users"], self["items"]
        return lambda start, stop: users[start:stop] @ items.T

    def first(self, users: int) -> "World":
        """The same with few users, to warm up."""
        return World(self.task, self.history[:users], self.target[:users], self.arrays)


# The contestants: a world to something that evaluates it


def with_numpy(world: World) -> Run:
    score = world.scorer()

    def run() -> Found:
        tops = []
        for start in range(0, world.history.shape[0], 1000):
            stop = min(start + 1000, world.history.shape[0])
            scores = score(start, stop)
            scores[world.history[start:stop].nonzero()] = -np.inf
            best = np.argpartition(scores, -K, axis=1)[:, -K:]
            order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
            tops.append(np.take_along_axis(best, order, axis=1))
        return by_hand(np.concatenate(tops), world.target)

    return run


def by_hand(tops: npt.NDArray[np.int64], target: sparse.csr_matrix) -> Found:
    """Hits / targets; and gain 1, discount log2(rank + 1), the ideal cut at K."""
    (users, n), rows = target.shape, np.arange(len(tops))[:, None]
    known = np.append(np.repeat(np.arange(users), np.diff(target.indptr)) * n + target.indices, -1)
    keys = rows * n + tops
    found = known[np.searchsorted(known[:-1], keys)] == keys
    wanted = np.diff(target.indptr)
    gains = 1 / np.log2(np.arange(2, K + 2))
    ideal = np.cumsum(gains)[np.minimum(wanted, K) - 1]
    return {
        "recall": float((found.sum(axis=1) / wanted).mean()),
        "ndcg": float((found @ gains / ideal).mean()),
    }


def with_irspack(world: World, block: int) -> Run:
    from irspack.evaluation import Evaluator
    from irspack.recommenders.base import BaseRecommender

    score = world.scorer()

    class Given(BaseRecommender, register_class=False):
        def _learn(self) -> None:
            pass

        def get_score(self, user_indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
            raise NotImplementedError

        def get_score_block(self, begin: int, end: int) -> npt.NDArray[np.float32]:
            return score(begin, end)

    model = Given(world.history)
    evaluator = Evaluator(world.target, offset=0, cutoff=K, mb_size=block)

    def run() -> Found:
        found = evaluator.get_score(model)
        return {"recall": found["recall"], "ndcg": found["ndcg"]}

    return run


def with_dense_slim(world: World) -> Run:
    """What a user of irspack gets: its own model with the weights as it keeps them."""
    from irspack.evaluation import Evaluator
    from irspack.recommenders.dense_slim import DenseSLIMRecommender

    model = DenseSLIMRecommender(world.history, reg=RIDGE).learn()
    evaluator = Evaluator(world.target, offset=0, cutoff=K)

    def run() -> Found:
        found = evaluator.get_score(model)
        return {"recall": found["recall"], "ndcg": found["ndcg"]}

    return run


def with_implicit(world: World, how: str) -> Run:
    from implicit.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    model = AlternatingLeastSquares(factors=RANK)
    model.user_factors, model.item_factors = world["users"], world["items"]

    def metrics() -> Found:
        found = ranking_metrics_at_k(
            model, world.history, world.target, K=K, show_progress=False, num_threads=0
        )
        return {"recall": float("nan"), "ndcg": found["ndcg"]}  # it has no recall

    def recommend() -> Found:
        users = np.arange(world.history.shape[0])
        tops, _ = model.recommend(users, world.history, N=K)
        return by_hand(tops, world.target)

    return metrics if how == "metrics" else recommend


def with_recbench(world: World, how: str) -> Run:
    from recbench.evaluate.evaluate import evaluate
    from recbench.evaluate.metrics import parse_metric
    from recbench.models.scorers import Factors, ItemItem, Scorer
    from recbench.splits.types import Part

    history, target = sparse.csr_array(world.history), sparse.csr_array(world.target)
    users = np.arange(history.shape[0], dtype=np.int32)
    part = Part(history, target, users, users)
    scales = [None]
    if world.task == "factors":
        base = Factors(world["users"], world["items"])
    elif how == "tiles":
        base, scales = ItemItem(tiled(world["inverse"])), [world["scale"]]
    else:
        base = ItemItem(world["weights"])
    if how == "nine":
        scales = list(1 + np.random.default_rng(0).random((9, history.shape[1])) / 100)
    scorers = [Scorer(base, scale) for scale in scales]
    metrics = [parse_metric(f"recall@{K}"), parse_metric(f"ndcg@{K}")]

    def run() -> Found:
        values = evaluate(scorers, part, history, metrics)[0]
        return {
            "recall": float(values[f"recall@{K}"].mean()),
            "ndcg": float(values[f"ndcg@{K}"].mean()),
        }

    return run


def tiled(matrix: npt.NDArray[np.float32]) -> object:
    """A symmetric matrix as it comes out of its inversion: half of it, in tiles."""
    from recbench.linalg.tiles import Tiles

    tiles = Tiles.zeros(len(matrix))
    for i in range(tiles.count):
        for j in range(i + 1):
            tiles.block(i, j)[...] = matrix[tiles.span(i), tiles.span(j)]
    return tiles


SLOW = "irspack, its own EASE"
CONTESTANTS: dict[str, dict[str, Callable[[World], Run]]] = {
    "item-item": {
        "numpy": with_numpy,
        "irspack": partial(with_irspack, block=128),
        "irspack, larger blocks": partial(with_irspack, block=1024),
        SLOW: with_dense_slim,
        "recbench": partial(with_recbench, how="plain"),
        "recbench, tiles": partial(with_recbench, how="tiles"),
        "recbench, 9 scales": partial(with_recbench, how="nine"),
    },
    "factors": {
        "numpy": with_numpy,
        "irspack": partial(with_irspack, block=128),
        "irspack, larger blocks": partial(with_irspack, block=1024),
        "implicit, recommend": partial(with_implicit, how="recommend"),
        "implicit, its metrics": partial(with_implicit, how="metrics"),
        "recbench": partial(with_recbench, how="plain"),
        "recbench, 9 scales": partial(with_recbench, how="nine"),
    },
}


# The data


def read_lines(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`user item item ...` lines to users and items."""
    rows = [np.array(line.split(), dtype=np.int64) for line in path.open(encoding="ascii")]
    users = np.concatenate([np.full(len(row) - 1, row[0]) for row in rows])
    return users, np.concatenate([row[1:] for row in rows])


def gowalla(source: Path) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Train and test as they are distributed."""
    parts = [read_lines(source / name) for name in ("train.txt", "test.txt")]
    shape = tuple(1 + max(int(part[axis].max()) for part in parts) for axis in (0, 1))
    return two_matrices(parts, shape)


def movielens() -> tuple[sparse.csr_array, sparse.csr_array]:
    """A tenth of what is made up is the test."""
    from recbench.data.synthetic import generate, parse

    data = generate(parse(MOVIELENS))
    held = np.random.default_rng(0).random(len(data)) < 0.1
    parts = [(data.user[some], data.item[some]) for some in (~held, held)]
    return two_matrices(parts, (data.n_users, data.n_items))


def two_matrices(
    parts: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], shape: tuple[int, ...]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Ones where these users have these items."""
    train, test = (
        sparse.csr_array((np.ones(len(users), np.float32), (users, items)), shape=shape)
        for users, items in parts
    )
    return train, test


def prepare(train: sparse.csr_array, test: sparse.csr_array, folder: Path, at_least: int) -> None:
    """Write the histories, targets and weights of both tasks."""
    shape = train.shape
    random = np.random.default_rng(0)
    factors = {
        "users": random.standard_normal((shape[0], RANK), dtype=np.float32),
        "items": random.standard_normal((shape[1], RANK), dtype=np.float32),
    }
    write(folder / "factors", train, test, factors)
    popular = np.flatnonzero((train + test).sum(axis=0) >= at_least)
    train, test = train[:, popular], test[:, popular]
    write(folder / "item-item", train, test, ease(train, l2=RIDGE))


def ease(train: sparse.csr_array, l2: float) -> dict[str, npt.NDArray[np.float32]]:
    """The weights, and the inverse and the scale of its columns that they are made of."""
    from recbench.models.context import Context
    from recbench.models.linear.lae import Ease

    scorer = Ease(l2=l2).fit(train, Context())
    inverse, scale = scorer.base.weights.panel(0, train.shape[1]), np.float32(scorer.scale)
    weights = inverse * scale
    np.fill_diagonal(weights, 0)
    return {"inverse": inverse, "scale": scale, "weights": weights}


def write(
    folder: Path,
    train: sparse.csr_array,
    test: sparse.csr_array,
    arrays: dict[str, npt.NDArray[np.float32]],
) -> None:
    """Keep the users who have something to be found, and something to be found by.

    Without a history all scores are zero, and every program breaks ties in its own way.
    """
    folder.mkdir(parents=True)
    users = np.flatnonzero((np.diff(train.indptr) > 0) & (np.diff(test.indptr) > 0))
    for name, matrix in (("history", train), ("target", test)):
        chosen = sparse.csr_matrix(matrix[users])
        chosen.sort_indices()
        sparse.save_npz(folder / f"{name}.npz", chosen, compressed=False)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array[users] if name == "users" else array)


def load(folder: Path) -> World:
    history, target = (sparse.load_npz(folder / f"{name}.npz") for name in ("history", "target"))
    return World(folder.name, history, target, {path.stem: path for path in folder.glob("*.npy")})


# The race


def measure(task: str, name: str, folder: Path) -> None:
    """Evaluate in this process and print what came of it."""
    world = load(folder / task)
    contestant = CONTESTANTS[task][name]
    contestant(world.first(50))()
    run, fastest, least, began = contestant(world), np.inf, np.inf, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        start, busy = time.perf_counter(), time.process_time()
        found = run()
        fastest = min(fastest, time.perf_counter() - start)
        least = min(least, time.process_time() - busy)
    users, items = world.history.shape
    measured = {"users": users, "items": items, "seconds": fastest, "busy": least, "gb": peak()}
    print(json.dumps(measured | found))


def peak() -> float:
    """The most memory that this process had, in GB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024 / 1e9


def race(task: str, folder: Path, peers: str | None, rounds: int, slow: bool) -> dict[str, Found]:
    """Let everybody run in turns; keep each one's fastest."""
    best: dict[str, Found] = {}
    for _ in range(rounds):
        for name in CONTESTANTS[task]:
            if name == SLOW and not slow:
                continue
            foreign = name.startswith(("irspack", "implicit"))
            if foreign and not peers:
                continue
            command = [peers if foreign else sys.executable, __file__, "--run", task, name]
            # implicit asks for one BLAS thread, since it runs BLAS in threads of its own.
            more = {"OPENBLAS_NUM_THREADS": "1"} if name.startswith("implicit") else {}
            process = subprocess.run(
                [*command, "--folder", str(folder)],
                check=True, capture_output=True, text=True, env=os.environ | more,
            )  # fmt: skip
            found = json.loads(process.stdout.splitlines()[-1])
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    return best


def show(task: str, best: dict[str, Found]) -> None:
    """Print users per second and ratios, and stop if the metrics do not agree."""
    others = [name for name in best if not name.startswith("recbench")]
    fastest = min(others, key=lambda name: best[name]["seconds"])
    print(f"\n{task}, {best['numpy']['users']:,} users, {best['numpy']['items']:,} items")
    for name, found in best.items():
        print(
            f"  {name:24}{found['users'] / found['seconds']:10,.0f} users/s"
            f"{best[fastest]['seconds'] / found['seconds']:8.2f} x {fastest}"
            f"{best[fastest]['busy'] / found['busy']:8.2f} x by processor time"
            f"{found['gb']:8.2f} GB"
            f"   recall {found['recall']:.6f}  ndcg {found['ndcg']:.6f}"
        )
    nine = best["recbench, 9 scales"]["seconds"] / best["recbench"]["seconds"]
    print(f"  9 scales together take {nine:.2f} x the time of one")
    for metric in ("recall", "ndcg"):
        assert abs(best["recbench"][metric] - best["numpy"][metric]) < 1e-6, metric


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--peers", help="an interpreter that has implicit and irspack")
    parser.add_argument("--data", type=Path, default=GOWALLA, help="where train.txt, test.txt are")
    parser.add_argument("--movielens", action="store_true", help="a dense dataset instead")
    parser.add_argument("--folder", type=Path, help="keep the prepared data here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help=f"with {SLOW}: minutes a round")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--run", nargs=2, metavar=("TASK", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        measure(*options.run, options.folder)
        return
    with tempfile.TemporaryDirectory(prefix="recbench-evaluate-") as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "item-item").is_dir():
            matrices = movielens() if options.movielens else gowalla(options.data)
            prepare(*matrices, folder, at_least=50 if options.quick else 20)
        for task in CONTESTANTS:
            show(task, race(task, folder, options.peers, options.rounds, options.slow))


if __name__ == "__main__":
    main()
