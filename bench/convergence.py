"""How RG² gets to its least value, and how soon lists are good: one loss by every optimiser.

    python bench/convergence.py debian FOLDER              # measure; two rates of Adam are tried
    python bench/convergence.py games.csv FOLDER           # a file with columns user and item
    python bench/convergence.py FOLDER                     # tables and figures of what was measured

`rg2` by least squares (als), by Newton-CG (with all second derivatives, and with those of Gauss and
Newton), by Adam on 1,024 users at a time and on all at once (mf), and by Adam in PyTorch as one
writes it down: as many users against all items, every score made, at the rate that was best without
PyTorch. Beside it bpr, bce, ssm and softmax by our engines, as they come but for epochs.
All have 64 factors and seed 0.

The split is `user-ratio`: of every user a tenth is for validation, of which 2,000 users are ranked.
Everything runs on one thread, and seconds are the processor's, of rounds alone: other work on the
machine makes them longer, but ratios hardly change. What is compiled once is not counted.

The tables have the seconds to within 0.1 % of the least objective that any optimiser of the same
came to, and to 99 % of the best ndcg@10, of the model's own course and of all of them.
"""

import argparse
import csv
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from recbench.campaign import traces
from recbench.campaign.worker import compute_threads
from recbench.data.open import OwnFile, load_embedded, open_file
from recbench.evaluate.evaluate import evaluate
from recbench.evaluate.metrics import parse_metric
from recbench.linalg import blas
from recbench.linalg.joint import Sides, Surface
from recbench.linalg.normal import Pattern
from recbench.models import rounds
from recbench.models.base import Model, fit_alone
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.factors.losses import Rg2, goal_of
from recbench.models.rounds import Rounds, Schedule, Trace
from recbench.models.scorers import Factors, Scorer
from recbench.models.trained.batches import users_at_once
from recbench.params import param
from recbench.registry import MODELS, SPLITS, build
from recbench.report.html import convergence
from recbench.report.html.figures import svg
from recbench.splits.types import Part, Split

METRIC, SAMPLE = "ndcg@10", 2000
NEAR, GOOD = 1e-3, 0.99
LOSS = {"debian": ("alpha=0.1,l2=0.001", 24), "": ("alpha=0.01,l2=0.001", 8)}
"""What `rg2` is given: the best of 16 settings on validation after 30 sweeps; and epochs of what
makes all scores. '' is for other data, and was found on Video Games."""
RATES = (0.01, 0.03)
COURSES = {
    "rg2 by als": "rg2[{rg2},iterations=60,tol=0]",
    "rg2 by newton": "newton[loss=rg2[{rg2}],iterations=25,tol=0]",
    "rg2 by gauss-newton": "newton[loss=rg2[{rg2}],iterations=40,curvature=gauss-newton,tol=0]",
    "rg2 by adam": "mf[loss=rg2[{rg2}],epochs=40,every=2,batch=1024,decay-at=30+36,rate={rate}]",
    "rg2 by adam in torch": "rg2-torch[{rg2},epochs={epochs},batch=1024,rate={rate}]",
    "rg2 by adam, all users": "mf[loss=rg2[{rg2}],epochs=200,every=4,batch=1000000,"
    "decay-at=150+180,rate={rate}]",
    "bpr": "bpr[epochs=60,every=4]",
    "softmax": "softmax[epochs={epochs},decay-at=never]",
    "ssm": "mf-mine-plus[t=0.2,weight=1,epochs={epochs},decay-at=never]",
    "bce": "bce[weight=10,epochs={epochs},decay-at=never]",
}  # fmt: skip
DRAWN = [name for name in COURSES if name not in ("rg2 by gauss-newton", "rg2 by adam, all users")]
"""As many as there are colours."""


