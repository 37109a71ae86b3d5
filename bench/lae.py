"""What a grid costs: one linear autoencoder, nine of them, and every model of the family.

    python bench/lae.py                 # Gowalla's items with 20 interactions or more: 13,701
    python bench/lae.py --debian        # the embedded dataset

Each line is a whole trial as `recbench run` does it: fit, rank all items for all test users,
recall@20 and ndcg@20 per user. Lines take turns, the fastest of the rounds counts, and the ratio is
to the single model in the same run. The fit itself is compared with peers by bench/tiles.py, the
ranking by bench/evaluate.py.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from recbench.campaign.plan import Plan
from recbench.campaign.search.grammar import models_from, split_from
from recbench.campaign.worker import Worker
from recbench.data.dataset import Dataset, load_embedded
from recbench.data.interactions import PARTS
from recbench.evaluate.metrics import parse_metric
from recbench.models.context import Context

GOWALLA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla"
SHARED = "p=0.5,l2-effective=60"
GRID = "b=0.1,0.25,0.5,0.75,1,1.25,1.5,1.75,2"
FAMILY = [
    "edlae[p=0.5,l2=60]", "dlae[p=0.5,l2=60]", "rdlae[p=0.5,l2=60,xi=0.3]",
    f"deql-l2-zero[{SHARED}]",
]  # fmt: skip
LINES = {
    "deql-l2, one b": (["deql-l2[p=0.5,l2-effective=60,b=0.5]"], []),
    "deql-l2, nine b": ([f"deql-l2[{SHARED}]"], [GRID]),
    "five models, nine b": ([f"deql-l2[{SHARED}]", *FAMILY], [f"deql-l2.{GRID}"]),
}


def gowalla(least: int = 20) -> Dataset:
    """The distributed split of Gowalla, restricted to items with enough interactions."""
    users, items, parts = [], [], []
    for code, name in ((0, "train"), (2, "test")):
        for line in (GOWALLA / f"{name}.txt").read_text(encoding="ascii").splitlines():
            user, *found = map(int, line.split())
            users += [user] * len(found)
            items += found
            parts += [code] * len(found)
    user, item, part = np.array(users), np.array(items), np.array(parts, dtype=np.int8)
    keep = np.bincount(item)[item] >= least
    user_ids, user = np.unique(user[keep], return_inverse=True)
    item_ids, item = np.unique(item[keep], return_inverse=True)
    assert PARTS[0] == "train"
    return Dataset(
        "gowalla-20", user.astype(np.int32), item.astype(np.int32), pa.array(user_ids),
        pa.array(item_ids), part=part[keep],
    )  # fmt: skip


def seconds(data: Dataset, split: str, names: list[str], grids: list[str]) -> float:
    """Fit and measure on test, with a split that is made already."""
    metrics = [parse_metric("recall@20"), parse_metric("ndcg@20")]
    plan = Plan(data, split_from(split), models_from(names, grids=grids), metrics, "recall@20")
    worker = Worker(plan, Context())
    worker.split  # noqa: B018 - made now, not timed
    start = time.perf_counter()
    outcomes = worker.work(plan.trials, "test", {})
    took = time.perf_counter() - start
    assert all(outcome.row.status == "ok" for outcome in outcomes), outcomes[0].row.reason
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--debian", action="store_true", help="use the embedded dataset")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    data, split = (load_embedded("debian"), "strong") if options.debian else (gowalla(), "given")
    print(f"{data.name}: {data.shape_text}, {split}")
    best = dict.fromkeys(LINES, np.inf)
    for _ in range(options.rounds):
        for name, (names, grids) in LINES.items():
            best[name] = min(best[name], seconds(data, split, names, grids))
    one = best["deql-l2, one b"]
    for name, took in best.items():
        names, grids = LINES[name]
        models = len(models_from(names, grids=grids))
        print(f"{name:22} {models:3} models {took:7.2f} s  {took / one:5.2f} x one")


if __name__ == "__main__":
    main()
