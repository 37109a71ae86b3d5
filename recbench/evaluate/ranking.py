"""What every user was recommended, and which of it was held out."""

from dataclasses import dataclass

import numpy as np

from recbench.linalg.types import Counts, Flags, Indices, Sparse

BITMAP_BYTES = 1 << 22
"""Working memory of the membership test; larger ones fall out of the processor's cache."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """What every user was recommended, and which of it was held out."""

    items: Indices
    """Users x depth, best first, no item twice; -1 where there was nothing to recommend."""
    hits: Flags
    """Users x depth: whether the item at this rank is one of the user's held-out items."""
    targets: Counts
    """How many items are held out of each user, at least one."""
    popularity: Counts
    """How many users have each item in the train matrix."""
    n_train_users: int
    """How many users the train matrix has."""
    tied: Counts | None = None
    """How many leading ranks of each user share the best score, one rank beyond depth included;
    more than any cutoff where all candidates do. None: nobody's best items are tied."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not describe the same users."""
        users = len(self.targets)
        if self.items.ndim != 2 or self.items.shape != self.hits.shape or len(self.items) != users:
            shapes = f"items {self.items.shape}, hits {self.hits.shape}, targets {users}"
            raise ValueError(f"not the same users and depth: {shapes}")
        if users and self.targets.min() < 1:
            raise ValueError(
                "a user without held-out items cannot be evaluated; leave such users out"
            )
        if self.n_train_users < 1:
            raise ValueError("there are no train users")

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def n_items(self) -> int:
        """How many items could have been recommended."""
        return len(self.popularity)

    def hits_at(self, k: int) -> Flags:
        """The hits among the first k ranks; none where those and the next are all tied."""
        self._check_depth(k)
        untied = self._untied(k)
        return self.hits[:, :k] if untied is None else self.hits[:, :k] & untied

    def items_at(self, k: int) -> Indices:
        """The items at the first k ranks; -1 where those and the next are all tied."""
        self._check_depth(k)
        untied = self._untied(k)
        items = self.items[:, :k]
        return items if untied is None else np.where(untied, items, np.int32(-1))

    def _untied(self, k: int) -> Flags | None:
        """As a column: whose first k ranks the scores tell, and not the tie rule alone."""
        if self.tied is None or (self.tied <= k).all():
            return None
        untied: Flags = (self.tied <= k)[:, np.newaxis]
        return untied

    def hit_counts(self, k: int) -> Counts:
        """How many of each user's held-out items are among the first k ranks."""
        counts: Counts = self.hits_at(k).sum(axis=1, dtype=np.int64)
        return counts

    def _check_depth(self, k: int) -> None:
        # A list cut at 20 would pass for a list of 100 whose last 80 ranks all missed.
        depth = self.items.shape[1]
        if k < 1 or depth < min(k, self.n_items):
            raise ValueError(f"a ranking of depth {depth} does not tell the top {k}")


def build_ranking(
    items: Indices,
    target: Sparse,
    popularity: Counts,
    n_train_users: int,
    tied: Counts | None = None,
) -> Ranking:
    """Find the hits in users x depth best items (-1: none), given the held-out items as rows.

    `tied` is the field of that name: a user whose first k ranks and the next all have one score
    was recommended nothing by a metric at k, for their order is nothing but the tie rule.
    """
    if (len(items), len(popularity)) != target.shape:
        raise ValueError(f"{len(items)} users and {len(popularity)} items, targets {target.shape}")
    if items.size and not -1 <= items.min() <= items.max() < len(popularity):
        raise ValueError("an item must be the index of a column, or -1")
    counts = np.diff(target.indptr).astype(np.int64)
    return Ranking(items, _is_target(items, target), counts, popularity, n_train_users, tied)


def _is_target(items: Indices, target: Sparse) -> Flags:
    """Look every item up in a bitmap of the held-out items, a block of users at a time."""
    users, n_items = target.shape
    step = max(1, BITMAP_BYTES // (n_items + 1))
    # The spare last column is what -1 points at: never marked, so never a hit.
    marked = np.zeros((min(step, users), n_items + 1), dtype=np.bool_)
    hits = np.zeros(items.shape, dtype=np.bool_)
    for start in range(0, users, step):
        block = items[start : start + step]
        ends = target.indptr[start : start + len(block) + 1]
        rows = np.repeat(np.arange(len(block)), np.diff(ends))
        columns = target.indices[ends[0] : ends[-1]]
        marked[rows, columns] = True
        hits[start : start + step] = np.take_along_axis(marked[: len(block)], block, axis=1)
        marked[rows, columns] = False
    return hits
