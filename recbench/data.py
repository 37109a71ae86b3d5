"""Interactions as read, a Dataset as prepared, and the Parquet file between the two.

`Interactions` are rows as they stand in the raw file, with original ids. A `Dataset` is the
same after binarising, deduplicating and filtering: integer indices in file order, the ids they
stand for, and a fingerprint of the content.
"""

import hashlib
import importlib.resources
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from recbench.errors import DataError
from recbench.files import atomic_path

Indices = npt.NDArray[np.int32]
FORMAT = 1
"""Version of the Parquet layout; a reader refuses files of a newer one."""

ROW_GROUP = 1 << 20
"""Rows of a Parquet row group; part of the layout."""

SEAL = b"recbench sha256 "
"""What stands before the digest that a Parquet file of ours carries."""

PARTS = ("train", "valid", "test")
"""The values of an optional `part` column: splits that were distributed as files."""


@dataclass(frozen=True)
class Interactions:
    """A checked Arrow table: `user`, `item`, optional `value`, `time` and `part`, in file order.

    Ids are int64 or strings (possibly dictionary-encoded), `value` is float64, `time` is int64
    and `part` is int8, an index into PARTS.
    """

    table: pa.Table

    def __post_init__(self) -> None:
        """Refuse a table that is not one."""
        names = self.table.column_names
        for column in ("user", "item"):
            if column not in names:
                raise DataError(f"no column '{column}' among {', '.join(names) or 'none'}")
            if missing := _missing(self.table[column]):
                raise DataError(f"{missing} rows have no {column} id")
            if not _is_id(self.table[column].type):
                raise DataError(
                    f"{column} ids must be integers or text, not {self.table[column].type}"
                )
        wanted = {"value": pa.float64(), "time": pa.int64(), "part": pa.int8()}
        for column, kind in wanted.items():
            if column in names and self.table[column].type != kind:
                raise DataError(f"column '{column}' must be {kind}, not {self.table[column].type}")
            if column in ("time", "part") and column in names and _missing(self.table[column]):
                raise DataError(f"{_missing(self.table[column])} rows have no {column}")

    def __len__(self) -> int:
        return int(self.table.num_rows)


def _missing(column: pa.ChunkedArray) -> int:
    """Count what is missing, also where a dictionary holds a null."""
    if pa.types.is_dictionary(column.type) and any(c.dictionary.null_count for c in column.chunks):
        return int(pc.sum(pc.is_null(column.cast(column.type.value_type))).as_py())
    return int(column.null_count)


