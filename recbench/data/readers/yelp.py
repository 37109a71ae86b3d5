"""The Yelp Open Dataset: a zip with a tar, gzip'd whatever its name says, with review.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.records import JSON, read_records
from recbench.params import Described, make, param
from recbench.registry import READERS

KEYS = {"user": "user_id", "item": "business_id", "value": "stars", "time": "date"}


@dataclass(frozen=True)
class Yelp(Described):
    """Options of the reader."""

    name: ClassVar[str] = "yelp"

    member: str = param("*review.json", help="path or glob of the reviews in the archive")


@READERS.register("yelp")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a review: user, business, stars and the second it was written."""
    settings = make(Yelp, options)
    return read_records(paths, KEYS, JSON, limits, settings.member, TableBuilder(missing=("",)))
