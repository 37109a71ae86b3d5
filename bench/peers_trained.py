"""What `bench/trained.py` is measured against: RecBole, plain PyTorch and sparse products.

    python bench/peers_trained.py FOLDER                     # everything, the long runs last
    python bench/peers_trained.py FOLDER --only walk,exact --minutes 25

On Gowalla as LightGCN's authors split it, 64 factors, two threads. FOLDER gets `peers.csv`, the
numbers of the table that is printed, and for each model of RecBole a curve, `recbole-NAME.csv`:
seconds of training, epochs, ndcg@20. All items are ranked, those of the training set are masked and
the ideal list is as long as the held-out items, 20 at most. Ranking, reading and building the graph
are outside of the clocks. Where a curve ends while its values still rise, its seconds are a lower
bound of the time to converge.

`quiet` is the 5 % quantile of all steps and what is made of it, for a machine with other work. If
that never rests, not even the quiet step is quiet: set OMP_WAIT_POLICY=PASSIVE, so that waiting
threads cost nothing, and look at the processor's seconds. How ndcg@20 grows by epochs need not be
measured on a quiet machine: BPR's ten first epochs gave the same digits with one thread and two.

With `--keep-memory` glibc does not give freed memory back; without it, as it comes, each step by
user pays for the pages of its blocks of scores once more. Measure both.

It needs an environment of its own, with PyTorch (the CPU build) before RecBole, which asks for ray
and for an old colorlog that training does not need:

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0
    peers/bin/pip install 'numpy<2' 'scipy<1.12' 'pandas<2.3' 'scikit-learn<1.6' \\
        colorlog colorama pyyaml tqdm tabulate texttable psutil tensorboard thop
    peers/bin/pip install --no-deps recbole==1.2.1

RecBole as it comes: batches of 2,048 interactions, one uniform negative each, Adam at 1e-3, dense,
and no decay. LightGCN has three layers, as in its authors' command for Gowalla (RecBole's own
default is two), and RecBole's weight 1e-5 of the norms. Steps are made by `Trainer._train_epoch`,
which `fit` calls, and include the drawing of negatives, not the shuffle before an epoch.
"""

import argparse
import csv
import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from als import GOWALLA, gowalla
from scipy import sparse
from torch.nn import functional

FACTORS = 64
K = 20
BLOCK = 512
"""Users of a step by user, and of a block that is ranked."""
Numbers = dict[str, float]
Floats = npt.NDArray[np.float32]


@dataclass
class Timer:
    """Wall and processor seconds that were spent inside of it; the latter of all threads."""

    wall: float = 0.0
    processor: float = 0.0
    laps: list[float] = field(default_factory=list)
    began: tuple[float, float] = (0.0, 0.0)

    def __enter__(self) -> Self:
        self.began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        lap = time.perf_counter() - self.began[0]
        self.processor += time.process_time() - self.began[1]
        self.wall += lap
        self.laps.append(lap)

    def numbers(self, epoch: float) -> Numbers:
        """Of a lap: mean, median, quiet, processor; and what an epoch of so many laps takes."""
        laps, quiet = len(self.laps), self.quiet()
        step, processor = self.wall / laps, self.processor / laps
        return {
            "steps": laps, "step s": step, "median step s": float(np.median(self.laps)),
            "quiet step s": quiet, "cpu step s": processor, "epoch s": step * epoch,
            "quiet epoch s": quiet * epoch, "cpu epoch s": processor * epoch,
        }  # fmt: skip

    def quiet(self) -> float:
        """What a lap takes while nobody else wants the processors."""
        return float(np.quantile(self.laps, 0.05))


@dataclass
class World:
    """What everybody is given."""

    train: sparse.csr_matrix
    test: sparse.csr_matrix

    def ndcg(self, users: Floats, items: Floats) -> float:
        """The ndcg@20 of all users with held-out items, as recbench's `ndcg` defines it."""
        gains = 1 / np.log2(np.arange(2, K + 2))
        ideal = np.cumsum(gains)
        able, total = np.flatnonzero(np.diff(self.test.indptr)), 0.0
        table = torch.from_numpy(items).T
        for begin in range(0, len(able), BLOCK):
            asked = able[begin : begin + BLOCK]
            scores = torch.from_numpy(users[asked]) @ table
            scores[self.train[asked].nonzero()] = -torch.inf
            best = torch.topk(scores, K).indices.numpy()
            test = self.test[asked]
            hits = test.toarray()[np.arange(len(asked))[:, np.newaxis], best] > 0
            total += float((hits @ gains / ideal[np.minimum(np.diff(test.indptr), K) - 1]).sum())
        return total / len(able)


