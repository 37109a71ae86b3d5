"""Auto-encoders by name: a user's items are found again from a short code of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from recbench.linalg.types import Sparse
from recbench.models.base import Model
from recbench.models.deep.family import C, deep
from recbench.models.deep.shape import LIKELIHOODS, Shape
from recbench.models.deep.training import Training
from recbench.params import Described, inlined, param

if TYPE_CHECKING:
    from recbench.models.deep.nets.trainer import Net, Place

LIANG = "Liang et al. (2018), Variational Autoencoders for Collaborative Filtering"
LAYERS = "f: the layers, tanh but for the last"
HAS = "x: the user's row of the train matrix, x̃: what dropout leaves of"


@dataclass(frozen=True)
class Code(Described):
    """What goes in, and how short the code is."""

    code: int = param(200, help="width of the code", low=1, high=100_000, log=True)
    dropout: float = param(
        0.5, help="share of a user's items that a step leaves out", low=0, high=1, open_high=True,
        search=(0.1, 0.8),
    )  # fmt: skip


@dataclass(frozen=True)
class Around(Described):
    """What is around the code."""

    hidden: int = param(
        0, help="width of a layer on either side of the code; 0: none", low=0, high=100_000
    )


class _Shaped(Protocol):
    """An auto-encoder."""

    training: Training

    @property
    def shape(self) -> Shape:
        """Its layers."""


def _auto_encoder(name: str) -> Callable[[C], C]:
    """Register a class of models that say all by a shape."""

    def keep(cls: C) -> C:
        cls.numbers, cls.net = _numbers, _net
        return deep(name)(cls)

    return keep


def _numbers(model: _Shaped, train: Sparse) -> tuple[int, int]:
    """How many numbers are trained, and how many a step makes on its way."""
    return model.shape.numbers(*train.shape, model.training.batch)


def _net(model: _Shaped, train: Sparse, place: "Place") -> "Net":
    """What is trained, as it is before the first step."""
    from recbench.models.deep.nets.autoencoders import Autoencoder

    return Autoencoder(train, model.shape, model.training, place)


def _layers(code: int, hidden: int) -> list[int]:
    """Widths of the layers between what goes in and what comes out."""
    return [hidden, code, hidden] if hidden else [code]


@_auto_encoder("mult-dae")
@dataclass(frozen=True)
class MultDae(Model):
    """Denoising auto-encoder on a multinomial likelihood (Mult-DAE)."""

    cite = LIANG
    formula = "-Σ_i x_i log softmax_i(f(x̃)) + l2 Σ W²"
    symbols = f"of each user; {HAS} x / |x|; {LAYERS}; W: their weights"
    training: Training = inlined(Training, l2=2e-5)
    ends: Code = inlined(Code)
    around: Around = inlined(Around)

    @property
    def shape(self) -> Shape:
        """Its layers."""
        return Shape(_layers(self.ends.code, self.around.hidden), dropout=self.ends.dropout)


@_auto_encoder("mult-vae")
@dataclass(frozen=True)
class MultVae(Model):
    """Variational auto-encoder on a multinomial likelihood (Mult-VAE)."""

    cite = LIANG
    formula = "-Σ_i x_i log softmax_i(f(z)) + β KL(N(μ, σ²) | N(0, 1))"
    symbols = (
        f"of each user; {HAS} x / |x|; z: drawn from N(μ, σ²), which layers make of x̃; {LAYERS}; "
        "β: the number of steps so far / anneal, at most beta"
    )
    training: Training = inlined(Training)
    ends: Code = inlined(Code)
    around: Around = inlined(Around, hidden=600)
    beta: float = param(
        0.2, help="what the divergence of the codes weighs in the end", low=0, high=1,
        search=(0.05, 1.0),
    )  # fmt: skip
    anneal: int = param(
        200_000, help="steps after which it would weigh 1; 1: beta at once", low=1, log=True,
        search=(1_000, 200_000),
    )  # fmt: skip

    @property
    def shape(self) -> Shape:
        """Its layers."""
        widths = _layers(self.ends.code, self.around.hidden)
        return Shape(
            widths, dropout=self.ends.dropout, drawn=len(widths) // 2, beta=self.beta,
            anneal=self.anneal,
        )  # fmt: skip


@_auto_encoder("cdae")
@dataclass(frozen=True)
class Cdae(Model):
    """Denoising auto-encoder with a vector for every user (CDAE)."""

    cite = "Wu et al. (2016), Collaborative Denoising Auto-Encoders for Top-N Recommender Systems"
    formula = "Σ_i l(f(x̃ W + v)_i, x_i) + l2 Σ (W² + v²)"
    symbols = (
        f"of each user; {HAS} x; v: the vector of the user, 0 for who was not trained on; f: the "
        "layers; l: -log of a likelihood"
    )
    training: Training = inlined(Training, epochs=100, rate=0.003, l2=0.0)
    ends: Code = inlined(Code)
    activation: str = param("sigmoid", help="of the code", choices=("sigmoid", "tanh", "relu"))
    likelihood: str = param(
        "logistic", help="of every score, of which there should be 1 or 0", choices=LIKELIHOODS[1:]
    )

    @property
    def shape(self) -> Shape:
        """Its layers."""
        return Shape(
            [self.ends.code], self.activation, self.ends.dropout, scaled=False,
            likelihood=self.likelihood, personal=True,
        )  # fmt: skip
