"""Alternating least squares: seconds a sweep and to a good model, beside irspack and implicit.

    python bench/als.py --peers PYTHON     # an interpreter with implicit and irspack
    python bench/als.py --only gowalla-64,svd

On Gowalla and on made-up data of the shapes of Steam and, where half of the rows have 64 entries or
more, of MovieLens-1M. A sweep solves for all users and all items. `good` is the time of the sweeps
after which ndcg@20, of a sample of users, stays within half a percent of where it ends. iALS is
compared with irspack, and weighted matrix factorisation with implicit, at equal parameters, on all
cores. Each contestant runs in its own process, in turns; the round with the fastest sweeps counts.
What is compiled or loaded once is not timed. Last, RG² at α = 0 by SVD and by sweeps, to the same
objective.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

K = 20
SAMPLE = 2000
GOWALLA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla"
MADE_UP = {
    "steam": "synthetic:users=281204,items=11961,interactions=3484497",
    "movielens": "synthetic:users=6040,items=3706,interactions=1000209",
}
IALS = {"alpha0": 0.01, "l2": 0.01, "nu": 1.0}
WRMF = {"alpha": 20.0, "l2": 5.0}
RACES = (
    "gowalla-64", "gowalla-256", "steam-64", "steam-256", "movielens-64", "movielens-128",
    "movielens-256",
)  # fmt: skip
"""Data and factors."""
Floats = npt.NDArray[np.float32]


@dataclass
class World:
    """What everybody is given."""

    train: sparse.csr_matrix
    test: sparse.csr_matrix
    factors: int
    sweeps: int
    asked: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Choose the users that quality is measured on."""
        able = np.flatnonzero((np.diff(self.test.indptr) > 0) & (np.diff(self.train.indptr) > 0))
        self.asked = np.random.default_rng(0).permutation(able)[:SAMPLE]

    def ndcg(self, users: Floats, items: Floats) -> float:
        """The ndcg@20 of the sample, outside of any clock."""
        scores = np.asarray(users)[self.asked] @ np.asarray(items).T
        scores[self.train[self.asked].nonzero()] = -np.inf
        best = np.argpartition(scores, -K, axis=1)[:, -K:]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        best = np.take_along_axis(best, order, axis=1)
        test = self.test[self.asked]
        hits = np.asarray(test.toarray() > 0)[np.arange(len(best))[:, None], best]
        gains = 1 / np.log2(np.arange(2, K + 2))
        ideal = np.cumsum(gains)[np.minimum(np.diff(test.indptr), K) - 1]
        return float((hits @ gains / ideal).mean())

    def first(self, users: int) -> "World":
        """A little of the same, to warm up."""
        return World(self.train[:users], self.test[:users], self.factors, 2)


@dataclass
class Run:
    """What came of a fit: seconds, processor time and quality of every sweep."""

    world: World
    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    mark: float = field(default_factory=time.process_time)

    def note(self, seconds: float, users: Floats, items: Floats) -> None:
        """A sweep has ended; its quality is measured outside of any clock."""
        self.seconds.append(seconds)
        self.busy.append(time.process_time() - self.mark)
        self.ndcg.append(self.world.ndcg(users, items))
        self.mark = time.process_time()

    def numbers(self) -> dict[str, float]:
        """Medians of the sweeps after the first, and the time until quality is near its end."""
        far = [i for i, value in enumerate(self.ndcg) if abs(value / self.ndcg[-1] - 1) > 0.005]
        return {
            "sweep": float(np.median(self.seconds[1:])), "busy": float(np.median(self.busy[1:])),
            "good": sum(self.seconds[: far[-1] + 2 if far else 1]), "ndcg": self.ndcg[-1],
        }  # fmt: skip


# The contestants: a world to a run


def with_recbench(world: World, name: str, **settings: Any) -> Run:
    from recbench.models.context import Context
    from recbench.models.factors import als

    run, before = Run(world), 0.0

    def watch(scorer: Any) -> dict[str, float]:
        nonlocal before
        *_, (now, sweep) = ((entry["seconds"], entry["sweep"]) for entry in scorer.trace)
        if sweep:  # the half sweep before the first counts as part of it
            run.note(now - before, scorer.base.users.trained, scorer.base.items)
            before = now
        return {}

    cls = {"ials": als.Ials, "wrmf": als.Wrmf}[name]
    model = cls.of(factors=world.factors, iterations=world.sweeps, tol=0.0, **settings)
    model.fit(sparse.csr_array(world.train), Context(watch=watch))
    return run


