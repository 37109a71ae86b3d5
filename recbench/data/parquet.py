"""The Parquet file of a dataset: columns of unequal length, and a seal over every byte."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from recbench.errors import DataError

ROW_GROUP = 1 << 20
"""Rows of a Parquet row group; part of the layout."""

SEAL = b"recbench sha256 "
"""What stands before the digest that a Parquet file of ours carries."""


def write(columns: Mapping[str, pa.Array], header: str, path: Path) -> None:
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


def read(file: pq.ParquetFile, name: str, length: int) -> pa.ChunkedArray:
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
        trailer = file.read(len(SEAL) + 2 * digest.digest_size)
        digest.update(file.read())
    if trailer != SEAL + digest.hexdigest().encode():
        raise DataError(
            f"{path} is not a recbench dataset, or is damaged; "
            f"move it away and it will be prepared again"
        )


def _footer_start(file: BinaryIO) -> int:
    """Where the footer of a Parquet file begins: its length stands 8 bytes before the end."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    return max(0, end - 8 - int.from_bytes(file.read(4), "little"))