# --- RecBole ------------------------------------------------------------------------------------

RECBOLE: dict[str, dict[str, Any]] = {"BPR": {}, "LightGCN": {"n_layers": 3, "reg_weight": 1e-5}}


def write_atomic(world: World, folder: Path) -> None:
    """The data as RecBole reads it, already split; it wants a third part, and never sees it."""
    folder.mkdir()
    for part, matrix in {"train": world.train, "valid": world.test, "test": world.test}.items():
        pairs = np.stack(matrix.nonzero(), axis=1)
        path = folder / f"gowalla.{part}.inter"
        header = "user_id:token\titem_id:token"
        np.savetxt(path, pairs, fmt="%d", delimiter="\t", header=header, comments="")


def recbole_trainer(world: World, name: str, folder: Path) -> tuple[Any, Any, Callable[[], Any]]:
    """RecBole's trainer, its batches, and a function that gives the tables to rank by."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    write_atomic(world, folder / "gowalla")
    config = Config(name, "gowalla", config_dict={
        "data_path": str(folder), "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]}, "use_gpu": False, "show_progress": False,
        "checkpoint_dir": str(folder / "saved"), "embedding_size": FACTORS,
        "train_batch_size": 2048, "learning_rate": 1e-3, **RECBOLE[name],
    })  # fmt: skip
    init_seed(config["seed"], config["reproducibility"])
    data = create_dataset(config)
    batches, *_ = data_preparation(config, data)
    model = get_model(name)(config, batches._dataset)
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    numbered = [
        [data.field2token_id[column][str(old)] for old in range(count)]
        for column, count in zip(("user_id", "item_id"), world.train.shape, strict=True)
    ]

    @torch.no_grad()
    def tables() -> list[Floats]:
        if name == "BPR":
            found = model.user_embedding.weight, model.item_embedding.weight
        else:
            found = model()
        return [table.numpy()[ids] for table, ids in zip(found, numbered, strict=True)]

    return trainer, batches, tables


def recbole_curve(
    world: World, timer: Timer, name: str, minutes: float, every: float
) -> Iterator[Numbers]:
    """Train for so long, step by step; a row after each `every` epochs and at the end."""
    with tempfile.TemporaryDirectory(prefix="recbench-peers-") as temporary, chdir(temporary):
        trainer, batches, tables = recbole_trainer(world, name, Path(temporary))
        length, step = len(batches), 0
        while timer.wall < 60 * minutes:
            if step % length == 0:
                stream = iter(batches)
            with timer:
                trainer._train_epoch(islice(stream, 1), step // length)
            step += 1
            if step % round(every * length) == 0 or timer.wall >= 60 * minutes:
                yield {
                    "epoch": step / length, "seconds": timer.wall,
                    "quiet seconds": timer.quiet() * step, "cpu seconds": timer.processor,
                    "ndcg@20": world.ndcg(*tables()),
                }  # fmt: skip


def recbole(
    world: World, timer: Timer, *, name: str, minutes: float, every: float, folder: Path
) -> Numbers:
    """Write the curve as it grows; return what an epoch takes and where the curve ends."""
    rows = []
    for row in recbole_curve(world, timer, name, minutes, every):
        rows.append(row)
        write(folder / f"recbole-{name.lower()}.csv", rows)
    length, last = len(timer.laps) / rows[-1]["epoch"], rows[-1]["ndcg@20"]
    near = next(row for row in rows if row["ndcg@20"] >= 0.99 * last)
    return timer.numbers(length) | {
        "last ndcg@20": last, "epochs": rows[-1]["epoch"], "epochs to 1 % of last": near["epoch"],
        "quiet s to 1 % of last": near["epoch"] * length * timer.quiet(),
    }  # fmt: skip


# --- The exact losses by user, by autograd --------------------------------------------------------
#
# Each takes the scores of a block of users against all items, those of the block's positives, and
# how many positives each user has; the sum over the positives is what the engine minimises, too.

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def softmax(scores: torch.Tensor, positive: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return counts @ torch.logsumexp(scores, dim=1) - positive.sum()


def mine_plus(scores: torch.Tensor, positive: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    t, weight = 0.1, 1.1
    return weight * (counts @ torch.logsumexp(scores / t, dim=1)) - positive.sum() / t


def ccl(scores: torch.Tensor, positive: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    margin, weight = 0.9, 150.0
    return (1 - positive).sum() + weight * (counts @ torch.relu(scores - margin).mean(dim=1))


EXACT: dict[str, tuple[Loss, bool]] = {
    "softmax": (softmax, False), "mine-plus": (mine_plus, True), "ccl": (ccl, True),
}  # fmt: skip
"""The losses, and whether they score by cosine."""


def exact(world: World, timer: Timer, *, loss: str, steps: int = 0) -> Numbers:
    """Steps of 512 users (an epoch unless told), after three that are not timed.

    Items have a dense Adam, fused; users the sparse one, as a user is touched once an epoch.
    """
    torch.manual_seed(0)
    users = table(world.train.shape[0], rows_only=True)
    items = table(world.train.shape[1])
    optimizers = [
        torch.optim.SparseAdam(users.parameters(), lr=0.03),
        torch.optim.Adam(items.parameters(), lr=0.03, fused=True),
    ]
    blocks = torch.randperm(world.train.shape[0]).split(BLOCK)
    timed = blocks[: steps or -1]  # the last block has fewer users
    for block in blocks[:3]:
        exact_step(world, loss, block, users, items, optimizers)
    for block in timed:
        with timer:
            exact_step(world, loss, block, users, items, optimizers)
    flops = 6.0 * world.train.shape[0] * world.train.shape[1] * FACTORS
    found = timer.numbers(world.train.shape[0] / BLOCK)
    return found | {"GFLOP/s": flops / found["quiet epoch s"] / 1e9}


def exact_step(
    world: World, loss: str, block: torch.Tensor, users: torch.nn.Embedding,
    items: torch.nn.Embedding, optimizers: list[torch.optim.Optimizer],
) -> None:  # fmt: skip
    function, cosine = EXACT[loss]
    train = world.train[block.numpy()]
    counts = torch.from_numpy(np.diff(train.indptr))
    rows = torch.repeat_interleave(counts)
    P, Q = users(block), items.weight
    if cosine:
        P, Q = functional.normalize(P), functional.normalize(Q)
    # The positives again, from their vectors: picking them from the block would cost autograd
    # another array of the size of the block.
    columns = torch.from_numpy(train.indices).long()
    positive = (P.index_select(0, rows) * Q.index_select(0, columns)).sum(dim=1)
    value = function(P @ Q.T, positive, counts.float()) / len(columns)
    for optimizer in optimizers:
        optimizer.zero_grad()
    value.backward()
    for optimizer in optimizers:
        optimizer.step()


def table(rows: int, rows_only: bool = False) -> torch.nn.Embedding:
    """A trained table; `rows_only` gives gradients of the touched rows."""
    made = torch.nn.Embedding(rows, FACTORS, sparse=rows_only)
    torch.nn.init.normal_(made.weight, std=0.1)
    return made


# --- mf-ccl with sampled negatives ----------------------------------------------------------------

BATCH, NEGATIVES = 256, 800
PUBLISHED_EPOCHS = (20, 30, 40)
"""SimpleX's log: recall@20 .1776, .1830 and at last .1837; within 1 % after 20 to 30 epochs."""


