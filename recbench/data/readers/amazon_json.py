"""Amazon review files: JSON Lines in most releases, Python literals in some of 2014."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.records import EITHER, read_records
from recbench.params import Described, make, param
from recbench.registry import READERS

KEYS = {"user": "reviewerID", "item": "asin", "value": "overall", "time": "unixReviewTime"}


@dataclass(frozen=True)
class AmazonJson(Described):
    """Options of the reader."""

    name: ClassVar[str] = "amazon-json"

    member: str | None = param(None, help="path or glob of the file in an archive")


@READERS.register("amazon-json")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a review: reviewer, product, stars and the second it was written."""
    settings = make(AmazonJson, options)
    return read_records(paths, KEYS, EITHER, limits, settings.member, TableBuilder(missing=("",)))
