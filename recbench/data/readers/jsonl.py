"""JSON Lines of any kind: say which key is what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits
from recbench.data.readers.cells import ORDERS
from recbench.data.readers.columns import UNITS, TableBuilder
from recbench.data.readers.options import NEEDED, columns_option
from recbench.data.readers.records import JSON, read_records
from recbench.params import Described, make, param
from recbench.registry import READERS


@dataclass(frozen=True)
class JsonLines(Described):
    """Options of the reader, beside `columns`."""

    name: ClassVar[str] = "jsonl"

    member: str | None = param(None, help="path or glob of the file in an archive")
    time_unit: str = param("s", choices=UNITS, help="what dates become")
    dates: str = param("iso", choices=tuple(ORDERS), help="how they are written; 31/12/2025 is "
                       "day-first")  # fmt: skip


@READERS.register("jsonl")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a line, from the keys that `columns` names; `user` and `item` by default."""
    words = dict(options)
    keys = {role: role for role in NEEDED} | columns_option(words)
    settings = make(JsonLines, words)
    builder = TableBuilder(missing=("",), time_unit=settings.time_unit, dates=settings.dates)
    return read_records(paths, keys, JSON, limits, settings.member, builder)