@MODELS.register("rg2-torch")
@dataclass(frozen=True)
class Torch(Model):
    """RG² in PyTorch, without any use of what is known of it."""

    stochastic = traced = trained_users_only = True
    alpha: float = param(0.1, help="as for rg2", low=0)
    l2: float = param(0.1, help="as for rg2", low=0)
    factors: int = param(64, help="length of vectors", low=1)
    epochs: int = param(30, help="passes over the users", low=1)
    rate: float = param(0.01, help="learning rate", low=0, open_low=True)
    batch: int = param(256, help="users in a step", low=1)
    every: int = param(1, help="epochs between two measurements", low=1)

    @property
    def goal(self) -> str:
        """That of all who minimise this loss."""
        return goal_of(Rg2(alpha=self.alpha, l2=self.l2), self.factors)

    def fit(self, train: sparse.csr_array, ctx: Context) -> Scorer:
        """Make all epochs."""
        with blas.workers() as pool:
            fit = TorchEpochs(self, train, pool, ctx)
            schedule = Schedule(self.epochs, every=self.every)
            (found,) = rounds.run(fit, ctx, self.name, self.text, schedule, [self.epochs])
        assert isinstance(found, Scorer)
        return found


class TorchEpochs(Rounds):
    """Users in random order, some at a time, against all items."""

    word = "epoch"

    def __init__(self, model: Torch, train: sparse.csr_array, pool: Executor, ctx: Context) -> None:
        import torch

        self.model, self.pool, self.ctx, self.torch = model, pool, ctx, torch
        self.train, self.items = Pattern.of(train), train.shape[1]
        objective = Rg2(alpha=model.alpha, l2=model.l2).objective
        lengths = self.train.lengths
        self.terms = objective.user_terms(lengths, self.items)
        counts = np.bincount(train.indices, minlength=self.items)
        self.ridges = self.terms.ridge, objective.item_ridge(counts, train.shape[0])
        self.surface = Surface(pool, self.train, self.terms, np.dtype(np.float32))
        draw = torch.Generator().manual_seed(ctx.seed)
        self.tables = [
            (torch.randn(rows, model.factors, generator=draw) * 0.01).requires_grad_()
            for rows in train.shape
        ]
        self.adam = torch.optim.Adam(self.tables, lr=model.rate)
        self.weights = torch.tensor(self.terms.gram, dtype=torch.float32)
        self.penalties = [torch.tensor(ridge, dtype=torch.float32) for ridge in self.ridges]

    def advance(self, number: int) -> dict[str, float]:
        """Go over all users once."""
        torch, (p, q) = self.torch, self.tables
        for batch in users_at_once(self.train, self.model.batch, self.ctx.stream(f"{number}")):
            users = torch.from_numpy(batch.users)
            rows = torch.from_numpy(np.repeat(np.arange(len(users)), np.diff(batch.starts)))
            columns = torch.from_numpy(batch.cells.astype(np.int64))
            scores = p[users] @ q.T
            seen = scores[rows, columns]
            loss = (self.weights[users, None] * (scores + 1) ** 2).sum() - seen.sum()
            loss = loss + self.model.alpha * ((seen - 1) ** 2).sum()
            loss = loss + (self.penalties[0][users, None] * p[users] ** 2).sum()
            share = batch.interactions / len(self.train.columns)
            loss = loss + share * (self.penalties[1][:, None] * q**2).sum()
            self.adam.zero_grad()
            (loss / max(batch.interactions, 1)).backward()
            self.adam.step()
        return {}

    def measure(self) -> dict[str, float]:
        """The objective, as the others have it."""
        sides = self.vectors()
        penalties = [
            ridge @ np.einsum("ik,ik->i", side, side)
            for ridge, side in zip(self.ridges, sides, strict=True)
        ]
        return {"objective": self.surface.at(sides).value() + float(sum(penalties))}

    def vectors(self) -> Sides:
        """Of users and items."""
        return Sides(*(table.detach().numpy().copy() for table in self.tables))

    def settled(self, trace: Trace) -> bool:
        """Never."""
        return False

    def look(self) -> Scorer:
        """The vectors as they are."""
        return Scorer(Factors(*self.vectors()))

    def state(self) -> State:
        """Nothing: it is not gone on with."""
        return {}

    def restore(self, state: State) -> None:
        """It is not."""


def split_of(data: str) -> Split:
    """The data as they are held out."""
    found = load_embedded(data) if data == "debian" else open_file(OwnFile(Path(data)))
    split: Split = build("user-ratio", SPLITS).apply(found)
    return split


def sample(part: Part) -> Part:
    """Some of its users."""
    rows = np.random.default_rng(0).permutation(len(part.users))[:SAMPLE]
    return Part(part.history[rows], part.target[rows], part.users[rows], part.train_rows[rows])


