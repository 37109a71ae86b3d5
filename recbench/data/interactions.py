"""Interactions as read: a checked table of rows as they stand in the raw file, original ids."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from recbench.errors import DataError

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
        types = {"value": pa.float64(), "time": pa.int64(), "part": pa.int8()}
        for column, kind in types.items():
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
