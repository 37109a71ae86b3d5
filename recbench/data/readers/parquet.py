"""Parquet files: say which column is what."""

import difflib
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import HARMLESS, LIMITS, Limits
from recbench.data.readers.cells import CellError
from recbench.data.readers.columns import UNITS, TableBuilder
from recbench.data.readers.options import NEEDED, columns_option, listed, parts_option
from recbench.data.readers.streams import shown
from recbench.errors import DataError
from recbench.params import Described, make, param
from recbench.registry import READERS

ROWS = 1 << 18
"""Rows held at a time beside the columns that are built."""


@dataclass(frozen=True)
class Parquet(Described):
    """Options of the reader, beside `columns` and `parts`."""

    name: ClassVar[str] = "parquet"

    time_unit: str = param("s", choices=UNITS, help="what dates become")


@READERS.register("parquet")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read the columns that `columns` names; `user` and `item` by default."""
    words = dict(options)
    columns = {role: role for role in NEEDED} | columns_option(words)
    parts = parts_option(words, paths)
    settings = make(Parquet, words)
    builder = TableBuilder(missing=("",), time_unit=settings.time_unit)
    for path, part in zip(paths, parts, strict=True):
        row = 0
        with closing(_batches(path, columns, limits)) as batches:
            for batch in batches:
                try:
                    builder.append(
                        {role: _plain(batch[name], role) for role, name in columns.items()}, part
                    )
                except CellError as error:
                    raise DataError(f"{path}, row {row + error.row + 1:,}: {error}") from None
                row += batch.num_rows
    return builder.finish(listed(paths))


def _batches(
    path: Path, columns: Mapping[str, str], limits: Limits
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the wanted columns of a file, some rows at a time."""
    ids = [columns[role] for role in NEEDED]  # as dictionaries: a long text may come often
    try:
        on_disk = path.stat().st_size
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow, columns)
            _check_size(path, file.metadata.num_rows * len(columns), on_disk, limits)
        with pq.ParquetFile(path, read_dictionary=ids, page_checksum_verification=True) as file:
            yield from file.iter_batches(ROWS, columns=list(dict.fromkeys(columns.values())))
    except FileNotFoundError:
        raise DataError(f"{path} cannot be read: there is no such file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = shown(str(error))
        raise DataError(f"{path} cannot be read as Parquet: {reason}") from None


def _check_size(path: Path, cells: int, on_disk: int, limits: Limits) -> None:
    """Refuse a file that would be far larger in memory than it is on disk."""
    most = min(limits.max_bytes, max(HARMLESS, limits.max_ratio * on_disk))
    if 8 * cells > most:
        raise DataError(f"{path} says it has {cells:,} cells, more than its size allows for")


def _check_columns(path: Path, schema: pa.Schema, columns: Mapping[str, str]) -> None:
    for role, name in columns.items():
        if schema.names.count(name) > 1:
            raise DataError(f"{path} has several columns '{name}'")
        if name not in schema.names:
            close = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.5)
            hint = f"did you mean '{shown(close[0])}'? " if close else ""
            raise DataError(
                f"{path} has no column '{name}'; {hint}it has {shown(', '.join(schema.names))}"
            )
        kind = schema.field(name).type
        if not _fits(role, kind.value_type if pa.types.is_dictionary(kind) else kind):
            raise DataError(
                f"{path} has {shown(str(kind))} in column '{name}', which cannot be the {role}"
            )


def _fits(role: str, kind: pa.DataType) -> bool:
    types = pa.types
    simple = [types.is_integer, types.is_string, types.is_large_string, types.is_string_view]
    more = {
        "value": [types.is_floating],
        "time": [types.is_floating, types.is_date, types.is_timestamp],
    }
    return any(test(kind) for test in simple + more.get(role, []))


def _plain(column: pa.Array, role: str) -> pa.Array:
    """Turn newer and packed forms of a column into those that others have."""
    if role not in NEEDED and pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
