"""Auto-encoders by name: a user's items are found again from a short code of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import sparse

from recbench.models.base import Model
from recbench.models.deep.family import deep
from recbench.models.deep.training import Training
from recbench.params import inlined, param

if TYPE_CHECKING:
    from recbench.models.deep.nets.trainer import Net, Place

LIANG = "Liang et al. (2018), Variational Autoencoders for Collaborative Filtering"


def _numbers(
    users: int, items: int, widths: Sequence[int], batch: int, *, drawn: int = -1, rows: int = 0
) -> tuple[int, int]:
    """What an auto-encoder of these widths trains, and what a step makes on its way."""
    made = [width * (2 if at == drawn else 1) for at, width in enumerate(widths)]
    inner = sum(low * high for low, high in zip(widths[:-1], made[1:], strict=True))
    trained = items * (made[0] + widths[-1] + 1) + inner + sum(made) + rows * made[0]
    return trained, batch * (2 * items + 4 * sum(made))


@deep("mult-dae")
@dataclass(frozen=True)
class MultDae(Model):
    """Denoising auto-encoder on a multinomial likelihood (Mult-DAE)."""

    cite = LIANG
    formula = "-Σ_i x_i log softmax_i(f(x̃)) + l2 Σ W²"
    symbols = (
        "of each user; x: the user's row of the train matrix, x̃: what dropout leaves of x / |x|; "
        "f: the layers, tanh but for the last; W: their weights"
    )
    training: Training = inlined(Training, l2=2e-5)
    code: int = param(200, help="width of the code", low=1, high=100_000, log=True)
    hidden: int = param(0, help="width of the layers around the code; 0: none", low=0,
                        high=100_000)  # fmt: skip
    dropout: float = param(0.5, help="share of a user's items that a step leaves out", low=0,
                           high=1, open_high=True, search=(0.2, 0.8))  # fmt: skip

    @property
    def widths(self) -> list[int]:
        """Of the layers between what goes in and what comes out."""
        return [self.hidden, self.code, self.hidden] if self.hidden else [self.code]

    def numbers(self, users: int, items: int) -> tuple[int, int]:
        """How many numbers are trained, and how many a step makes on its way."""
        return _numbers(users, items, self.widths, self.training.batch)

    def net(self, train: sparse.csr_array, place: "Place") -> "Net":
        """What is trained, as it is before the first step."""
        from recbench.models.deep.nets.autoencoders import Autoencoder, Shape

        return Autoencoder(train, Shape(self.widths, dropout=self.dropout), self.training, place)
