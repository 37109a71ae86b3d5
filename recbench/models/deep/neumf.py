"""Neural matrix factorisation: a product of vectors, beside layers that compare two others."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recbench.linalg.types import Sparse
from recbench.models.base import Model
from recbench.models.deep.family import deep
from recbench.models.deep.training import Training
from recbench.params import inlined, param

if TYPE_CHECKING:
    from recbench.models.deep.nets.trainer import Net, Place


@deep("neumf")
@dataclass(frozen=True)
class NeuMf(Model):
    """Neural matrix factorisation: products of vectors beside a tower of layers (NeuMF)."""

    cite = "He et al. (2017), Neural Collaborative Filtering"
    formula = "log(1 + e^(-s_ui)) + Σ_j log(1 + e^(s_uj)), s_ui = h·(p_u ∘ q_i) + f(p'_u, q'_i)"
    symbols = (
        "of each interaction of u with i; j: items drawn for it that u does not have; p, q, p', "
        "q': vectors; f: layers with rectifiers"
    )
    trained_users_only = True
    training: Training = inlined(Training, epochs=20, batch=2048)
    factors: int = param(
        32, help="length of all vectors, and width of the first layer", low=1, high=100_000,
        log=True,
    )  # fmt: skip
    layers: int = param(3, help="layers of the tower, each half as wide as the one before", low=1,
                        high=10)  # fmt: skip
    drawn: int = param(4, help="items drawn for an interaction, anew in each epoch", low=1,
                       high=100_000, log=True, search=(1, 10))  # fmt: skip

    @property
    def widths(self) -> list[int]:
        """Of the layers of the tower."""
        return [max(1, self.factors >> at) for at in range(self.layers)]

    def numbers(self, train: Sparse) -> tuple[int, int]:
        """How many numbers are trained, and how many a step makes on its way."""
        faced = min(self.training.batch, train.nnz) * (1 + min(self.drawn, train.shape[1]))
        return (
            2 * sum(train.shape) * self.factors + 2 * self.factors**2,
            2 * faced * (3 * self.factors + sum(self.widths)),
        )

    def net(self, train: Sparse, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.towers import Pairs

        return Pairs(train, self.factors, self.widths, self.drawn, self.training, place)
