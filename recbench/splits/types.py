"""Who is held out: a Split is a train matrix and two Parts, whatever rule made it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recbench.linalg.locked import checksum, parts
from recbench.linalg.types import Indices, Sparse


@dataclass(frozen=True, eq=False)
class Part:
    """Users to recommend to: what a model may see of them and what it should find.

    `history`, `target` and `seen` have the same rows, one per user, and the columns of the
    train matrix. `seen` are the items never recommended; most splits hide just the history.
    Matrices may be shared between the parts and the train matrix: read them, never write.
    """

    history: Sparse
    target: Sparse
    users: Indices
    """The row of the dataset that each row here stands for."""
    train_rows: Indices
    """The row of the train matrix for each row here; -1 for a user the model never met."""
    hidden: "Sparse | None" = None

    def __post_init__(self) -> None:
        """Refuse matrices that do not speak of the same users and items."""
        shapes = {self.history.shape, self.target.shape, self.seen.shape}
        rows = {len(self.users), len(self.train_rows), self.target.shape[0]}
        if len(shapes) > 1 or len(rows) > 1:
            raise ValueError(f"a Part of shapes {sorted(shapes)} for {sorted(rows)} users")

    @property
    def seen(self) -> Sparse:
        """The items that must not be recommended."""
        return self.history if self.hidden is None else self.hidden


@dataclass(frozen=True, eq=False)
class Split:
    """One division of a dataset.

    Models are fitted on `train` and chosen on `valid`. The chosen one is scored on `test`; rules
    that refit, as that for given train and test files does, have it fitted on `full` before.
    """

    text: str
    train: Sparse
    valid: Part
    test: Part
    items: Indices
    """The item of the dataset that each column stands for."""
    full: "Sparse | None" = None
    """`train` and what validation took from it, where the rule refits; else None."""
    users: Indices | None = None
    """The user of the dataset that each row of `train` and `full` stands for; None: row u is u."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What the rule left out, in words, and how many of it."""

    @property
    def checksum(self) -> int:
        """Another number if anything in here was written to."""
        arrays = [*parts(self.train), *(() if self.full is None else parts(self.full))]
        for part in (self.valid, self.test):
            arrays += [part.users, part.train_rows]
            for matrix in (part.history, part.target, part.seen):
                arrays += parts(matrix)
        return checksum(arrays)

    def stage(self, part: str) -> tuple[Sparse, Part]:
        """Return what to fit on and what to score on for 'valid' or 'test'."""
        if part == "valid":
            return self.train, self.valid
        return self.train if self.full is None else self.full, self.test