def with_irspack(world: World, solver: str) -> Run:
    from irspack.recommenders.ials import IALSRecommender

    model = IALSRecommender(
        world.train, n_components=world.factors, alpha0=IALS["alpha0"], reg=IALS["l2"],
        nu=IALS["nu"], solver_type=solver, train_epochs=world.sweeps,
    )  # fmt: skip
    model.start_learning()
    run = Run(world)
    for _ in range(world.sweeps):
        began = time.perf_counter()
        model.run_epoch()
        taken = time.perf_counter() - began
        run.note(taken, model.get_user_embedding(), model.get_item_embedding())
    return run


def with_implicit(world: World, use_cg: bool) -> Run:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=world.factors, regularization=WRMF["l2"], alpha=1 + WRMF["alpha"],
        use_cg=use_cg, iterations=world.sweeps, random_state=0,
    )  # fmt: skip
    run = Run(world)

    def note(_: int, seconds: float, loss: object) -> None:
        run.note(seconds, model.user_factors, model.item_factors)

    model.fit(world.train, show_progress=False, callback=note)
    return run


CONTESTANTS: dict[str, Callable[[World], Run]] = {
    "recbench ials, exact": partial(with_recbench, name="ials", **IALS),
    "irspack, Cholesky": partial(with_irspack, solver="CHOLESKY"),
    "irspack, iALS++": partial(with_irspack, solver="IALSPP"),
    "recbench ials, cg": partial(with_recbench, name="ials", solver="cg", **IALS),
    "irspack, CG": partial(with_irspack, solver="CG"),
    "recbench wrmf, exact": partial(with_recbench, name="wrmf", **WRMF),
    "implicit, Cholesky": partial(with_implicit, use_cg=False),
    "recbench wrmf, cg": partial(with_recbench, name="wrmf", solver="cg", **WRMF),
    "implicit, CG": partial(with_implicit, use_cg=True),
}
RIVALS = {
    "recbench ials, exact": ("irspack, Cholesky", "irspack, iALS++"),
    "recbench ials, cg": ("irspack, CG",),
    "recbench wrmf, exact": ("implicit, Cholesky",),
    "recbench wrmf, cg": ("implicit, CG",),
}


# The data


def gowalla(source: Path) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """The distributed train and test files: `user item item ...` lines."""
    parts = []
    for name in ("train.txt", "test.txt"):
        rows = [np.array(line.split(), dtype=np.int64) for line in (source / name).open()]
        users = np.concatenate([np.full(len(row) - 1, row[0]) for row in rows])
        parts.append((users, np.concatenate([row[1:] for row in rows])))
    shape = tuple(1 + max(int(part[axis].max()) for part in parts) for axis in (0, 1))
    train, test = (ones(users, items, shape) for users, items in parts)
    return train, test


