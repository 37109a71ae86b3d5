"""Our splits as files for other tools: CSV, Parquet, LightGCN lines or RecBole's atomic files.

Whatever the format, five matrices are written: train, and for validation and test the history
a user is shown and the target to find. Where a history is the user's row of the train matrix, as
in weak splits, it is not written again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recbench.data.dataset import Dataset
from recbench.errors import DataError
from recbench.files import atomic_path
from recbench.linalg.types import Indices, Sparse
from recbench.splits.types import Part, Split


@dataclass(frozen=True)
class Pairs:
    """One matrix to write: the dataset's user of each row, its item of each column, their ids."""

    matrix: Sparse
    users: Indices
    items: Indices
    data: Dataset

    @property
    def user(self) -> Indices:
        """The user of each cell."""
        return np.repeat(self.users, np.diff(self.matrix.indptr))

    @property
    def item(self) -> Indices:
        """The item of each cell."""
        item: Indices = self.items[self.matrix.indices]
        return item


@dataclass(frozen=True)
class Format:
    """How a matrix is written, and what its file is called; the same of lists of ids, if any."""

    write: Callable[[Pairs, Path], None]
    called: str
    write_ids: Callable[[pa.Array, Path], None] | None = None
    ids_called: str = ""


def export(data: Dataset, split: Split, form: str, folder: Path) -> list[Path]:
    """Write a split into a folder; return the files."""
    how = FORMATS[form]
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, matrix, users in matrices(split, data.n_users):
            files.append(folder / how.called.format(name=name, dataset=folder.name))
            with atomic_path(files[-1]) as temporary:
                how.write(Pairs(matrix, users, split.items, data), temporary)
        if how.write_ids is not None:
            for side, ids in (("user", data.user_ids), ("item", data.item_ids)):
                files.append(folder / how.ids_called.format(side=side))
                with atomic_path(files[-1]) as temporary:
                    how.write_ids(ids, temporary)
    except OSError as error:
        raise DataError(f"the split cannot be written to {folder} ({error.strerror})") from error
    return files


def matrices(split: Split, n_users: int) -> Iterator[tuple[str, Sparse, Indices]]:
    """Name, matrix and the dataset's user for each row, of everything there is to write."""
    everyone = np.arange(n_users, dtype=np.int32) if split.users is None else split.users
    yield "train", split.train, everyone
    for name, part in (("valid", split.valid), ("test", split.test)):
        if not _is_train(part, split.train):
            yield f"{name}_history", part.history, part.users
        yield name, part.target, part.users


def _is_train(part: Part, train: Sparse) -> bool:
    """Whether every history is the user's row of the train matrix."""
    if (part.train_rows < 0).any():
        return False
    rows = train[part.train_rows]
    return rows.nnz == part.history.nnz and bool(np.array_equal(rows.indices, part.history.indices))


def _lines(make: Callable[[Pairs], Iterator[str]]) -> Callable[[Pairs, Path], None]:
    """What writes lines of text."""

    def write(pairs: Pairs, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(make(pairs))

    return write


def _by_user(pairs: Pairs) -> Iterator[str]:
    """One line per user: its number, then its items' numbers."""
    item, starts = pairs.item, pairs.matrix.indptr
    for row, user in enumerate(pairs.users):
        yield " ".join(map(str, [user, *item[starts[row] : starts[row + 1]]])) + "\n"


def _originals(separator: str, header: str) -> Callable[[Pairs], Iterator[str]]:
    """One line per cell, with original ids."""

    def make(pairs: Pairs) -> Iterator[str]:
        users, items = pairs.data.user_ids.to_pylist(), pairs.data.item_ids.to_pylist()
        yield header
        for user, item in zip(pairs.user, pairs.item, strict=True):
            yield f"{users[user]}{separator}{items[item]}\n"

    return make


def _id_lines(ids: pa.Array, path: Path) -> None:
    """The `org_id remap_id` file that goes with LightGCN's lines."""
    with path.open("w", encoding="utf-8") as file:
        file.write("org_id remap_id\n")
        file.writelines(f"{name} {index}\n" for index, name in enumerate(ids.to_pylist()))


def _parquet(pairs: Pairs, path: Path) -> None:
    # Users ascend, and so do the items of each: differences are small, and quickly written.
    pq.write_table(pa.table({"user": pairs.user, "item": pairs.item}), path, use_dictionary=False,
                   column_encoding="DELTA_BINARY_PACKED")  # fmt: skip


def _id_table(ids: pa.Array, path: Path) -> None:
    pq.write_table(pa.table({"id": ids}), path, use_dictionary=False)


FORMATS = {
    "csv": Format(_lines(_originals(",", "user,item\n")), "{name}.csv"),
    "parquet": Format(_parquet, "{name}.parquet", _id_table, "{side}s.parquet"),
    "lightgcn": Format(_lines(_by_user), "{name}.txt", _id_lines, "{side}_list.txt"),
    "recbole": Format(
        _lines(_originals("\t", "user_id:token\titem_id:token\n")), "{dataset}.{name}.inter"
    ),
}
"""By name, in the order in which they are offered."""