def _is_id(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_int64(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )


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
    time: npt.NDArray[np.int64] | None = None
    part: npt.NDArray[np.int8] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

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
    def matrix(self) -> sparse.csr_array:
        """The interactions as a binary matrix, float32, users x items."""
        return binary_csr(self.user, self.item, (self.n_users, self.n_items))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: unique pairs of original ids in order, one `user item` a line.

        It survives re-ordering of rows and changes of file format. Where the data came as
        train and test files, it is the hash over the hash of each part.
        """
        if self.part is None:
            return self._content_hash(slice(None))
        parts = [(PARTS[code], self.part == code) for code in np.unique(self.part)]
        text = "".join(f"{name} {self._content_hash(rows)}\n" for name, rows in parts)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def rows_digest(self) -> str:
        """SHA-256 of the rows as they stand: unlike the fingerprint, order and times count."""
        digest = hashlib.sha256()
        for column in (self.user, self.item, self.time, self.part):
            if column is not None:
                digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def part_fingerprint(self, part: str) -> str:
        """The content hash of one distributed part."""
        if self.part is None:
            raise DataError(f"{self.name} did not come in parts")
        return self._content_hash(self.part == PARTS.index(part))

    def _content_hash(self, rows: slice | npt.NDArray[np.bool_]) -> str:
        user, item = self.user[rows], self.item[rows]
        # One sort of one integer key beats a two-key sort by far.
        key = np.sort(user.astype(np.int64) * self.n_items + item)
        digest = hashlib.sha256()
        users, items = self.user_ids.cast(pa.string()), self.item_ids.cast(pa.string())
        for start in range(0, len(key), 1 << 20):
            u, i = np.divmod(key[start : start + (1 << 20)], self.n_items)
            line = pc.binary_join_element_wise(
                users.take(pa.array(u)), items.take(pa.array(i)), " "
            )
            text = pc.binary_join_element_wise(line, "", "\n")
            digest.update(_bytes_of(text))
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the dataset to one Parquet file, whole or not at all.

        `user` and `item` are indices; row n of `user_id` is the original id of user n. The
        shorter columns are filled up with nulls, which take no space.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
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
        }
        with atomic_path(path) as temporary:
            _write(columns, json.dumps(header), temporary)
            seal(temporary)

    def _columns(self) -> Iterator[tuple[str, Any]]:
        for name in ("user", "item", "time", "part", "user_ids", "item_ids"):
            if getattr(self, name) is not None:
                yield name.removesuffix("s"), getattr(self, name)

    @classmethod
    def load(cls, path: Path) -> "Dataset":
        """Read a file written by `save`, once every byte of it has been verified."""
        if not path.is_file():
            raise DataError(f"{path} does not exist")
        check_seal(path)
        file = pq.ParquetFile(path)
        header = json.loads(file.metadata.metadata[b"recbench"])
        if header["format"] > FORMAT:
            raise DataError(f"{path} was written by a newer recbench; upgrade to read it")
        names = set(file.schema_arrow.names)
        rows = {
            name: _read(file, name, header["rows"]).to_numpy()
            for name in ("user", "item", "time", "part")
            if name in names
        }
        data = cls(
            name=header["name"],
            user_ids=_read(file, "user_id", header["users"]).combine_chunks(),
            item_ids=_read(file, "item_id", header["items"]).combine_chunks(),
            provenance=header["provenance"],
            **rows,
        )
        data.__dict__["fingerprint"] = header["fingerprint"]
        return data


def load_embedded(name: str) -> Dataset:
    """Load a dataset that comes with the package."""
    source = importlib.resources.files("recbench") / "data_files" / f"{name}.parquet"
    with importlib.resources.as_file(source) as path:
        return Dataset.load(path)


def _write(columns: Mapping[str, pa.Array], header: str, path: Path) -> None:
    """Write columns of unequal length, one row group after the other."""
    length = max(len(values) for values in columns.values())
    schema = pa.schema([(name, values.type) for name, values in columns.items()])
    # Ids ascend, and rows often do: differences are small and sorted text shares its beginnings.
    encoding = {"user": "DELTA_BINARY_PACKED"}
    for name in ("user_id", "item_id"):
        ascending = pa.types.is_integer(columns[name].type)
        encoding[name] = "DELTA_BINARY_PACKED" if ascending else "DELTA_BYTE_ARRAY"
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[name for name in columns if name not in encoding],
        column_encoding=encoding,
        store_schema=False,
    ) as file:
        for start in range(0, max(length, 1), ROW_GROUP):
            stop = min(start + ROW_GROUP, length)
            group = [_padded(values, start, stop) for values in columns.values()]
            file.write_table(pa.Table.from_arrays(group, schema=schema))
        file.add_key_value_metadata({"recbench": header})


def _padded(values: pa.Array, start: int, stop: int) -> pa.Array:
    part = values[start:stop]
    missing = stop - start - len(part)
    return pa.concat_arrays([part, pa.nulls(missing, part.type)]) if missing else part


def _read(file: pq.ParquetFile, name: str, length: int) -> pa.ChunkedArray:
    """Read the first rows of one column, and no row group beyond them."""
    groups = range(-(-length // ROW_GROUP))
    return file.read_row_groups(list(groups), [name])[name].slice(0, length)


def seal(path: Path) -> None:
    """Write the SHA-256 of a Parquet file into it, before its footer.

    Parquet readers find the footer from the end of the file and everything else by its distance
    from the beginning, so none of them notices.
    """
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        footer = _footer_start(file)
        file.seek(footer)
        tail = file.read()
        file.seek(footer)
        file.write(SEAL + digest.encode() + tail)


def check_seal(path: Path) -> None:
    """Refuse a file of which any byte is not as `seal` left it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = _footer_start(file) - len(SEAL) - 2 * digest.digest_size
        file.seek(0)
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
        found = file.read(len(SEAL) + 2 * digest.digest_size)
        digest.update(file.read())
    if found != SEAL + digest.hexdigest().encode():
        raise DataError(
            f"{path} is not a recbench dataset, or is damaged; "
            f"move it away and it will be prepared again"
        )


def _footer_start(file: BinaryIO) -> int:
    """Where the footer of a Parquet file begins: its length stands 8 bytes before the end."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    return max(0, end - 8 - int.from_bytes(file.read(4), "little"))


def binary_csr(user: Indices, item: Indices, shape: tuple[int, int]) -> sparse.csr_array:
    """Build a sorted float32 matrix of ones from unique pairs."""
    ones = np.ones(len(user), dtype=np.float32)
    matrix = sparse.csr_array((ones, (user, item)), shape=shape)
    matrix.sort_indices()
    return matrix


def _bytes_of(text: pa.Array) -> memoryview:
    """The concatenated bytes of a freshly built string array."""
    return memoryview(text.buffers()[2])


def ids_from(values: Iterable[Any]) -> pa.Array:
    """Make an id array from Python values: int64 if they are integers, else text."""
    listed = list(values)
    kind = pa.int64() if all(isinstance(value, int) for value in listed) else pa.string()
    return pa.array(listed, type=kind)
