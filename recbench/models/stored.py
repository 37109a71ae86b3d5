"""What a fitted model is made of, as JSON and .npy files, and back.

    tree = Writer(folder).plain(scorer.base)
    base = Reader(folder).object(tree)

A tree holds numbers, texts, arrays by the name of their file, and objects of the kinds below by
what they are made with. Nothing else is ever made from files: reading runs no code that came with
them, and calls nothing that is not listed here.
"""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from recbench.errors import DataError, RecbenchError
from recbench.linalg.tiles import Tiles
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.trained.loss import Loss
from recbench.registry import LOSSES, build

_NEIGHBOURS = "recbench.models.neighbours"
_OBJECTIVES = "recbench.models.factors.objectives"
_SUBSPACE = "recbench.models.linear.subspace"
_TRAINED = "recbench.models.trained"
KINDS = {
    "constant": "recbench.models.popularity:Constant",
    "item-item": "recbench.models.scorers:ItemItem",
    "sparse-item-item": "recbench.models.scorers:SparseItemItem",
    "user-neighbours": f"{_NEIGHBOURS}.knn:UserNeighbours",
    "crowd": f"{_NEIGHBOURS}.knn:Crowd",
    "weigher": f"{_NEIGHBOURS}.likeness:Weigher",
    "dense": "recbench.linalg.topk:DensePanels",
    "spread": "recbench.linalg.padded:Padded",
    "user-side": "recbench.models.linear.userside:UserSide",
    "row-inverse": "recbench.linalg.rowinverse:RowInverse",
    "low-rank": f"{_SUBSPACE}:LowRank",
    "shrunk": f"{_SUBSPACE}:Shrunk",
    "subspace": f"{_SUBSPACE}:Subspace",
    "factors": "recbench.models.scorers:Factors",
    "fold-in": "recbench.models.scorers:FoldIn",
    "half-sweep": "recbench.models.factors.als:HalfSweep",
    "basis": "recbench.linalg.normal:Basis",
    "pattern": "recbench.linalg.normal:Pattern",
    "weighted": f"{_OBJECTIVES}:Weighted",
    "contrasted": f"{_OBJECTIVES}:Contrasted",
    "ranking-squares": f"{_OBJECTIVES}:RankingSquares",
    "sampled-squares": f"{_OBJECTIVES}:SampledSquares",
    "bounded": f"{_OBJECTIVES}:Bounded",
    "with-products": f"{_OBJECTIVES}:WithProducts",
    "on-scores": f"{_OBJECTIVES}:OnScores",
    "encoded": "recbench.models.deep.encoded:Encoded",
    "towers": "recbench.models.deep.towers:Towers",
    "compared": f"{_TRAINED}.foldin:Compared",
    "newcomers": f"{_TRAINED}.foldin:Newcomers",
    "problem": f"{_TRAINED}.steps:Problem",
    "penalty": f"{_TRAINED}.steps:Penalty",
    "quadratic": f"{_TRAINED}.losses.quadratic:Quadratic",
    "passed-on": f"{_TRAINED}.encoders:PassedOn",
    "mean": f"{_TRAINED}.histories:MeanOf",
    "mixed": f"{_TRAINED}.histories:MixedOf",
    "simplex": f"{_TRAINED}.histories:Simplex",
}
"""Where classes are. Objects are made again with what their `__init__` takes, and they keep as
attributes of the same names."""


def _place(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


_KIND_OF = {place: kind for kind, place in KINDS.items()}


class Writer:
    """Takes objects apart, and writes their arrays to a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._named: dict[int, tuple[Any, Any]] = {}  # what is shared is written once

    def plain(self, value: Any) -> Any:
        """The value as JSON has it."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, list | tuple):
            return [self.plain(one) for one in value]
        if isinstance(value, Mapping):
            return {"mapping": {key: self.plain(one) for key, one in value.items()}}
        if isinstance(value, Loss | QuadraticLoss) and value.name:
            return {"loss": value.text}
        if id(value) not in self._named:
            self._named[id(value)] = value, self._taken_apart(value)
        return self._named[id(value)][1]

    def _taken_apart(self, value: Any) -> Any:
        number = len(self._named)
        if isinstance(value, np.ndarray):
            np.save(self.folder / f"{number}.npy", value, allow_pickle=False)
            return {"array": f"{number}.npy"}
        if isinstance(value, scipy.sparse.csr_array):
            parts = [self.plain(part) for part in (value.data, value.indices, value.indptr)]
            return {"matrix": parts, "shape": list(value.shape)}
        if isinstance(value, Tiles):
            value.save(self.folder / "tiles")
            return {"tiles": "tiles"}
        kind = _KIND_OF.get(_place(type(value)))
        if kind is None:
            raise RecbenchError(f"models that score by {type(value).__name__} cannot be saved")
        made_with = {name: self.plain(getattr(value, name)) for name in _parameters(type(value))}
        return {"kind": kind, "with": made_with}


class Reader:
    """Puts together again what a `Writer` took apart. Arrays are mapped, not read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._arrays: dict[str, Any] = {}

    def object(self, tree: Any) -> Any:
        """The value that this was."""
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.object(one) for one in tree]
        match tree:
            case {"mapping": dict(values)}:
                return {key: self.object(one) for key, one in values.items()}
            case {"loss": str(text)}:
                return build(text, LOSSES)
            case {"array": str(name)}:
                return self._array(name)
            case {"matrix": [data, indices, indptr], "shape": [int(rows), int(columns)]}:
                arrays = tuple(self.object(part) for part in (data, indices, indptr))
                return scipy.sparse.csr_array(arrays, shape=(rows, columns), copy=False)
            case {"tiles": "tiles"}:
                return Tiles.open(self.folder / "tiles")
            case {"kind": str(kind), "with": dict(made_with)} if kind in KINDS:
                module, name = KINDS[kind].split(":")
                cls = getattr(importlib.import_module(module), name)
                return cls(**{key: self.object(one) for key, one in made_with.items()})
        raise DataError(f"{self.folder} describes something that no model is made of")

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            if Path(name).name != name:
                raise DataError(f"{self.folder} names an array outside of it")
            # Copies on writing, or compiled loops would be compiled anew for what is read-only.
            mapped = np.load(self.folder / name, mmap_mode="c", allow_pickle=False)
            self._arrays[name] = np.asarray(mapped)
        return self._arrays[name]


def _parameters(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)