def sampled(world: World, timer: Timer, *, steps: int = 50) -> Numbers:
    """Steps of the published recipe after three that are not timed; epochs are extrapolated.

    Rate 1e-4, dropout 0.1 of the user, margin 0.9, weight 150, uniform negatives for each positive.
    The weight decay of 1e-8 and the clipping of gradients are left out, to the peer's advantage.
    """
    torch.manual_seed(0)
    users, items = (table(count) for count in world.train.shape)
    optimizer = torch.optim.Adam([users.weight, items.weight], lr=1e-4, fused=True)
    user, item = (torch.from_numpy(ids).long() for ids in world.train.nonzero())
    order = torch.randperm(len(user)).split(BATCH)
    for number, batch in enumerate(order[: steps + 3]):
        with timer if number >= 3 else Timer():
            sampled_step(user[batch], item[batch], users, items, optimizer)
    found = timer.numbers(len(user) / BATCH)
    return found | {
        f"s of {epochs} epochs, extrapolated": epochs * found["quiet epoch s"]
        for epochs in PUBLISHED_EPOCHS
    }


def sampled_step(
    user: torch.Tensor, item: torch.Tensor, users: torch.nn.Embedding,
    items: torch.nn.Embedding, optimizer: torch.optim.Optimizer,
) -> None:  # fmt: skip
    negative = torch.randint(items.num_embeddings, (len(user), NEGATIVES))
    p = functional.normalize(functional.dropout(users(user), 0.1))
    # The whole table is a fifth of what is gathered: half the time of the usual other order.
    Q = functional.normalize(items.weight)
    scores = torch.bmm(functional.embedding(negative, Q), p.unsqueeze(2)).squeeze(2)
    positive = (p * functional.embedding(item, Q)).sum(dim=1)
    value = (1 - positive + 150 * torch.relu(scores - 0.9).mean(dim=1)).mean()
    optimizer.zero_grad()
    value.backward()
    optimizer.step()


