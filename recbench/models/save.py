"""A fitted model outside a benchmark: recommend, find neighbours, save and load.

    from recbench.data.open import Access, open_dataset
    from recbench.models.save import fit, load

    model = fit("ease[l2=10]", open_dataset("debian", Access()))
    model.recommend(["bash", "python3"], k=5)
    model.neighbours("libgtk-3-0", k=5)
    model.save(Path("ease-debian"))
    load(Path("ease-debian")).recommend(["bash"])

Files are .npy without pickled objects, tiles, JSON and a Parquet file of ids: loading a model runs
no code that came with it. Their digests are in model.json, and are compared when it is loaded.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from recbench.data.dataset import Dataset, binary_csr
from recbench.errors import DataError, RecbenchError, unknown
from recbench.fields import checked, parsed
from recbench.files import DIGEST, digest_of_file, is_sealed, sealed
from recbench.linalg.locked import locked
from recbench.linalg.tiles import Tiles
from recbench.linalg.topk import DensePanels
from recbench.linalg.types import Floats
from recbench.models.context import Context
from recbench.models.popularity import Constant
from recbench.models.scorers import Base, ItemItem, Query, Scorer
from recbench.registry import MODELS, build

FORMAT = 2
"""2 added digests."""
HEADER = "model.json"
Id = int | str


class Header(TypedDict):
    """What model.json says."""

    format: int
    model: str
    dataset: str
    fingerprint: str
    base: Literal["constant", "tiles", "weights"]
    scaled: bool
    files: NotRequired[dict[str, str]]
    """The SHA-256 of each file."""


@dataclass(frozen=True, eq=False)
class Recommender:
    """A scorer and the ids of the items it scores."""

    model: str
    scorer: Scorer
    items: pa.Array
    dataset: str = ""
    fingerprint: str = ""

    @cached_property
    def _index(self) -> dict[Id, int]:
        return {name: index for index, name in enumerate(self.items.to_pylist())}

    def recommend(self, history: Iterable[Id], k: int = 10) -> list[tuple[Id, float]]:
        """The best items for somebody who has these, with their scores; never one of them."""
        return self._best(self._row(history), k)

    def neighbours(self, item: Id, k: int = 10) -> list[tuple[Id, float]]:
        """The items recommended to somebody who has just this one."""
        return self.recommend([item], k)

    def _row(self, history: Iterable[Id]) -> sparse.csr_array:
        columns = []
        for name in history:
            if name not in self._index:
                raise unknown("item", str(name), map(str, self._index))
            columns.append(self._index[name])
        unique = np.unique(np.array(columns, dtype=np.int32))
        return binary_csr(np.zeros_like(unique), unique, (1, len(self.items)))

    def _best(self, row: sparse.csr_array, k: int) -> list[tuple[Id, float]]:
        stranger = np.array([-1], dtype=np.int32)
        query = Query(row, stranger, row, min(k, len(self.items)))
        (top,) = self.scorer.base.top(query, [self.scorer.scale])
        pairs = zip(top.items[0].tolist(), top.scores[0].tolist(), strict=True)
        return [(self.items[item].as_py(), score) for item, score in pairs if item >= 0]

    def save(self, folder: Path) -> None:
        """Write the model to a new folder, or over one that holds a model."""
        if folder.exists() and not (folder / HEADER).exists() and any(folder.iterdir()):
            raise DataError(f"{folder} holds something else; give another folder")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        header: dict[str, Any] = {
            "format": FORMAT, "model": self.model, "dataset": self.dataset,
            "fingerprint": self.fingerprint, "base": _save_base(self.scorer, folder),
            "scaled": self.scorer.scale is not None,
        }  # fmt: skip
        if self.scorer.scale is not None:
            np.save(folder / "scale.npy", self.scorer.scale, allow_pickle=False)
        pq.write_table(pa.table({"item": self.items}), folder / "items.parquet")
        header["files"] = {
            path.name: digest_of_file(path) for path in sorted(folder.iterdir()) if path.is_file()
        }
        # Written last: a folder without it is not a model.
        text = sealed(json.dumps(header, indent=1))
        (folder / HEADER).write_text(text + "\n", encoding="utf-8")


def fit(model: str, data: Dataset, context: Context | None = None) -> Recommender:
    """Fit a model, as typed after --model, on everything there is in a dataset."""
    instance = build(model, MODELS)
    scorer = instance.fit(locked(data.matrix), context or Context())
    return Recommender(instance.text, scorer, data.item_ids, data.name, data.fingerprint)


def load(folder: Path) -> Recommender:
    """Read a folder written by `Recommender.save`; large arrays are verified and mapped."""
    try:
        content = (folder / HEADER).read_bytes()
        header = checked(Header, parsed(content))
        if header["format"] > FORMAT:
            raise DataError(f"{folder} was written by a newer recbench; upgrade to read it")
        if (header["format"] > 1 or DIGEST in header) and not is_sealed(content):
            raise DataError(f"{folder / HEADER} is damaged: it is not as it was written")
        for name, digest in header.get("files", {}).items():
            if digest_of_file(folder / name) != digest:
                raise DataError(f"{folder / name} is damaged: it is not as it was written")
        items = pq.read_table(folder / "items.parquet")["item"].combine_chunks()
        scale = _array(folder / "scale.npy") if header["scaled"] else None
        scorer = Scorer(_LOADERS[header["base"]](folder), scale)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DataError(f"{folder} holds no model, or a damaged one ({error})") from error
    return Recommender(header["model"], scorer, items, header["dataset"], header["fingerprint"])


def _save_base(scorer: Scorer, folder: Path) -> str:
    """Write what scores are made from; return the name of its kind."""
    base = scorer.base
    if isinstance(base, Constant):
        np.save(folder / "scores.npy", base.scores, allow_pickle=False)
        return "constant"
    if isinstance(base, ItemItem) and isinstance(base.weights, Tiles):
        base.weights.save(folder / "tiles")
        return "tiles"
    if isinstance(base, ItemItem) and isinstance(base.weights, DensePanels):
        np.save(folder / "weights.npy", base.weights.array, allow_pickle=False)
        return "weights"
    raise RecbenchError(f"models that score by {type(base).__name__} cannot be saved")


def _array(path: Path) -> Floats:
    array: Floats = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


_LOADERS: dict[str, Callable[[Path], Base]] = {
    "constant": lambda folder: Constant(_array(folder / "scores.npy")),
    "tiles": lambda folder: ItemItem(Tiles.open(folder / "tiles")),
    "weights": lambda folder: ItemItem(_array(folder / "weights.npy")),
}
