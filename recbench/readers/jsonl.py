"""JSON Lines of any kind: say which key is what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recbench.data import Interactions
from recbench.readers.archive import LIMITS, Limits
from recbench.readers.columns import UNITS, Rows
from recbench.readers.options import NEEDED, columns_option
from recbench.readers.records import JSON, read_records
from recbench.registry import READERS, Described, make, param


@dataclass(frozen=True)
class JsonLines(Described):
    """Options of the reader, beside `columns`."""

    name: ClassVar[str] = "jsonl"

    member: str | None = param(None, help="path or glob of the file in an archive")
    time_unit: str = param("s", choices=UNITS, help="what dates become")


@READERS.register("jsonl")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a line, from the keys that `columns` names; `user` and `item` by default."""
    words = dict(options)
    keys = {role: role for role in NEEDED} | columns_option(words)
    settings = make(JsonLines, words)
    rows = Rows(missing=("",), time_unit=settings.time_unit)
    return read_records(paths, keys, JSON, limits, settings.member, rows)
