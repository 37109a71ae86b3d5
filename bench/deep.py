"""mult-vae, neumf, ngcf, dgcf, slim and item-knn beside RecBole's, with equal settings.

    python bench/deep.py --peer peers/bin/python                           # all of it: many hours
    python bench/deep.py --peer peers/bin/python --steps 10 --columns 20   # shares of it: minutes

`peers` is the environment that `bench/peers_trained.py` describes, with RecBole as it comes. This
program runs in recbench's and calls itself in both, one process for each model of either, so that
the peak of memory is that of one model, reading of the data included. Data are of ML-1M's size,
made up, with a tenth of the interactions held out, and Gowalla as LightGCN's authors split it.

Both have the same layers, batches, rates and numbers of draws. What stays different: RecBole takes
interactions in random order, where recbench draws users, as the papers do; RecBole's NGCF makes
rows as long as one before they go on, and its penalties are lengths, not squares; its MultiVAE
draws the code with a hundredth of the deviation.

Seconds are of an epoch (of a fit, for slim and item-knn), on the wall and of the processor; other
work on the machine touches the latter less. They leave out reading, building the graph, ranking and
the compiling of what runs first. With `--steps` an epoch is that many steps, with `--columns`
RecBole's slim has that many, and seconds are what all would take at this pace. Both learn from as
many steps, and `ndcg@20` says what came of it, for a thousand users. Threads of both sleep while
they wait, which costs less beside other work.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from als import GOWALLA, gowalla, ones
from scipy import sparse

ML_1M = "synthetic:users=6040,items=3706,interactions=1000209"
K, ASKED, AT_ONCE = 20, 1000, 100
PARTS = "train", "test"


@dataclass(frozen=True)
class Contest:
    """A model here and its like in RecBole."""

    ours: str
    peer: str
    settings: dict[str, Any]
    """Of the peer, besides those that it has anyway."""


BPR = {"train_batch_size": 2048, "learning_rate": 0.001, "embedding_size": 64}
CONTESTS = {
    "mult-vae": Contest(
        "mult-vae[hidden=600,code=200,dropout=0.5,beta=0.2,anneal=200000,batch=500,rate=0.001]",
        "MultiVAE",
        {"mlp_hidden_size": [600], "latent_dimension": 400, "dropout_prob": 0.5,
         "anneal_cap": 0.2, "total_anneal_steps": 200_000, "train_batch_size": 500,
         "learning_rate": 0.001, "train_neg_sample_args": None},
    ),
    "neumf": Contest(
        "neumf[factors=64,layers=3,drawn=4,batch=2048,rate=0.001]",
        "NeuMF",
        {"mf_embedding_size": 64, "mlp_embedding_size": 64, "mlp_hidden_size": [64, 32, 16],
         "dropout_prob": 0.0, "train_batch_size": 5 * 2048, "learning_rate": 0.001,
         "train_neg_sample_args": {"distribution": "uniform", "sample_num": 4, "dynamic": False,
                                   "candidate_num": 0, "alpha": 1.0}},
    ),
    "ngcf": Contest(
        "ngcf[form=paper,layers=3,dropout=0.1,l2=0.00001,batch=2048,rate=0.001]",
        "NGCF",
        BPR | {"hidden_size_list": [64, 64, 64], "message_dropout": 0.1, "reg_weight": 1e-5},
    ),
    "dgcf": Contest(
        "dgcf[layers=1,intents=4,iterations=2,independence=0.01,l2=0.001,batch=2048,rate=0.001]",
        "DGCF",
        BPR | {"n_factors": 4, "n_iterations": 2, "n_layers": 1, "reg_weight": 1e-3,
               "cor_weight": 0.01},
    ),
    "slim": Contest(
        "slim[alpha=0.005,l1-ratio=0.01]", "SLIMElastic", {"alpha": 0.005, "l1_ratio": 0.01}
    ),
    "item-knn": Contest("item-knn[k=100]", "ItemKNN", {"k": 100, "shrink": 0.0}),
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Seconds on the wall and of the processor."""

    wall: float
    processor: float

    def __mul__(self, times: float) -> "Cost":
        return Cost(self.wall * times, self.processor * times)


