"""Interactions as read: a checked table of rows as they stand in the raw file, original ids."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from recbench.errors import DataError

PARTS = ("train", "valid", "test")
"""The values of an optional `part` column: splits that were distributed as files."""

TYPES = {"value": (pa.float64(), pa.float32()), "time": (pa.int64(),), "part": (pa.int8(),)}
"""What columns beside the ids may be, the usual type first."""
IDS = (pa.int64(), pa.int32(), pa.string(), pa.large_string())


@dataclass(frozen=True)
class Interactions:
    """A checked Arrow table: `user`, `item`, optional `value`, `time` and `part`, in file order.

    Ids are integers or strings (possibly dictionary-encoded), `value` is a float and `time` an
    int64; `part` is int8, an index into PARTS. Columns of 32 bits are half as large, and stand for
    the same numbers: readers give them where they are enough.
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
        for column, kinds in TYPES.items():
            if column in names and self.table[column].type not in kinds:
                raise DataError(
                    f"column '{column}' must be {kinds[0]}, not {self.table[column].type}"
                )
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
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in IDS
