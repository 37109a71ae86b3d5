"""Our splits as files for other tools: plain CSV, LightGCN lines or RecBole's atomic files.

Whatever the format, five matrices are written: train, and for validation and test the history
a user is shown and the target to find. Where a history is the user's row of the train matrix, as
in weak splits, it is not written again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from recbench.data.dataset import Dataset
from recbench.errors import DataError
from recbench.files import atomic_path
from recbench.linalg.types import Indices
from recbench.splits.types import Part, Split

Names = list[object]


def export(data: Dataset, split: Split, form: str, folder: Path) -> list[Path]:
    """Write a split into a folder; return the files."""
    write, ending = FORMATS[form]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for name, matrix, users in matrices(split, data.n_users):
            path = folder / ending.format(name=name, dataset=folder.name)
            with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
                file.writelines(write(matrix, users, split.items, data))
            files.append(path)
        if form == "lightgcn":
            files += [_list(folder / f"{side}_list.txt", ids) for side, ids in _ids(data).items()]
    except OSError as error:
        raise DataError(f"the split cannot be written to {folder} ({error.strerror})") from error
    return files


def matrices(split: Split, n_users: int) -> Iterator[tuple[str, sparse.csr_array, Indices]]:
    """Name, matrix and the dataset's user for each row, of everything there is to write."""
    everyone = np.arange(n_users, dtype=np.int32) if split.users is None else split.users
    yield "train", split.train, everyone
    for name, part in (("valid", split.valid), ("test", split.test)):
        if not _is_train(part, split.train):
            yield f"{name}_history", part.history, part.users
        yield name, part.target, part.users


def _is_train(part: Part, train: sparse.csr_array) -> bool:
    """Whether every history is the user's row of the train matrix."""
    if (part.train_rows < 0).any():
        return False
    rows = train[part.train_rows]
    return rows.nnz == part.history.nnz and bool(np.array_equal(rows.indices, part.history.indices))


def _ids(data: Dataset) -> dict[str, Names]:
    return {"user": data.user_ids.to_pylist(), "item": data.item_ids.to_pylist()}


def _list(path: Path, ids: Names) -> Path:
    """The `org_id remap_id` file that goes with LightGCN's lines."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("org_id remap_id\n")
        file.writelines(f"{name} {index}\n" for index, name in enumerate(ids))
    return path


def _lightgcn(
    matrix: sparse.csr_array, users: Indices, items: Indices, data: Dataset
) -> Iterator[str]:
    """One line per user: its number, then its items' numbers."""
    for row, user in enumerate(users):
        numbers = items[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]]
        yield " ".join(map(str, [user, *numbers])) + "\n"


def _pairs(separator: str, header: str) -> "Write":
    def write(
        matrix: sparse.csr_array, users: Indices, items: Indices, data: Dataset
    ) -> Iterator[str]:
        ids = _ids(data)
        yield header
        rows = np.repeat(users, np.diff(matrix.indptr))
        for user, item in zip(rows, items[matrix.indices], strict=True):
            yield f"{ids['user'][user]}{separator}{ids['item'][item]}\n"

    return write


Write = Callable[[sparse.csr_array, Indices, Indices, Dataset], Iterator[str]]

FORMATS: dict[str, tuple[Write, str]] = {
    "csv": (_pairs(",", "user,item\n"), "{name}.csv"),
    "lightgcn": (_lightgcn, "{name}.txt"),
    "recbole": (_pairs("\t", "user_id:token\titem_id:token\n"), "{dataset}.{name}.inter"),
}
"""By name: what writes the lines of a matrix, and how its file is called."""