def made_up(words: str) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Made-up data; a tenth of the interactions are to be found."""
    from recbench.data.synthetic import generate, parse

    data = generate(parse(words))
    held, shape = np.random.default_rng(0).random(len(data)) < 0.1, data.matrix.shape
    train, test = (ones(data.user[mask], data.item[mask], shape) for mask in (~held, held))
    return train, test


def ones(users: Any, items: Any, shape: tuple[int, ...]) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((np.ones(len(users), np.float32), (users, items)), shape=shape)
    matrix.sort_indices()
    return matrix


def load(folder: Path, factors: int, sweeps: int) -> World:
    train, test = (sparse.load_npz(folder / f"{name}.npz") for name in ("train", "test"))
    return World(train, test, factors, sweeps)


# The race


def measure(name: str, world: World) -> dict[str, float]:
    """Fit in this process."""
    contestant = CONTESTANTS[name]
    contestant(world.first(200))
    return contestant(world).numbers()


def memory(name: str, world: World) -> float:
    """How far memory grows over a fit of recbench, as a multiple of the factors and the matrix."""
    from recbench.models.context import Context
    from recbench.models.factors.als import Ials

    model = Ials.of(factors=world.factors, iterations=3, solver=name)
    train, small = (sparse.csr_array(w.train) for w in (world, world.first(200)))
    model.fit(small, Context())
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    before = status("VmRSS")
    scorer = model.fit(train, Context())
    grown, (m, n) = status("VmHWM") - before, train.shape
    del scorer
    return grown / (4 * (m + n) * world.factors + 8 * train.nnz)


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def closed_form(world: World) -> dict[str, float]:
    """RG² at α = 0 by SVD, and by sweeps until the objective is as low to 1e-8."""
    from recbench.models.context import Context
    from recbench.models.factors.als import Rg2
    from recbench.models.factors.rg2_svd import Rg2Svd

    # In float64: in float32 the objective itself is known to a few parts in 1e8 only.
    train, l2 = sparse.csr_array(world.train), 0.1
    closed, context = Rg2Svd(factors=world.factors, l2=l2), Context(dtype=np.float64)
    closed.fit(sparse.csr_array(world.first(2000).train), context)
    svd = closed.fit(train, context).trace[-1]

    def gap(trace: Any) -> float:
        return float((trace[-1]["objective"] - svd["objective"]) / abs(svd["objective"]))

    def validate(scorer: Any) -> float:
        return len(scorer.trace) if gap(scorer.trace) > 1e-8 else 0.0  # which is no better: stop

    settings = {"alpha": 0.0, "l2": l2, "tol": 0.0, "iterations": world.sweeps, "patience": 1}
    model = Rg2.of(factors=world.factors, **settings)
    als = model.fit(train, Context(dtype=np.float64, validate=validate)).trace
    return {
        "svd": svd["seconds"], "residual": svd["residual"], "sweeps": len(als) - 1,
        "gap": gap(als), "als": als[-1]["seconds"], "arrived": gap(als) <= 1e-8,
    }  # fmt: skip


def ask(interpreter: str, *words: str, **more: str) -> Any:
    """Run this file in another process; return what it prints last."""
    process = subprocess.run(
        [interpreter, __file__, *words],
        check=True, stdout=subprocess.PIPE, text=True, env=os.environ | more,
    )  # fmt: skip
    return json.loads(process.stdout.splitlines()[-1])


def race(data: str, factors: int, folder: Path, peers: str | None, rounds: int) -> None:
    """Let everybody fit in turns; keep each one's round with the fastest sweeps."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name in CONTESTANTS:
            own = name.startswith("recbench")
            if not own and not peers:
                continue
            # implicit asks for one BLAS thread, since it runs BLAS in threads of its own.
            more = {"OPENBLAS_NUM_THREADS": "1"} if name.startswith("implicit") else {}
            words = ("--run", "race", name, str(folder / data), str(factors))
            found = ask(sys.executable if own else str(peers), *words, **more)
            if name not in best or found["sweep"] < best[name]["sweep"]:
                best[name] = found
    print(f"\n{data}, {factors} factors")
    for name, rivals in RIVALS.items():
        for who in (name, *rivals):
            if who in best:
                show(who, best[who], best[name])
    for solver in ("exact", "cg"):
        words = ("--run", "memory", solver, str(folder / data), str(factors))
        print(f"  memory, {solver}: {ask(sys.executable, *words):.2f} x factors and matrix")


def show(name: str, found: dict[str, float], ours: dict[str, float]) -> None:
    print(
        f"  {name:22} sweep {found['sweep']:7.3f} s {found['sweep'] / ours['sweep']:6.2f} x"
        f"   busy {found['busy']:7.3f} s {found['busy'] / ours['busy']:5.2f} x"
        f"   good after {found['good']:7.2f} s {found['good'] / ours['good']:6.2f} x"
        f"   ndcg@20 {found['ndcg']:.4f}",
        flush=True,
    )


def show_closed_form(folder: Path, factors: int) -> None:
    found = ask(sys.executable, "--run", "svd", "-", str(folder / "gowalla"), str(factors))
    more = "" if found["arrived"] else "more than "
    print(
        f"\nRG² at α = 0, gowalla, {factors} factors: SVD {found['svd']:.2f} s (residual "
        f"{found['residual']:.0e}); sweeps to 1e-8 of its objective {more}{found['als']:.1f} s, "
        f"{found['als'] / found['svd']:.1f} x ({found['sweeps']} sweeps, {found['gap']:.0e} off)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--peers", help="an interpreter that has implicit and irspack")
    parser.add_argument("--data", type=Path, default=GOWALLA, help="where train.txt, test.txt are")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=16)
    parser.add_argument("--only", default=",".join([*RACES, "svd"]), help="some of them")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        what, name, folder, factors = options.run
        sweeps = 400 if what == "svd" else options.sweeps
        world = load(Path(folder), int(factors), sweeps)
        task = {"race": partial(measure, name), "memory": partial(memory, name), "svd": closed_form}
        print(json.dumps(task[what](world)))
        return
    only = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="recbench-als-") as temporary:
        makers = {"gowalla": partial(gowalla, options.data)}
        makers |= {name: partial(made_up, words) for name, words in MADE_UP.items()}
        wanted = {name.partition("-")[0] for name in only} | (
            {"gowalla"} if "svd" in only else set()
        )
        for data, make in makers.items():
            if data not in wanted:
                continue
            (Path(temporary) / data).mkdir()
            for part, matrix in zip(("train", "test"), make(), strict=True):
                sparse.save_npz(Path(temporary) / data / f"{part}.npz", matrix, compressed=False)
        for name in [name for name in RACES if name in only]:
            data, factors = name.split("-")
            race(data, int(factors), Path(temporary), options.peers, options.rounds)
        if "svd" in only:
            show_closed_form(Path(temporary), 64)


if __name__ == "__main__":
    main()
