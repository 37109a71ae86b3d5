"""Steam reviews: a Python 2 dict literal a line, gzip'd.

There is no rating. `username` is on every line, `user_id` on some: they make different users,
and a review without the identity that is asked for is left out. Names are taken as they are,
be they empty, `nan` or `null`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.records import PYTHON, read_records
from recbench.params import Described, make, param
from recbench.registry import READERS


@dataclass(frozen=True)
class Steam(Described):
    """Options of the reader."""

    name: ClassVar[str] = "steam"

    identity: str = param("username", choices=("username", "user_id"), help="who the user is")
    member: str | None = param(None, help="path or glob of the file in an archive")


@READERS.register("steam")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a review: user, product and the day it was written, in seconds."""
    settings = make(Steam, options)
    keys = {"user": settings.identity, "item": "product_id", "time": "date"}
    return read_records(
        paths, keys, PYTHON, limits, settings.member, TableBuilder(), leave_out="user"
    )
