"""A Dataset as prepared: binarised, without repeats, filtered.

Integer indices in file order, the ids they stand for, and a fingerprint of the content.
"""

import hashlib
import importlib.resources
import json
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy

from recbench.data import parquet
from recbench.data.interactions import PARTS
from recbench.errors import DataError
from recbench.fields import Misfit, checked, parsed
from recbench.files import atomic_path, clear_leftovers
from recbench.linalg.types import Flags, Indices, Integers, Sparse

FORMAT = 1
"""Version of the Parquet layout; a reader refuses files of a newer one."""
LINES = 1 << 16
"""Lines of the fingerprint's text that are made at a time: they stay in the processor's cache."""
WHOLE = "all"
"""What the fingerprint of everything is called beside those of parts."""


class Header(TypedDict):
    """What a prepared file says of itself."""

    format: int
    name: str
    rows: int
    users: int
    items: int
    fingerprint: str
    provenance: dict[str, Any]
    graph: NotRequired[bool]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Binary interactions with unique (user, item) pairs, frozen.

    Rows keep the order of the raw file, because published splits depend on it. Users and items
    are numbered by ascending original id (text in byte order).
    """

    name: str
    user: Indices
    item: Indices
    user_ids: pa.Array
    item_ids: pa.Array
    time: Integers | None = None
    part: npt.NDArray[np.int8] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    graph: bool = False
    """Whether users and items are nodes of one graph: who has the id of an item is that item."""

    def renamed(self, name: str) -> "Dataset":
        """The same under another name, with what is known of its content."""
        other = copy(self)
        object.__setattr__(other, "name", name)
        return other

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.user)

    @property
    def shape_text(self) -> str:
        """Users x items, interactions: how a table of datasets prints it."""
        return f"{self.n_users:,} users x {self.n_items:,} items, {len(self):,} interactions"

    @cached_property
    def matrix(self) -> Sparse:
        """The interactions as a binary matrix, float32, users x items."""
        return binary_csr(self.user, self.item, (self.n_users, self.n_items))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: unique pairs of original ids in order, one `user item` a line.

        It survives re-ordering of rows and changes of file format. Where the data came as
        train and test files, it is the hash over the hash of each part. A graph is ranked in
        another way, and so has another one.
        """
        content = self._content
        return hashlib.sha256(f"graph {content}\n".encode()).hexdigest() if self.graph else content

    @property
    def _content(self) -> str:
        if self.part is None:
            return self._content_hash(slice(None))
        parts = [(PARTS[code], self.part == code) for code in np.unique(self.part)]
        text = "".join(f"{name} {self._content_hash(rows)}\n" for name, rows in parts)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def own_items(self) -> Indices:
        """For every user of a graph the item of the same id; -1 where none has it."""
        return places_of(self.user_ids, self.item_ids)

    @cached_property
    def rows_digest(self) -> str:
        """SHA-256 of the rows as they stand: unlike the fingerprint, order and times count."""
        digest = hashlib.sha256()
        for column in (self.user, self.item, self.time, self.part):
            if column is not None:
                digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    @property
    def part_names(self) -> set[str]:
        """The parts that the data came in; `all` where they came in none."""
        if self.part is None:
            return {WHOLE}
        return {PARTS[code] for code in np.unique(self.part)}

    def part_fingerprint(self, part: str) -> str:
        """The content hash of one distributed part, or of everything."""
        if part == WHOLE:
            return self.fingerprint
        if self.part is None:
            raise DataError(f"{self.name} did not come in parts")
        return self._content_hash(self.part == PARTS.index(part))

    def _content_hash(self, rows: slice | Flags) -> str:
        user, item = self.user[rows], self.item[rows]
        # One sort of one integer key beats a two-key sort by far; most files need none.
        key = user.astype(np.int64)
        key *= self.n_items
        key += item
        if not bool(np.all(key[1:] > key[:-1])):
            key.sort()
        digest = hashlib.sha256()
        users = self.user_ids.cast(pa.string())
        items = pc.binary_join_element_wise(self.item_ids.cast(pa.string()), "", "\n")
        for start in range(0, len(key), LINES):
            part = key[start : start + LINES]
            u = part // self.n_items
            part -= u * self.n_items
            ends = users.take(pa.array(u)), items.take(pa.array(part))
            digest.update(_bytes_of(pc.binary_join_element_wise(*ends, " ")))
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the dataset to one Parquet file, whole or not at all.

        `user` and `item` are indices; row n of `user_id` is the original id of user n. The
        shorter columns are filled up with nulls, which take no space.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(path.parent)
        columns = {
            name: values if isinstance(values, pa.Array) else pa.array(values)
            for name, values in self._columns()
        }
        header = {
            "format": FORMAT,
            "name": self.name,
            "rows": len(self),
            "users": self.n_users,
            "items": self.n_items,
            "fingerprint": self.fingerprint,
            "provenance": dict(self.provenance),
            **({"graph": True} if self.graph else {}),
        }
        with atomic_path(path) as temporary:
            parquet.write(columns, json.dumps(header), temporary)
            parquet.seal(temporary)

    def _columns(self) -> Iterator[tuple[str, Any]]:
        for name in ("user", "item", "time", "part", "user_ids", "item_ids"):
            if getattr(self, name) is not None:
                yield name.removesuffix("s"), getattr(self, name)

    @classmethod
    def load(cls, path: Path) -> "Dataset":
        """Read a file written by `save`, once every byte of it has been verified."""
        if not path.is_file():
            raise DataError(f"{path} does not exist")
        parquet.check_seal(path)
        file = pq.ParquetFile(path)
        try:
            header = checked(Header, parsed(file.metadata.metadata[b"recbench"]))
        except (KeyError, Misfit) as error:
            raise DataError(
                f"{path} is not a dataset of recbench's ({error}); "
                "move it away and it will be prepared again"
            ) from error
        if header["format"] > FORMAT:
            raise DataError(f"{path} was written by a newer recbench; upgrade to read it")
        names = set(file.schema_arrow.names)
        rows = {
            name: parquet.read(file, name, header["rows"]).to_numpy()
            for name in ("user", "item", "time", "part")
            if name in names
        }
        data = cls(
            name=header["name"],
            user_ids=parquet.read(file, "user_id", header["users"]).combine_chunks(),
            item_ids=parquet.read(file, "item_id", header["items"]).combine_chunks(),
            provenance=header["provenance"],
            graph=header.get("graph", False),
            **rows,
        )
        data.__dict__["fingerprint"] = header["fingerprint"]
        return data


