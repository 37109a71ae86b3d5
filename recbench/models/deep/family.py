"""The family of models that PyTorch trains: what they have in common, and how they are fitted.

A model says how large it is and makes its net. Everything else is here and in `nets/trainer.py`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from recbench.linalg import blas
from recbench.linalg.types import Sparse
from recbench.models.base import Family, Fit
from recbench.models.context import Context
from recbench.models.deep.library import EXTRA, session
from recbench.models.deep.shape import Shape
from recbench.models.deep.training import Training
from recbench.models.factors.als import checked
from recbench.models.rounds import but_for_epochs, run
from recbench.registry import MODELS

if TYPE_CHECKING:
    from recbench.models.deep.nets.trainer import Net, Place

C = TypeVar("C", bound=type[Any])
COPIES = 6
"""Of every number: itself, its gradient, two moments, what validation liked best, what ranks."""


class Deep(Protocol):
    """A model that makes a net."""

    name: ClassVar[str]
    training: Training

    @property
    def text(self) -> str:
        """The canonical text of the model."""

    def numbers(self, train: Sparse) -> tuple[int, int]:
        """How many numbers are trained, and how many a step makes on its way."""

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""


class DeepFamily(Family[Deep]):
    """Fits models that differ in nothing but the number of epochs at once."""

    reserves = True

    def key(self, model: Deep) -> Hashable:
        """Everything but the number of epochs, unless validation has a say in that."""
        return but_for_epochs(model)

    def fit(self, models: Sequence[Deep], train: Sparse, ctx: Context) -> list[Fit]:
        """Train for as long as the longest asks; each gets what there is when it would end."""
        counts = [model.training.epochs for model in models]
        longest = models[int(np.argmax(counts))]
        matrix = checked(train, longest.name)
        _reserve(longest, matrix, ctx)
        with session(ctx) as device, blas.workers() as pool:
            from recbench.models.deep.nets.trainer import Epochs, Place, told_of_memory

            with told_of_memory(longest.name, device):
                net = longest.net(matrix, Place(device, ctx))
                fit = Epochs(net, longest.name, longest.training, pool, ctx)
                schedule = longest.training.schedule
                return run(fit, ctx, longest.name, longest.text, schedule, counts)

    def operations(self, models: Sequence[Deep], train: Sparse, ctx: Context) -> float | None:
        """Three products of matrices in every step, where these take nearly all of the time."""
        longest = max(models, key=lambda model: model.training.epochs)
        shape = getattr(longest, "shape", None)
        if not isinstance(shape, Shape):
            return None
        return 6.0 * train.shape[0] * train.shape[1] * shape.widths[-1] * longest.training.epochs


def deep(name: str) -> Callable[[C], C]:
    """Register a class of models that make nets."""

    def keep(cls: C) -> C:
        cls.family, cls.extra, cls.stochastic, cls.traced = DeepFamily(), EXTRA, True, True
        cls.most_rounds = property(lambda model: model.training.epochs)
        return MODELS.register(name)(cls)  # type: ignore[no-any-return]

    return keep


def _reserve(model: Deep, train: Sparse, ctx: Context) -> None:
    """Say what does not fit in memory, before anything is made."""
    (users, items), size = train.shape, np.dtype(ctx.dtype).itemsize
    trained, passing = model.numbers(train)
    ctx.reserve(
        (COPIES * trained + passing) * size + 24 * train.nnz,
        f"training {trained:,} numbers for {users:,} users and {items:,} items in steps of "
        f"{model.training.batch:,}",
        "take a smaller batch, fewer or narrower layers, or a higher k-core",
    )
