"""A fitted model outside a benchmark: recommend, find neighbours, save and load.

    from recbench.data.open import Access, open_dataset
    from recbench.models.save import fit, load

    model = fit("ease[l2=10]", open_dataset("debian", Access()))
    model.recommend(["bash", "python3"], k=5)
    model.for_users(["alice"], k=5)
    model.neighbours("libgtk-3-0", k=5)
    model.save(Path("ease-debian"))
    load(Path("ease-debian")).recommend(["bash"])

Files are .npy without pickled objects, tiles, JSON and Parquet files of ids: loading a model runs
no code that came with it. Their digests are in model.json, and are compared when it is loaded.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recbench.data.dataset import Dataset, binary_csr, places_of, with_cells
from recbench.errors import DataError, RecbenchError, UsageError, unknown
from recbench.fields import checked, parsed
from recbench.files import DIGEST, digest_of_file, is_sealed, sealed
from recbench.linalg.locked import locked
from recbench.linalg.types import Progress, Sparse, silent
from recbench.models.base import fit_alone
from recbench.models.context import Context
from recbench.models.scorers import Base, Query, Scorer
from recbench.models.stored import Reader, Writer
from recbench.registry import MODELS, build

FORMAT = 3
"""2 added digests; 3 every kind of model, users and what they have."""
HEADER = "model.json"
Id = int | str


class Header(TypedDict):
    """What model.json says."""

    format: int
    model: str
    dataset: str
    fingerprint: str
    base: Any
    """A tree of `stored`; before format 3, the name of a kind."""
    scaled: NotRequired[bool]
    """Before format 3."""
    scale: NotRequired[Any]
    history: NotRequired[Any]
    trial: NotRequired[str]
    """That of a campaign, if it was fitted in one."""
    graph: NotRequired[bool]
    files: NotRequired[dict[str, str]]
    """The SHA-256 of each file."""


@dataclass(frozen=True, eq=False)
class People:
    """The users that a model was fitted on, and what they had."""

    ids: pa.Array
    history: Sparse

    @cached_property
    def places(self) -> dict[Id, int]:
        """The row of each."""
        return {name: row for row, name in enumerate(self.ids.to_pylist())}


@dataclass(frozen=True, eq=False)
class Recommender:
    """A scorer, the ids of the items it scores, and the users it was fitted on if it knows them."""

    model: str
    scorer: Scorer
    items: pa.Array
    dataset: str = ""
    fingerprint: str = ""
    people: People | None = None
    trial: str = ""
    """The id of the trial whose numbers it has, if it was measured."""
    graph: bool = False
    """Whether a user is the item of the same id, which is not recommended to it."""

    @cached_property
    def _index(self) -> dict[Id, int]:
        return {name: index for index, name in enumerate(self.items.to_pylist())}

    def recommend(self, history: Iterable[Id], k: int = 10) -> list[tuple[Id, float]]:
        """The best items for somebody who has these, with their scores; never one of them."""
        return next(self.for_histories([history], k))

    def neighbours(self, item: Id, k: int = 10) -> list[tuple[Id, float]]:
        """The items recommended to somebody who has just this one."""
        return self.recommend([item], k)

    def for_histories(
        self, histories: Iterable[Iterable[Id]], k: int = 10, progress: Progress = silent
    ) -> Iterator[list[tuple[Id, float]]]:
        """The best items for people who have these, whoever they are."""
        rows = [np.unique(np.array([*self._columns(one)], np.int32)) for one in histories]
        owners = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int32)
        columns = np.concatenate([*rows, np.zeros(0, np.int32)])
        history = binary_csr(owners, columns, (len(rows), len(self.items)))
        strangers = np.full(len(rows), -1, np.int32)
        return self._best(Query(history, strangers, history, k), progress)

    def for_users(
        self, users: Sequence[Id] | None = None, k: int = 10, progress: Progress = silent
    ) -> Iterator[list[tuple[Id, float]]]:
        """The best items for users of the data, all of them unless some are named."""
        if self.people is None:
            raise DataError(f"{self.model} does not know any users: give histories")
        places, rows = self.people.places, []
        for name in self.people.ids.to_pylist() if users is None else users:
            if name not in places:
                raise unknown("user", str(name), map(str, places))
            rows.append(places[name])
        chosen = np.array(rows, np.int32)
        history = seen = self.people.history[chosen]
        if self.graph:
            own = places_of(self.people.ids.take(pa.array(chosen)), self.items)
            seen = with_cells(history, own)
        return self._best(Query(history, chosen, seen, k), progress)

    def _columns(self, history: Iterable[Id]) -> Iterator[int]:
        for name in history:
            if name not in self._index:
                raise unknown("item", str(name), map(str, self._index))
            yield self._index[name]

    def _best(self, query: Query, progress: Progress) -> Iterator[list[tuple[Id, float]]]:
        query = replace(query, k=min(query.k, len(self.items)))
        (top,) = self.scorer.base.top(query, [self.scorer.scale], progress)
        for items, scores in zip(top.items, top.scores, strict=True):
            pairs = zip(items.tolist(), scores.tolist(), strict=True)
            yield [(self.items[item].as_py(), score) for item, score in pairs if item >= 0]

    def save(self, folder: Path) -> None:
        """Write the model to a new folder, or over one that holds a model."""
        if folder.exists() and not (folder / HEADER).exists() and any(folder.iterdir()):
            raise DataError(f"{folder} holds something else; give another folder")
        made = folder.parent / f".{folder.name}.part"
        shutil.rmtree(made, ignore_errors=True)  # of a process that was killed
        try:
            made.mkdir(parents=True)
            self._write(made)
        except BaseException:  # a disk that is full is not to be left so
            shutil.rmtree(made, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)  # whole or not at all

    def _write(self, made: Path) -> None:
        """All the files of a model."""
        writer = Writer(made)
        header: dict[str, Any] = {
            "format": FORMAT, "model": self.model, "dataset": self.dataset, "trial": self.trial,
            "fingerprint": self.fingerprint, "base": writer.plain(self.scorer.base),
            "scale": writer.plain(self.scorer.scale),
            "history": None if self.people is None else writer.plain(self.people.history),
            "graph": self.graph,
        }  # fmt: skip
        pq.write_table(pa.table({"item": self.items}), made / "items.parquet")
        if self.people is not None:
            pq.write_table(pa.table({"user": self.people.ids}), made / "users.parquet")
        header["files"] = {
            path.name: digest_of_file(path) for path in sorted(made.iterdir()) if path.is_file()
        }
        text = sealed(json.dumps(header, indent=1))
        (made / HEADER).write_text(text + "\n", encoding="utf-8")


def fit(model: str, data: Dataset, context: Context | None = None) -> Recommender:
    """Fit a model, as typed after --model, on everything there is in a dataset."""
    instance = build(model, MODELS)
    if instance.one_part:
        raise UsageError(
            f"{instance.shown} is lists already, for the users that they were made for; name a "
            "model that can be fitted, such as -m ease"
        )
    if instance.values().get("patience"):
        raise UsageError(
            f"{instance.shown} has patience, and there is no validation for it to ask; give "
            "patience=0, and as many rounds as it made where it was validated"
        )
    scorer = fit_alone(instance, locked(data.matrix), context or Context())
    people = People(data.user_ids, data.matrix)
    return Recommender(
        instance.text, scorer, data.item_ids, data.name, data.fingerprint, people, graph=data.graph
    )


def trial_in(folder: Path) -> str | None:
    """The trial of the model in a folder; None if there is no whole one, as far as one can see."""
    try:
        trial: str | None = parsed((folder / HEADER).read_bytes()).get("trial")
    except (OSError, ValueError, AttributeError):
        return None
    return trial


def load(folder: Path) -> Recommender:
    """Read a folder written by `Recommender.save`; arrays are verified and mapped."""
    try:
        return _load(folder)
    except RecbenchError:
        raise
    except Exception as error:  # there are a dozen ways to find out that a file is damaged
        raise DataError(
            f"{folder} holds no model, or a damaged one ({error}); `recbench run --save DIR` "
            "makes such folders in DIR"
        ) from error


def _load(folder: Path) -> Recommender:
    content = (folder / HEADER).read_bytes()
    header = checked(Header, parsed(content))
    if header["format"] > FORMAT:
        raise DataError(f"{folder} was written by a newer recbench; upgrade to read it")
    if (header["format"] > 1 or DIGEST in header) and not is_sealed(content):
        raise DataError(f"{folder / HEADER} is damaged: it is not as it was written")
    for name, digest in header.get("files", {}).items():
        if digest_of_file(folder / name) != digest:
            raise DataError(f"{folder / name} is damaged: it is not as it was written")
    trees, reader = _of_now({**header}), Reader(folder)
    items = pq.read_table(folder / "items.parquet")["item"].combine_chunks()
    base = reader.object(trees["base"])
    if not isinstance(base, Base):
        raise DataError(f"{folder} describes something that does not score")
    scale, people = reader.object(trees["scale"]), None
    if scale is not None and np.shape(scale) != (len(items),):
        raise DataError(f"{folder} has a scale of shape {np.shape(scale)} for {len(items)} items")
    if trees["history"] is not None:
        ids = pq.read_table(folder / "users.parquet")["user"].combine_chunks()
        people = People(ids, reader.object(trees["history"]))
        if np.shape(people.history) != (len(ids), len(items)):
            raise DataError(f"{folder} has histories of other users or items than it names")
    model = Recommender(
        header["model"], Scorer(base, scale), items, header["dataset"], header["fingerprint"],
        people, trees.get("trial", ""), trees.get("graph", False),
    )  # fmt: skip
    some = [] if people is None else people.ids[:1].to_pylist()
    if some:  # parts that do not fit together fail here
        next(model.for_users(some, 1))
    else:
        model.recommend(items[:1].to_pylist(), 1)
    return model


def _of_now(header: dict[str, Any]) -> dict[str, Any]:
    """A header as it would be written now; before format 3 there were three kinds of models."""
    if header["format"] >= 3:
        return header
    weights = {"kind": "dense", "with": {"array": {"array": "weights.npy"}}}
    bases = {
        "constant": {"kind": "constant", "with": {"scores": {"array": "scores.npy"}}},
        "tiles": {"kind": "item-item", "with": {"weights": {"tiles": "tiles"}}},
        "weights": {"kind": "item-item", "with": {"weights": weights}},
    }
    scale = {"array": "scale.npy"} if header["scaled"] else None
    return {**header, "base": bases[header["base"]], "scale": scale, "history": None, "trial": ""}
