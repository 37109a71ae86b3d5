"""The plugin door for models: Model, Family and the Context a fit may ask things of."""

import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from recbench.environment import free_memory, usable_cores
from recbench.errors import RecbenchError, Refused
from recbench.models.scorers import Scorer
from recbench.registry import Described

if TYPE_CHECKING:
    import pyarrow as pa  # a tenth of a second that listing models need not take

Note = Callable[[str, int, int], None]
Fit = Scorer | RecbenchError
"""A fitted model, or why this one of a group could not be fitted."""


def quiet(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass
class Context:
    """What a fit may ask of the world; everything else is in the model or the train matrix."""

    seed: int = 0
    threads: int = field(default_factory=usable_cores)
    dtype: npt.DTypeLike = np.float32
    memory: int | None = None
    """Bytes a fit may use; None is whatever is free."""
    scratch: Path | None = None
    """Where a fit may keep large arrays and checkpoints on disk; None keeps them in memory."""
    audience: "tuple[pa.Array, pa.Array] | None" = None
    """Ids of the users about to be ranked and of the items, for models made elsewhere."""
    validate: Callable[[Scorer], float] | None = None
    """Scores a half-trained model on held-out data, for early stopping; higher is better."""
    watch: Callable[[Scorer], Mapping[str, float]] | None = None
    """Where a trace is wanted: measures a half-trained model, to be noted and not acted upon."""
    progress: Note = quiet

    def reserve(self, needed: int, what: str, advice: str) -> None:
        """Refuse, in a sentence, a job that does not fit in memory."""
        free = self.memory if self.memory is not None else free_memory()
        if needed > free:
            raise Refused(f"{what} needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB free; {advice}")

    def reserve_disk(self, needed: int, what: str) -> None:
        """Make the scratch folder, and refuse a job that does not fit on its disk."""
        assert self.scratch is not None
        self.scratch.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.scratch).free
        if needed > free:
            raise Refused(
                f"{what} needs {needed / 1e9:.1f} GB in {self.scratch}, "
                f"{free / 1e9:.1f} GB free; choose another folder"
            )


class Family:
    """Fits many models on one train matrix, doing the work they share once.

    Models with equal `key` form a group and are fitted together. This default shares nothing.
    """

    def key(self, model: "Model") -> Hashable:
        """Name the heavy step this model needs; equal keys are fitted in one go."""
        return model.text

    def fit(
        self, models: Sequence["Model"], train: sparse.csr_array, ctx: Context
    ) -> Sequence[Fit]:
        """Fit a group of models of equal key; one Scorer each, in order.

        What stops all of them is raised. What stops one is returned in its place.
        """
        return [model.fit(train, ctx) for model in models]

    def operations(self, models: Sequence["Model"], train: sparse.csr_array) -> float | None:
        """Floating-point operations of fitting a group, nearly all in matrix products; None where
        that cannot be told beforehand.
        """
        return None


class Model(Described):
    """Hyper-parameters, frozen, whose `fit` returns a Scorer.

    Subclasses are dataclasses with `param` fields, registered under a name. A model knows its
    arithmetic; it never sees held-out data, metrics or files.
    """

    family: ClassVar[Family] = Family()
    cite: ClassVar[str] = ""
    one_part: ClassVar[bool] = False
    """Whether a fit serves the part it was made for and no other."""
    stochastic: ClassVar[bool] = False
    """Whether the seed matters; a model without randomness is run once, whatever the seeds."""
    reserves: ClassVar[bool] = False
    """Whether a fit asks `ctx.reserve` before anything that takes long, as a dry run may then."""
    traced: ClassVar[bool] = False
    """Whether scorers have a `trace`: one mapping of names to numbers for each round of the fit."""

    def fit(self, train: sparse.csr_array, ctx: Context) -> Scorer:
        """Fit one model. Models of a sharing family inherit this and implement the family."""
        (fitted,) = self.family.fit([self], train, ctx)
        if isinstance(fitted, RecbenchError):
            raise fitted
        return fitted
