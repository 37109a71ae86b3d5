"""Recommendations made elsewhere, through the same evaluator: `--model file:recs.parquet`.

Several stand side by side under labels of their own: `--model file[path=a.csv,label=lightgcn]`.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from recbench.errors import DataError, RecbenchError, Refused, UsageError
from recbench.linalg.topk import Scales, Top
from recbench.linalg.types import Floats, Indices, Integers, Progress, Sparse, silent
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.scorers import Base, Query, Scorer
from recbench.params import param
from recbench.registry import MODELS

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: listing models need not wait for it

COLUMNS = ("user", "item", "score")


class Lists(Base):
    """A list of scored items for each user of one part, in the order of that part."""

    def __init__(self, scores: Sparse) -> None:
        self.scores = scores

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """The scores, with less than the least for every item that is not listed."""
        if history.shape[0] != self.scores.shape[0]:
            raise RecbenchError("lists from a file rank the users they were made for, all at once")
        lowest = self.scores.data.min(initial=0.0) - 1.0
        block: Floats = np.full(self.scores.shape, lowest)
        users, items = self.scores.nonzero()
        block[users, items] = self.scores.data
        return block

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """The lists themselves, cut at k; only what is listed is recommended."""
        seen, k = query.seen, query.k
        items = np.full((seen.shape[0], k), -1, dtype=np.int32)
        scores = np.full((seen.shape[0], k), -np.inf)
        for row in range(seen.shape[0]):
            start, stop = self.scores.indptr[row : row + 2]
            listed, values = self.scores.indices[start:stop], self.scores.data[start:stop]
            known = seen.indices[seen.indptr[row] : seen.indptr[row + 1]]
            keep = ~np.isin(listed, known)
            best = np.lexsort((listed[keep], -values[keep]))[:k]
            items[row, : len(best)] = listed[keep][best]
            scores[row, : len(best)] = values[keep][best]
        return [Top(items, scores) for _ in scales]


@MODELS.register("file")
@dataclass(frozen=True)
class FromFile(Model):
    """Lists made elsewhere: a parquet or csv file with columns user, item and score."""

    one_part: ClassVar[bool] = True
    path: str = param("", help="the file")
    label: str = param(
        "", help="what tables call it, after file:; default: the file's own name", later=True
    )
    content: str = param("", help="start of the file's SHA-256; filled in")

    def __post_init__(self) -> None:
        """Name the content, so that a changed file is another trial."""
        super().__post_init__()
        if not self.path:
            raise UsageError("which file? write --model file:recs.parquet")
        try:
            digest = hashlib.sha256(Path(self.path).read_bytes()).hexdigest()[:12]
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be read ({error.strerror}); write file:PATH, the path of a "
                "csv or parquet file with lists"
            ) from error
        if self.content not in ("", digest):
            raise DataError(f"{self.path} is not the file that gave those results; it was changed")
        object.__setattr__(self, "content", digest)

    @property
    def shown(self) -> str:
        """Apart from the models of recbench, whatever the label."""
        return f"file:{self.label or Path(self.path).stem}"

    def fit(self, train: Sparse, ctx: Context) -> Scorer:
        """Line the lists up with the users and items that are about to be ranked."""
        assert ctx.audience is not None
        users, items = ctx.audience
        table = read(Path(self.path))
        rows, columns = (
            _positions(table[n], ids, n) for n, ids in zip(COLUMNS, (users, items), strict=False)
        )
        keep = (rows >= 0) & (columns >= 0)
        if not keep.any():
            raise Refused(f"{self.path} has no list for any of the {len(users):,} users to rank")
        scores = table["score"].to_numpy()[keep].astype(np.float64)
        if not np.isfinite(scores).all():
            raise RecbenchError(f"{self.path} has scores that are not finite")
        shape = (len(users), len(items))
        lists = scipy.sparse.csr_array((scores, (rows[keep], columns[keep])), shape=shape)
        if lists.nnz < keep.sum():
            raise RecbenchError(f"{self.path} lists an item twice for one user")
        lists.sort_indices()
        return Scorer(Lists(lists))


def read(path: Path) -> "pa.Table":
    """Read a table of lists."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    except (OSError, pa.ArrowException) as error:
        raise RecbenchError(f"{path} is neither parquet nor csv ({error})") from error
    for column in COLUMNS:
        if column not in table.column_names:
            names = ", ".join(table.column_names)
            raise RecbenchError(f"{path} has no column '{column}' among {names}")
    return table


def _positions(column: "pa.ChunkedArray", ids: "pa.Array", name: str) -> Integers:
    """Where each id stands among those to rank; -1 for ids that are not among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        indices = pc.index_in(column.cast(ids.type), value_set=ids)
    except pa.ArrowException as error:
        raise RecbenchError(
            f"the column '{name}' does not hold ids of the dataset ({error})"
        ) from error
    places: Integers = indices.combine_chunks().fill_null(-1).to_numpy().astype(np.int64)
    return places