def load_embedded(name: str) -> Dataset:
    """Load a dataset that comes with the package."""
    source = importlib.resources.files("recbench.data") / "embedded" / f"{name}.parquet"
    with importlib.resources.as_file(source) as path:
        return Dataset.load(path)


def binary_csr(user: Indices, item: Indices, shape: tuple[int, int]) -> Sparse:
    """Build a sorted float32 matrix of ones from unique pairs."""
    ones = np.ones(len(user), dtype=np.float32)
    matrix = scipy.sparse.csr_array((ones, (user, item)), shape=shape)
    matrix.sort_indices()
    return matrix


def places_of(ids: pa.Array, among: pa.Array) -> Indices:
    """Where each id stands among others; -1 if it does not."""
    found = pc.fill_null(pc.index_in(ids, value_set=among), -1)
    places: Indices = found.to_numpy(zero_copy_only=False)
    return places


def with_cells(matrix: Sparse, columns: Indices) -> Sparse:
    """A binary matrix with one cell more in each row, where its column is not -1."""
    rows = np.flatnonzero(columns >= 0).astype(np.int32)
    cells = binary_csr(rows, columns[rows], matrix.shape)
    more: Sparse = matrix.maximum(cells)
    more.sort_indices()
    return more


def _bytes_of(text: pa.Array) -> memoryview:
    """The concatenated bytes of a freshly built string array."""
    return memoryview(text.buffers()[2])


def ids_from(values: Iterable[Any]) -> pa.Array:
    """Make an id array from Python values: int64 if they are integers, else text."""
    listed = list(values)
    kind = pa.int64() if all(isinstance(value, int) for value in listed) else pa.string()
    return pa.array(listed, type=kind)
