"""Small datasets and plugin files that several tests use."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recbench.campaign.row import Row
from recbench.data.dataset import Dataset
from recbench.models.base import Model
from recbench.registry import MODELS

OWN = "toy-9460cda0"
"""What the small csv file of the fixtures is called in results: after its name and content."""

MODEL = '''
"""Recommends what was bought least."""

from dataclasses import dataclass

import numpy as np

from recbench.models.base import Model
from recbench.models.popularity import Constant
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS


@MODELS.register("rarity")
@dataclass(frozen=True)
class Rarity(Model):
    """Rank items by how few training users have them."""

    power: float = param(1.0, help="exponent", low=0, grid=(0.5, 1.0))

    def fit(self, train, ctx):
        counts = np.bincount(train.indices, minlength=train.shape[1])
        return Scorer(Constant((1.0 / (1.0 + counts) ** self.power).astype(np.float32)))
'''

METRIC = '''
import numpy as np

from recbench.registry import METRICS


@METRICS.register("first")
def first(ranking, k):
    """Whether the very first item is a hit, whatever k."""
    return ranking.hits_at(1)[:, 0].astype(float)
'''

FAILING = '''
from dataclasses import dataclass

from recbench.errors import Refused
from recbench.models.base import Model
from recbench.models.popularity import Popularity
from recbench.params import param
from recbench.registry import MODELS


@MODELS.register("fragile")
@dataclass(frozen=True)
class Fragile(Model):
    """Fails at 1, refuses at 2, is interrupted at 3, works otherwise."""

    x: int = param(0, help="what happens")

    def fit(self, train, ctx):
        if self.x == 1:
            raise ZeroDivisionError("one is none")
        if self.x == 2:
            raise Refused("needs 10 GB, 1 GB free; use less")
        if self.x == 3:
            raise KeyboardInterrupt
        return Popularity().fit(train, ctx)
'''


def two_tastes(users: int = 120, items: int = 30, seed: int = 0) -> Dataset:
    """Users who mostly take items of their own parity, more often the early ones."""
    rng = np.random.default_rng(seed)
    alike = np.equal.outer(np.arange(users) % 2, np.arange(items) % 2)
    chance = np.where(alike, 0.7, 0.15) * np.linspace(1.0, 0.4, items)
    user, item = np.nonzero(rng.random((users, items)) < chance)
    order = rng.permutation(len(user))
    return Dataset(
        name="toy",
        user=user[order].astype(np.int32),
        item=item[order].astype(np.int32),
        user_ids=pa.array([f"u{i:03}" for i in range(users)]),
        item_ids=pa.array(range(items), type=pa.int64()),
    )


def csv_of(data: Dataset) -> str:
    """The dataset as a user's own csv file."""
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    lines = [f"{users[u]},{items[i]}" for u, i in zip(data.user, data.item, strict=True)]
    return "\n".join(["u,i", *lines]) + "\n"


ROW = Row(
    trial="t1", dataset="toy", fingerprint="f", split="strong", model="ease", text="ease[l2=1]",
    parameters={"l2": 1.0}, seed=0, dtype="float32", part="valid", status="ok", users=3,
    metrics={"ndcg@20": 0.5},
)  # fmt: skip


def trial(number: int, value: float, **changes: object) -> Row:
    text = f"ease[l2={number}]"
    return replace(ROW, trial=f"t{number}", text=text, metrics={"ndcg@20": value}, **changes)


RUN = {
    "id": "a", "status": "finished", "command": ["recbench"], "written": "2026-01-01",
    "select": "ndcg@20", "metrics": ["ndcg@20"], "split": "strong", "peak_memory_bytes": 1,
    "dataset": {
        "name": "toy", "fingerprint": "f", "users": 3, "items": 2, "interactions": 4,
        "provenance": {},
    },
    "environment": {
        "recbench": "0", "commit": None, "dirty": None, "cpu": "", "cores": 1, "memory_bytes": 1,
        "platform": "", "blas": [], "packages": {},
    },
}  # fmt: skip
"""What a manifest says of a run, as far as it is read."""


def able(cls: type[Model]) -> type[Model]:
    """A class of models that can be fitted here; where it cannot, the test is skipped."""
    if cls.extra:
        pytest.importorskip(cls.extra, reason=f"{cls.name} needs {cls.extra}, an extra")
    return cls


def every_model(*but: str) -> list[Any]:
    """The names of all models. On a graph losses come again, so these are tested where time is."""
    names = sorted({*MODELS.names()} - {*but})
    return [
        pytest.param(name, marks=pytest.mark.slow) if name.startswith("lightgcn+") else name
        for name in names
    ]