def course(text: str, split: Split, *, ranked: bool = True) -> list[dict[str, float]]:
    """A fit round by round, on the processor's clock."""
    model: Any = build(text, MODELS)
    part, metric = sample(split.valid), parse_metric(METRIC)

    def watch(scorer: Scorer) -> dict[str, float]:
        if not ranked:
            return {}
        values = evaluate([scorer], part, split.train, [metric])[0]
        return {METRIC: float(np.mean(values[METRIC]))}

    fit_alone(model, example(), Context(watch=lambda scorer: {}))  # compiles what is not yet
    return [dict(entry) for entry in fit_alone(model, split.train, Context(watch=watch)).trace]


def measure(data: str, folder: Path, only: list[str] | None) -> None:
    """Write the course of every optimiser."""
    import torch

    torch.set_num_threads(1)
    rounds.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    split, (rg2, epochs) = split_of(data), LOSS.get(data, LOSS[""])
    print(f"{data}: {split.train.shape}, {split.train.nnz:,} interactions", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    texts, rate = {}, RATES[1]
    with compute_threads(1):
        for name, text in COURSES.items():
            if only and name not in only:
                continue
            if "rate}" in text and "torch" not in name:
                rate = best_rate(text, rg2, split)
            texts[name] = text.format(rg2=rg2, rate=rate, epochs=epochs)
            traces.write(folder / f"{name}.csv", course(texts[name], split))
            print(f"{name}: {texts[name]}", flush=True)
            with (folder / "models.txt").open("a", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow([name, texts[name]])


def best_rate(text: str, rg2: str, split: Split) -> float:
    """Of a few rates, that with the least objective at the end."""
    ends = {}
    for rate in RATES:
        trace = course(text.format(rg2=rg2, rate=rate), split, ranked=False)
        ends[rate] = next(entry["objective"] for entry in trace[::-1] if "objective" in entry)
    return min(ends, key=ends.__getitem__)


def tell(folder: Path) -> None:
    """Print the tables, and draw."""
    with (folder / "models.txt").open(encoding="utf-8") as file:
        texts = dict(csv.reader(file))
    courses = {name: traces.read(folder / f"{name}.csv") for name in texts}
    goals = {name: build(text, MODELS).goal for name, text in texts.items()}
    least = convergence.least_of((goals[name], trace) for name, trace in courses.items())
    curves = {name: convergence.with_distance(t, least[goals[name]]) for name, t in courses.items()}
    best = max(entry.get(METRIC, 0.0) for trace in courses.values() for entry in trace)
    print(f"{'':24} {'rounds':>7} {'s/round':>9} {'above':>8} {'to 0.1%':>9} {'best':>8} "
          f"{'to 99%':>9} {'to 99% of all':>14}")  # fmt: skip
    for name, trace in curves.items():
        own = max(entry.get(METRIC, 0.0) for entry in trace)
        name_of = convergence.minimised(trace)
        near = first(
            trace, lambda e, k=name_of: k in e and e.get(convergence.ABOVE, 0.0) <= NEAR
        )  # fmt: skip
        above = min(e.get(convergence.ABOVE, 0.0) for e in trace if name_of in e)
        columns = (
            f"{above:.1e}", near, f"{own:.4f}",
            first(trace, lambda e, own=own: e.get(METRIC, 0.0) >= GOOD * own),
            first(trace, lambda e: e.get(METRIC, 0.0) >= GOOD * best),
        )  # fmt: skip
        words = " ".join(
            f"{word:>{size}}" for word, size in zip(columns, (8, 9, 8, 9, 14), strict=True)
        )
        print(f"{name:24} {len(trace):7} {trace[-1]['seconds'] / len(trace):9.4f} {words}")
    drawn = {name: curves[name] for name in DRAWN if name in curves}
    for figure in convergence.drawn(drawn, METRIC):
        (folder / f"{figure.name}.svg").write_text(svg(figure.chart), encoding="utf-8")


def first(trace: Trace, reached: Any) -> str:
    """The seconds after which something was reached, if it was."""
    seconds = next((entry["seconds"] for entry in trace if reached(entry)), None)
    return "never" if seconds is None else f"{seconds:.2f}"


def main() -> None:
    """Measure, or tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", nargs="?", help="debian, or a file; none: tell what was measured")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="names of what is measured, as in the table")
    options = parser.parse_args()
    if options.data:
        measure(options.data, options.folder, options.only)
    tell(options.folder)


if __name__ == "__main__":
    main()