class Clock:
    """What was spent inside of it."""

    def __init__(self) -> None:
        self.cost = Cost(0.0, 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count from here to the end of the block."""
        wall, processor = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.cost = Cost(
                self.cost.wall + time.perf_counter() - wall,
                self.cost.processor + time.process_time() - processor,
            )


@dataclass(frozen=True)
class Found:
    """What came of one model."""

    seconds: Cost
    """Of an epoch, or of a fit."""
    gigabytes: float = 0.0
    ndcg: float | None = None
    share: float = 1.0
    """Of the epoch or fit, what was done."""


@dataclass(frozen=True)
class World:
    """What everybody is given."""

    train: sparse.csr_matrix
    test: sparse.csr_matrix
    epochs: int
    steps: int
    columns: int

    @property
    def asked(self) -> Any:
        """Some users with something to be found."""
        able = np.flatnonzero(np.diff(self.test.indptr))
        some = np.random.default_rng(0).choice(len(able), min(ASKED, len(able)), replace=False)
        return np.sort(able[some])

    def ndcg(self, score: Callable[[Any], Any]) -> float:
        """The ndcg@20 of the users who are asked, given scores of all items for some of them."""
        gains = 1 / np.log2(np.arange(2, K + 2))
        ideal, total = np.cumsum(gains), 0.0
        for users in np.array_split(self.asked, -(-len(self.asked) // AT_ONCE)):
            scores = np.array(score(users), np.float64)
            scores[self.train[users].nonzero()] = -np.inf
            best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            test = self.test[users]
            hits = test.toarray()[np.arange(len(users))[:, None], best] > 0
            total += float((hits @ gains / ideal[np.minimum(np.diff(test.indptr), K) - 1]).sum())
        return total / len(self.asked)


# --- recbench -------------------------------------------------------------------------------------


def ours(world: World, contest: Contest) -> Found:
    """Train or fit our model."""
    from recbench.models.base import fit_alone
    from recbench.models.context import Context
    from recbench.models.contract import example
    from recbench.registry import MODELS, build

    model, ctx = build(contest.ours, MODELS), Context()
    fit_alone(model, example(), Context(stop=1))  # compiles
    if model.most_rounds:
        return trained(world, model, ctx)
    clock = Clock()
    with clock.running():
        scorer = fit_alone(model, sparse.csr_array(world.train), ctx)
    return Found(clock.cost, ndcg=world.ndcg(lambda users: scored(scorer, world, users)))


def trained(world: World, model: Any, ctx: Any) -> Found:
    """Epochs of a net, or as many steps of each."""
    from recbench.linalg import blas
    from recbench.models.deep.library import session
    from recbench.models.deep.nets.trainer import Epochs, Place

    clock, train = Clock(), sparse.csr_array(world.train)
    with session(ctx) as device, blas.workers() as pool:
        net = model.net(train, Place(device, ctx))
        fit = Epochs(net, model.name, model.training, pool, ctx)
        steps, all_batches = sum(1 for _ in net.batches(ctx.stream("epoch 1"))), net.batches
        taken = min(world.steps or steps, steps)
        net.batches = lambda draw: islice(all_batches(draw), taken)
        for number in range(1, world.epochs + 1):
            with clock.running():
                fit.advance(number)
        scorer = fit.look()
    share = taken / steps
    ndcg = world.ndcg(lambda users: scored(scorer, world, users))
    return Found(clock.cost * (1 / world.epochs / share), ndcg=ndcg, share=share)


def scored(scorer: Any, world: World, users: Any) -> Any:
    """Our scores of all items for some users."""
    return scorer.score(sparse.csr_array(world.train[users]), users.astype(np.int32))


# --- RecBole --------------------------------------------------------------------------------------


def peer(world: World, contest: Contest) -> Found:
    """Train or fit RecBole's model."""
    with tempfile.TemporaryDirectory(prefix="recbench-deep-") as temporary, chdir(temporary):
        return recbole(world, contest, Path(temporary))


def recbole(world: World, contest: Contest, folder: Path) -> Found:
    """The same in a folder of its own."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import ModelType, get_model, get_trainer, init_seed

    write_atomic(world, folder / "world")
    config = Config(contest.peer, "world", config_dict={
        "data_path": str(folder), "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]}, "use_gpu": False, "show_progress": False,
        "checkpoint_dir": str(folder / "saved"), **contest.settings,
    })  # fmt: skip
    init_seed(config["seed"], config["reproducibility"])
    data = create_dataset(config)
    batches, *_ = data_preparation(config, data)
    clock, share = Clock(), 1.0
    if config["MODEL_TYPE"] == ModelType.TRADITIONAL:
        if contest.peer == "SLIMElastic" and world.columns:
            return some_columns(world, lambda: get_model(contest.peer)(config, batches._dataset))
        with clock.running():  # all is done as it is made
            model = get_model(contest.peer)(config, batches._dataset)
    else:
        model = get_model(contest.peer)(config, batches._dataset)
        trainer = get_trainer(config["MODEL_TYPE"], contest.peer)(config, model)
        taken = min(world.steps or len(batches), len(batches))
        share = taken / len(batches)
        for number in range(world.epochs):
            with clock.running():
                trainer._train_epoch(islice(iter(batches), taken), number)
    rounds = 1 if config["MODEL_TYPE"] == ModelType.TRADITIONAL else world.epochs
    ndcg = world.ndcg(partial(recbole_scores, model, data))
    return Found(clock.cost * (1 / rounds / share), ndcg=ndcg, share=share)


def write_atomic(world: World, folder: Path) -> None:
    """The data as RecBole reads it, already split; it wants a third part, and never sees it.

    It numbers items as they come: at random, so that the first few columns of slim are a sample.
    """
    folder.mkdir()
    rank = np.random.default_rng(0).permutation(world.train.shape[1])
    for part, matrix in {"train": world.train, "valid": world.test, "test": world.test}.items():
        pairs = np.stack(matrix.nonzero(), axis=1)
        pairs = pairs[np.argsort(rank[pairs[:, 1]], kind="stable")]
        header = "user_id:token\titem_id:token"
        path = folder / f"{folder.name}.{part}.inter"
        np.savetxt(path, pairs, fmt="%d", delimiter="\t", header=header, comments="")


def some_columns(world: World, make: Callable[[], Any]) -> Found:
    """The first columns of SLIMElastic only, which makes them all as it is made."""
    from recbole.model.general_recommender import slimelastic

    class Enough(Exception):
        pass

    class Counted(slimelastic.ElasticNet):  # type: ignore[misc, unused-ignore]
        left = world.columns + 1  # the first is padding

        def fit(self, *given: Any) -> Any:
            """Stop where enough are done; what is timed includes the cutting out of columns."""
            if Counted.left == 0:
                raise Enough
            Counted.left -= 1
            return super().fit(*given)

    slimelastic.ElasticNet, share = Counted, world.columns / world.train.shape[1]
    clock = Clock()
    with suppress(Enough), clock.running():
        make()
    return Found(clock.cost * (1 / share), share=share)


def recbole_scores(model: Any, data: Any, users: Any) -> Any:
    """RecBole's scores of all items for some users, by our numbers."""
    import torch
    from recbole.data.interaction import Interaction

    model.eval()
    rows = torch.as_tensor([data.token2id("user_id", str(user)) for user in users])
    with torch.no_grad():
        try:
            found = model.full_sort_predict(Interaction({"user_id": rows})).view(len(rows), -1)
        except NotImplementedError:  # then each pair is asked for
            items = torch.arange(data.item_num)
            found = torch.stack([
                model.predict(Interaction({"user_id": row.expand(len(items)), "item_id": items}))
                for row in rows
            ])  # fmt: skip
    numbers = [int(token) for token in data.field2id_token["item_id"][1:]]
    scores = np.full((len(rows), data.item_num), -np.inf)
    scores[:, numbers] = found.numpy()[:, 1:]
    return scores


# --- The table ------------------------------------------------------------------------------------


def work(name: str, who: str, folder: Path, options: argparse.Namespace) -> None:
    """What a process for one model prints."""
    parts = [sparse.load_npz(folder / f"{part}.npz").tocsr() for part in PARTS]
    world = World(*parts, options.epochs, options.steps, options.columns)
    found = (ours if who == "ours" else peer)(world, CONTESTS[name])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print("\n" + json.dumps(asdict(replace(found, gigabytes=peak))))


def measured(name: str, who: str, folder: Path, options: argparse.Namespace) -> Found | None:
    """Of one model in a process of its own; None and a line where that came to nothing."""
    python = sys.executable if who == "ours" else options.peer
    given = [str(part) for each in ("epochs", "steps", "columns")
             for part in (f"--{each}", getattr(options, each))]  # fmt: skip
    words = [python, __file__, "--work", f"{name} {who}", "--folder", str(folder), *given]
    threads = {"OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | threads)
    try:
        raw = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{name}, {who}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return Found(**raw | {"seconds": Cost(**raw["seconds"])})


def say(name: str, theirs: Found, mine: Found) -> None:
    """Both, and their ratios."""
    (a, b), quality = (theirs.seconds, mine.seconds), ""
    if theirs.ndcg is not None and mine.ndcg is not None:
        quality = f", ndcg@20 {theirs.ndcg:.4f} and {mine.ndcg:.4f}"
    done = "" if theirs.share == mine.share == 1 else (
        f", of {theirs.share:.1%} and {mine.share:.1%} of an epoch or fit"
    )  # fmt: skip
    print(
        f"  {name}: peer {a.wall:.1f} s, recbench {b.wall:.1f} s: {a.wall / b.wall:.1f}x, of "
        f"processor seconds {a.processor / b.processor:.1f}x, {theirs.gigabytes:.1f} and "
        f"{mine.gigabytes:.1f} GB{quality}{done}",
        flush=True,
    )


def data(name: str, source: Path) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """What to train on, and what to find."""
    if name == "gowalla":
        return gowalla(source)
    from recbench.data.open import Access, open_dataset

    made = open_dataset(ML_1M, Access()).matrix.tocoo()
    held = np.random.default_rng(0).random(made.nnz) < 0.1
    train, test = (ones(made.row[mask], made.col[mask], made.shape) for mask in (~held, held))
    return train, test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python with RecBole")
    parser.add_argument("--data", default="ml-1m,gowalla", help="which of both")
    parser.add_argument("--gowalla", type=Path, default=GOWALLA, help="where its files are")
    parser.add_argument("--only", default=",".join(CONTESTS), help="names, such as ngcf,dgcf")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="of each epoch; 0: all")
    parser.add_argument("--columns", type=int, default=0, help="of RecBole's slim; 0: all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work.split(), options.folder, options)
        return
    if options.peer is None:
        parser.error("give --peer, a Python with RecBole; bench/peers_trained.py says how")
    for source in options.data.split(","):
        with tempfile.TemporaryDirectory(prefix="recbench-deep-") as temporary:
            parts = dict(zip(PARTS, data(source, options.gowalla), strict=True))
            for part, matrix in parts.items():
                sparse.save_npz(Path(temporary, f"{part}.npz"), matrix)
            print(f"{source}: {' x '.join(f'{size:,}' for size in parts['train'].shape)}, "
                  f"{parts['train'].nnz:,} interactions", flush=True)  # fmt: skip
            for name in options.only.split(","):
                both = [measured(name, who, Path(temporary), options) for who in ("peer", "ours")]
                if both[0] is not None and both[1] is not None:
                    say(name, both[0], both[1])


if __name__ == "__main__":
    main()