# --- Sparse products ------------------------------------------------------------------------------


def graph(world: World) -> sparse.csr_matrix:
    """Users and items, each link divided by the roots of both degrees."""
    both = sparse.bmat([[None, world.train], [world.train.T, None]], format="csr")
    roots = sparse.diags(1 / np.sqrt(np.maximum(np.diff(both.indptr), 1)))
    return (roots @ both @ roots).astype(np.float32).tocsr()


def walk(world: World, timer: Timer, *, how: str, repeats: int = 20) -> Numbers:
    """One product of the graph with a table of 64 columns, after two that are not timed."""
    A = graph(world)
    x = np.random.default_rng(0).standard_normal((A.shape[0], FACTORS)).astype(np.float32)
    there = torch.from_numpy(x)
    if how == "scipy csr":
        product = partial(A.__matmul__, x)
    elif how == "torch csr":
        pointers, columns = torch.from_numpy(A.indptr), torch.from_numpy(A.indices)
        values = torch.from_numpy(A.data)
        product = partial(
            torch.mm, torch.sparse_csr_tensor(pointers, columns, values, A.shape), there
        )
    else:  # what RecBole and LightGCN's authors use
        ids = torch.from_numpy(np.stack(A.nonzero()))
        coo = torch.sparse_coo_tensor(ids, torch.from_numpy(A.data), A.shape).coalesce()
        product = partial(torch.sparse.mm, coo, there)
    for number in range(repeats + 2):
        with timer if number >= 2 else Timer():
            product()
    # Gathered rows, written rows, and a column and a value of each link.
    traffic = 4 * FACTORS * (A.nnz + A.shape[0]) + 8 * A.nnz
    found, quiet = timer.numbers(1), timer.quiet()
    speed = {"GB/s": traffic / quiet / 1e9, "GFLOP/s": 2 * A.nnz * FACTORS / quiet / 1e9}
    return {name: value for name, value in found.items() if "epoch" not in name} | speed


def keep_memory() -> None:
    """Let glibc hold what is freed, for the next step: no maps, no trimming, and room on top."""
    libc = ctypes.CDLL("libc.so.6")
    trim_threshold, top_pad, map_max = -1, -2, -4  # the numbers of malloc.h
    for option, value in ((map_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 1 << 29)):
        if not libc.mallopt(option, value):
            raise SystemExit(f"glibc refuses {value} for mallopt's option {option}.")


# --- The table ------------------------------------------------------------------------------------


def write(path: Path, rows: list[Any]) -> None:
    """Rows with the columns that any of them has, in the order in which they appear."""
    columns = dict.fromkeys(name for row in rows for name in row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(rows)


def contests(minutes: float, folder: Path) -> dict[str, Callable[[World, Timer], Numbers]]:
    """Everybody that is measured, in this order."""
    walks = {
        f"walk {how}": partial(walk, how=how) for how in ("scipy csr", "torch csr", "torch coo")
    }
    exacts = {f"exact {loss}": partial(exact, loss=loss) for loss in EXACT}
    return walks | exacts | {
        "sampled mf-ccl": sampled,
        "recbole BPR": partial(recbole, name="BPR", minutes=minutes, every=5, folder=folder),
        "recbole LightGCN": partial(
            recbole, name="LightGCN", minutes=minutes, every=0.5, folder=folder
        ),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="where the CSV files go")
    parser.add_argument("--data", type=Path, default=GOWALLA, help="where train.txt, test.txt are")
    parser.add_argument("--only", default="", help="parts of names, such as walk,BPR")
    parser.add_argument(
        "--minutes", type=float, default=25.0, help="of training, for each of RecBole"
    )
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch; scipy has one")
    parser.add_argument("--keep-memory", action="store_true", help="never give freed memory back")
    options = parser.parse_args()
    if options.keep_memory:
        keep_memory()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    world = World(*gowalla(options.data))
    wanted, rows = options.only.split(","), []
    print(f"PyTorch {torch.__version__}, {options.threads} threads of {os.cpu_count()} processors")
    for name, contest in contests(options.minutes, options.folder.resolve()).items():
        if any(part in name for part in wanted):
            found = contest(world, Timer())
            rows.append({"name": name} | found)
            write(options.folder / "peers.csv", rows)
            print(f"{name:18}" + "".join(f"  {k} {v:.4g}" for k, v in found.items()), flush=True)


if __name__ == "__main__":
    main()
